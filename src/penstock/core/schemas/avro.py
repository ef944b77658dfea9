"""Avro's schemas: from JSON to a graph of nodes, in which a record may be its own field.

Only what matters to whoever reads or writes is kept: logical types, documentation and other properties are not. All of
it comes from the network: how deep and how large a schema may be is bounded, and whatever is not a schema is an
AvroError.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

DEPTH_MAX = 64
NODES_MAX = 10_000
PARSED_MAX = 32  # schemas whose nodes are kept for the next time
FORMS_MAX = 4_096

RECORD, ENUM, FIXED, ARRAY, MAP, UNION = "record", "enum", "fixed", "array", "map", "union"
NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING = (
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
)
NAMED = (RECORD, ENUM, FIXED)


class AvroError(ValueError):
    """Not a schema of Avro, and why."""


class _Nothing:
    def __repr__(self) -> str:
        return "no default"


NO_DEFAULT = _Nothing()


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: "Node"
    default: Any = NO_DEFAULT  # as JSON gives it
    aliases: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Node:
    """One type. Which of the others are set depends on its kind."""

    kind: str
    name: str = ""  # with its namespace
    aliases: tuple[str, ...] = ()  # with theirs
    fields: list[Field] = field(default_factory=list)
    items: "Node | None" = None  # of an array, or the values of a map
    branches: list["Node"] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str = ""  # of an enum; empty: none
    size: int = 0

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def label(self) -> str:
        """What it is called in a union, and in words."""
        return self.name or self.kind


PRIMITIVES = {kind: Node(kind) for kind in (NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING)}


@lru_cache(maxsize=PARSED_MAX)
def parsed(data: bytes) -> Node:
    return _Parser().node(json_in(data), "", 0)


def json_in(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AvroError(f"it is not JSON: {error!s:.200}") from None


@lru_cache(maxsize=FORMS_MAX)
def form(data: bytes) -> bytes:
    """What stands for a schema that is one: the same for all that differ in documentation and layout alone."""
    try:
        bare = msgspec.json.encode(_bare(json_in(data)), order="deterministic")
    except RecursionError:
        raise AvroError("it is too deep") from None
    return blake2b(bare, digest_size=16).digest()


def _bare(raw: Any) -> Any:
    """A schema without documentation. What a default value holds is left alone."""
    if isinstance(raw, list):
        return [_bare(each) for each in raw]
    if not isinstance(raw, dict):
        return raw
    kept = {key: _bare(value) if key in _INNER else value for key, value in raw.items() if key != "doc"}
    return kept["type"] if list(kept) == ["type"] else kept


_INNER = ("type", "items", "values", "fields")


class _Parser:
    """One schema: the names that it has given so far, and how much of it there was."""

    def __init__(self) -> None:
        self._names: dict[str, Node] = {}
        self._nodes = 0

    def node(self, raw: Any, space: str, depth: int) -> Node:
        self._nodes += 1
        if depth > DEPTH_MAX or self._nodes > NODES_MAX:
            raise AvroError(f"it is too deep or too large: at most {DEPTH_MAX} levels and {NODES_MAX} types")
        if isinstance(raw, str):
            return self._by_name(raw, space)
        if isinstance(raw, list):
            return self._union(raw, space, depth)
        if not isinstance(raw, dict):
            raise AvroError(f"{_shown(raw)} is not a type")
        kind = raw.get("type")
        if not isinstance(kind, str):
            return self.node(kind, space, depth + 1)
        make = _MAKERS.get(kind)
        return make(self, raw, space, depth + 1) if make else self._by_name(kind, space)

    def _by_name(self, name: str, space: str) -> Node:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        found = self._names.get(_full(name, space)) or self._names.get(name)
        if found is None:
            raise AvroError(f"{_shown(name)} is not a type, and no type has this name so far")
        return found

    def _union(self, raw: list[Any], space: str, depth: int) -> Node:
        branches = [self.node(each, space, depth + 1) for each in raw]
        if any(branch.kind == UNION for branch in branches):
            raise AvroError("a union is in a union")
        if len({branch.label for branch in branches}) < len(branches):
            raise AvroError(f"a type is in a union twice: {', '.join(branch.label for branch in branches)[:200]}")
        return Node(UNION, branches=branches)

    def array(self, raw: dict[str, Any], space: str, depth: int) -> Node:
        return Node(ARRAY, items=self.node(raw.get("items"), space, depth))

    def map(self, raw: dict[str, Any], space: str, depth: int) -> Node:
        return Node(MAP, items=self.node(raw.get("values"), space, depth))

    # --- types with a name --------------------------------------------------------------------------------------------

    def record(self, raw: dict[str, Any], space: str, depth: int) -> Node:
        made = self._named(RECORD, raw, space)
        inside = made.name.rpartition(".")[0]
        for each in _list(raw, "fields"):
            if not isinstance(each, dict):
                raise AvroError(f"{_shown(each)} is not a field")
            kind = self.node(each.get("type"), inside, depth)
            aliases = tuple(_name(alias) for alias in _list(each, "aliases", []))
            made.fields.append(Field(_name(each.get("name")), kind, each.get("default", NO_DEFAULT), aliases))
        if len({each.name for each in made.fields}) < len(made.fields):
            raise AvroError(f"a field of {made.name} is there twice")
        return made

    def enum(self, raw: dict[str, Any], space: str, depth: int) -> Node:
        made = self._named(ENUM, raw, space)
        made.symbols = tuple(_name(symbol) for symbol in _list(raw, "symbols"))
        if len(set(made.symbols)) < len(made.symbols):
            raise AvroError(f"a symbol of {made.name} is there twice")
        made.default = raw.get("default") or ""
        if made.default and made.default not in made.symbols:
            raise AvroError(f"the default of {made.name} is none of its symbols")
        return made

    def fixed(self, raw: dict[str, Any], space: str, depth: int) -> Node:
        made, size = self._named(FIXED, raw, space), raw.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise AvroError(f"the size of {made.name} is not a number")
        made.size = size
        return made

    def _named(self, kind: str, raw: dict[str, Any], space: str) -> Node:
        name = raw.get("name")
        inner = raw.get("namespace", space)
        if not isinstance(name, str) or not isinstance(inner, str | None):
            raise AvroError(f"{_shown(name)} is not a name")
        _name(name.rpartition(".")[2])
        full = _full(name, inner or "")
        if full in self._names or full in PRIMITIVES:
            raise AvroError(f"there is a type {_shown(full)} already")
        aliases = [alias for alias in _list(raw, "aliases", []) if isinstance(alias, str)]
        made = Node(kind, full, tuple(_full(alias, full.rpartition(".")[0]) for alias in aliases))
        self._names[full] = made
        return made


_MAKERS: dict[str, Callable[[_Parser, dict[str, Any], str, int], Node]] = {
    RECORD: _Parser.record,
    "error": _Parser.record,
    ENUM: _Parser.enum,
    FIXED: _Parser.fixed,
    ARRAY: _Parser.array,
    MAP: _Parser.map,
}


def _full(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name.removeprefix(".")


def _name(text: Any) -> str:
    """Letters, digits and underscores, not beginning with a digit."""
    if not isinstance(text, str) or not text.replace("_", "a").isalnum() or text[0].isdigit():
        raise AvroError(f"{_shown(text)} is not a name")
    return text


def _list(raw: dict[str, Any], key: str, default: list[Any] | None = None) -> list[Any]:
    found = raw.get(key, default)
    if not isinstance(found, list):
        raise AvroError(f"{key} of {_shown(raw.get('name'))} is not a list")
    return found


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
