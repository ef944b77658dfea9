"""Pairs of Avro schemas, of which one is the other with some changes: what a developer does to a record, and what
nobody would do. Made from a number, so that another language can be asked about the same ones.
"""

import copy
import random
from typing import Any

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 8,
    "float": 1.5,
    "double": 2.5,
    "bytes": "b",
    "string": "s",
}
SYMBOLS = ["A", "B", "C", "D"]

Schema = Any


class Maker:
    """One schema; the names that it has given so far."""

    def __init__(self, seed: random.Random) -> None:
        self.seed, self.names = seed, list[str]()

    def record(self, depth: int = 0) -> Schema:
        made = {"type": "record", "name": self._name("R"), "fields": []}
        if self.seed.random() < 0.2:
            made["namespace"] = self.seed.choice(["n", "n.m"])
        for letter in "abcd"[: self.seed.randint(1, 4)]:
            made["fields"].append(self.field(letter, depth + 1))
        return made

    def field(self, name: str, depth: int) -> Schema:
        kind = self.type(depth)
        made = {"name": name, "type": kind}
        default = default_of(kind)
        if default is not None and self.seed.random() < 0.5:
            made["default"] = default[0]
        return made

    def type(self, depth: int) -> Schema:
        makers = [self._primitive] * 4
        if depth < 4:
            makers += [self.union, self._array, self._map, self._enum, self._fixed, self.record, self._known]
        maker = self.seed.choice(makers)
        return maker() if maker == self._primitive else maker(depth + 1)

    def _primitive(self) -> Schema:
        return self.seed.choice(PRIMITIVES)

    def _known(self, depth: int) -> Schema:
        """A type that was named before, which may be the one that it is in: there has to be a way out."""
        return ["null", self.seed.choice(self.names)] if self.names and self.seed.random() < 0.7 else self._primitive()

    def union(self, depth: int) -> Schema:
        found = {label_of(each): each for each in (self.type(depth) for _ in range(self.seed.randint(1, 3)))}
        branches = [each for each in found.values() if not isinstance(each, list)]
        if self.seed.random() < 0.5 and "null" not in branches:
            branches.insert(0, "null")
        return branches or ["null", "int"]

    def _array(self, depth: int) -> Schema:
        return {"type": "array", "items": self.type(depth)}

    def _map(self, depth: int) -> Schema:
        return {"type": "map", "values": self.type(depth)}

    def _enum(self, depth: int) -> Schema:
        made = {"type": "enum", "name": self._name("E"), "symbols": SYMBOLS[: self.seed.randint(1, 4)]}
        if self.seed.random() < 0.3:
            made["default"] = "A"
        return made

    def _fixed(self, depth: int) -> Schema:
        return {"type": "fixed", "name": self._name("F"), "size": self.seed.randint(1, 3)}

    def _name(self, letter: str) -> str:
        name = f"{letter}{len(self.names)}"
        self.names.append(name)
        return name


def label_of(schema: Schema) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name", schema["type"]))
    return str(schema) if isinstance(schema, str) else "union"


def default_of(schema: Schema) -> tuple[Any] | None:
    """A default value; None when there is no simple one."""
    if isinstance(schema, list):
        return default_of(schema[0])
    if isinstance(schema, str):
        return (DEFAULTS[schema],) if schema in DEFAULTS else None
    return {"array": ([],), "map": ({},), "enum": ("A",)}.get(schema["type"])


# --- changes ----------------------------------------------------------------------------------------------------------


def places_in(schema: Schema) -> list[tuple[Any, Any]]:
    """All types inside a schema: what holds each, and at which key."""
    if isinstance(schema, list):
        return [pair for at, each in enumerate(schema) for pair in [(schema, at), *places_in(each)]]
    if not isinstance(schema, dict):
        return []
    found: list[tuple[Any, Any]] = []
    for key in ("items", "values"):
        if key in schema:
            found += [(schema, key), *places_in(schema[key])]
    for each in schema.get("fields", []):
        found += [(each, "type"), *places_in(each["type"])]
    return found


def named_in(schema: Schema, kind: str) -> list[Any]:
    inside = [holder[key] for holder, key in places_in(schema)]
    return [each for each in [schema, *inside] if isinstance(each, dict) and each.get("type") == kind]


def changed(schema: Schema, seed: random.Random) -> Schema:
    made = copy.deepcopy(schema)
    for _ in range(seed.randint(0, 3)):
        seed.choice(CHANGES)(made, seed)
    return made


def _another_type(schema: Schema, seed: random.Random) -> None:
    places = places_in(schema)
    if places:
        holder, key = seed.choice(places)
        if isinstance(holder[key], str) and not isinstance(holder, list):
            holder[key] = seed.choice(PRIMITIVES)
            if "default" in holder:
                holder["default"] = DEFAULTS[holder[key]]


def _into_union(schema: Schema, seed: random.Random) -> None:
    places = [pair for pair in places_in(schema) if not isinstance(pair[0], list)]
    if places:
        holder, key = seed.choice(places)
        if not isinstance(holder[key], list) and holder[key] != "null":
            holder[key] = ["null", holder[key]]
            if "default" in holder:
                holder["default"] = None


def _less_union(schema: Schema, seed: random.Random) -> None:
    unions = [holder[key] for holder, key in places_in(schema) if isinstance(holder[key], list)]
    if unions:
        union = seed.choice(unions)
        if len(union) > 1 and isinstance(union[-1], str):
            union.pop()


def _shuffle_union(schema: Schema, seed: random.Random) -> None:
    for union in [holder[key] for holder, key in places_in(schema) if isinstance(holder[key], list)]:
        if all(isinstance(each, str) for each in union):
            union.reverse()


def _new_field(schema: Schema, seed: random.Random) -> None:
    record = seed.choice(named_in(schema, "record"))
    made = {"name": "new", "type": seed.choice(["int", ["null", "string"], "string"])}
    if seed.random() < 0.6:
        made["default"] = default_of(made["type"])[0]
    if all("new" not in (each["name"], *each.get("aliases", [])) for each in record["fields"]):
        record["fields"].append(made)


def _less_fields(schema: Schema, seed: random.Random) -> None:
    record = seed.choice(named_in(schema, "record"))
    if len(record["fields"]) > 1 and isinstance(record["fields"][-1]["type"], str):
        record["fields"].pop()


def _other_order(schema: Schema, seed: random.Random) -> None:
    record = seed.choice(named_in(schema, "record"))
    if all(isinstance(each["type"], str) for each in record["fields"]):
        record["fields"].reverse()


def _renamed_field(schema: Schema, seed: random.Random) -> None:
    record = seed.choice(named_in(schema, "record"))
    each = seed.choice(record["fields"])
    if any(other["name"] == "other" for other in record["fields"]):
        return
    if seed.random() < 0.7:
        each["aliases"] = [each["name"]]
    each["name"] = "other"


def _renamed(schema: Schema, seed: random.Random) -> None:
    """A type that is used once, by its definition, gets another name, mostly with an alias."""
    found = [each for kind in ("record", "enum", "fixed") for each in named_in(schema, kind)]
    each = seed.choice(found)
    text = repr(schema)
    if text.count(repr(each["name"])) == 1:
        if seed.random() < 0.7:
            each["aliases"] = [each["name"]]
        each["name"] += "x"


def _symbols(schema: Schema, seed: random.Random) -> None:
    for each in named_in(schema, "enum"):
        each["symbols"] = SYMBOLS[: seed.randint(1, 4)]


def _size(schema: Schema, seed: random.Random) -> None:
    for each in named_in(schema, "fixed"):
        each["size"] = seed.randint(1, 3)


def _namespace(schema: Schema, seed: random.Random) -> None:
    schema["namespace"] = "elsewhere"


CHANGES = [
    _another_type,
    _another_type,
    _into_union,
    _less_union,
    _shuffle_union,
    _new_field,
    _less_fields,
    _other_order,
    _renamed_field,
    _renamed,
    _symbols,
    _size,
    _namespace,
]


def pair(number: int) -> tuple[Schema, Schema]:
    """The pair with this number: (reader, writer)."""
    seed = random.Random(number)
    first = Maker(seed).record()
    second = changed(first, seed) if seed.random() < 0.9 else Maker(seed).record()
    return (first, second) if seed.random() < 0.5 else (second, first)
