"""Whether what was written with one schema of Avro can be read with another: `can_read`.

The rules are those by which Avro's own library for Java resolves two schemas, since that is what Pulsar's brokers ask:

- null, boolean, string and so on are read as themselves; int as long, float and double, long as float and double, float
  as double, string and bytes as each other
- a record's fields are matched by name. One that the writer does not have needs a default; one that the reader does not
  have is passed over. Two records in the same place may be called differently
- enums and fixed need the same name, without its namespace; fixed the same size
- a union that was written is read when each of its branches is. Into a union, a value goes to the first branch that
  fits: of the same type and whole name, else a record that looks alike, else one that it is promoted to
- aliases of the reader rename what the writer calls so

An enum with a symbol that the reader does not have, and no default for it, counts as readable to that library: only
such a value is not. Whoever wants to know of it asks for it (`symbols=True`).

First all is resolved, down to where it ends or was resolved before; then what does not fit is collected. How many pairs
of types are looked at, and how deep, is bounded: a `Budget` may be shared by many questions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from penstock.core.schemas.avro import (
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    LONG,
    NAMED,
    NO_DEFAULT,
    RECORD,
    STRING,
    UNION,
    Field,
    Node,
)
from penstock.core.schemas.defaults import fits

STEPS_MAX = 50_000
DEPTH_MAX = 150
REASONS_MAX = 10
PLACE_CHARS_MAX = 200

PROMOTED: dict[str, tuple[str, ...]] = {  # what is written to what it may be read as
    INT: (LONG, FLOAT, DOUBLE),
    LONG: (FLOAT, DOUBLE),
    FLOAT: (DOUBLE,),
    STRING: (BYTES,),
    BYTES: (STRING,),
}


class TooComplex(ValueError):
    """Schemas that take too long to compare."""


class Budget:
    """How many pairs of types may be looked at."""

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self._left = steps

    def spend(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX:
            raise TooComplex(f"they are too large to compare: at most {STEPS_MAX} pairs of types, {DEPTH_MAX} deep")


def can_read(reader: Node, writer: Node, symbols: bool = False, budget: Budget | None = None) -> list[str]:
    """Why `reader` cannot read what `writer` has written; empty when it can. May raise TooComplex."""
    if reader is writer:
        return []
    resolution = _Resolution(_Aliases(reader), symbols, budget or Budget())
    return list(islice(_reasons(resolution.resolve(writer, reader, 0)), REASONS_MAX))


@dataclass(slots=True, eq=False)
class _Step:
    """How a type of the writer becomes one of the reader: not at all (`why`), or so that its parts do."""

    why: str = ""
    parts: list[tuple[str, "_Step"]] = field(default_factory=list)


_FINE = _Step()


def _reasons(step: _Step) -> Iterator[str]:
    waiting, seen = [("", step)], set[int]()
    while waiting:
        where, each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if each.why:
            yield f"{where or 'the type itself'}: {each.why}"
        waiting += [(f"{where}.{label}"[-PLACE_CHARS_MAX:].lstrip("."), part) for label, part in reversed(each.parts)]


class _Aliases:
    """What the reader calls what the writer may call otherwise."""

    def __init__(self, reader: Node) -> None:
        self._names: dict[str, str] = {}
        self._fields: dict[str, dict[str, str]] = {}
        for node in _named_in(reader):
            self._names.update(dict.fromkeys(node.aliases, node.name))
            own = {alias: each.name for each in node.fields for alias in each.aliases}
            self._fields[node.name] = own

    def name(self, writer: Node) -> str:
        return self._names.get(writer.name, writer.name)

    def short_name(self, writer: Node) -> str:
        return self.name(writer).rpartition(".")[2]

    def fields(self, writer: Node) -> dict[str, Field]:
        """A record's fields, by the reader's names."""
        own = self._fields.get(self.name(writer), {})
        return {own.get(each.name, each.name): each for each in writer.fields}


def _named_in(root: Node) -> Iterator[Node]:
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.kind in NAMED:
            yield node
        waiting += [each.type for each in node.fields] + node.branches + ([node.items] if node.items else [])


Pair = tuple[int, int]  # a record of the writer, one of the reader


class _Resolution:
    def __init__(self, aliases: _Aliases, symbols: bool, budget: Budget) -> None:
        self._aliases, self._symbols, self._spend = aliases, symbols, budget.spend
        self._records: dict[Pair, _Step] = {}
        self._known: dict[Pair, bool] = {}  # whether records are alike

    def resolve(self, writer: Node, reader: Node, depth: int) -> _Step:
        self._spend(depth)
        if writer.kind == UNION:
            return self._from_union(writer, reader, depth)
        if writer.kind != reader.kind:
            return self._into_union(writer, reader, depth) if reader.kind == UNION else _promoted(writer, reader)
        if writer.kind == RECORD:
            return self._record(writer, reader, depth)
        if writer.kind in (ENUM, FIXED):
            return self._named(writer, reader)
        if writer.items is not None and reader.items is not None:
            return _Step(parts=[("[]", self.resolve(writer.items, reader.items, depth + 1))])
        return _FINE

    def _named(self, writer: Node, reader: Node) -> _Step:
        if self._aliases.short_name(writer) != reader.short_name:
            return _Step(f"{writer.name!r} is written, {reader.name!r} is expected")
        if writer.size != reader.size:
            return _Step(f"{writer.name!r} has {writer.size} bytes, {reader.size} are expected")
        if self._symbols and not reader.default and (lost := set(writer.symbols) - set(reader.symbols)):
            return _Step(f"{reader.name!r} does not have {', '.join(sorted(lost))[:100]}, and no default")
        return _FINE

    # --- records ------------------------------------------------------------------------------------------------------

    def _record(self, writer: Node, reader: Node, depth: int) -> _Step:
        pair = id(writer), id(reader)
        if pair in self._records:
            return self._records[pair]
        step = self._records[pair] = _Step()  # before its fields, which may be of the same type
        written = self._aliases.fields(writer)
        if len(written) < len(writer.fields):
            step.why = f"two fields of {writer.name!r} have one name by the aliases of {reader.name!r}"
            return step
        read = {each.name: each for each in reader.fields}
        for name, each in written.items():
            if name in read:
                step.parts.append((name, self.resolve(each.type, read[name].type, depth + 1)))
        for name, each in read.items():
            if name not in written:
                self._default(step, each, depth)
        return step

    def _default(self, step: _Step, missing: Field, depth: int) -> None:
        if missing.default is NO_DEFAULT:
            step.why = f"{missing.name!r} is not written, and has no default"
        elif not fits(missing.default, missing.type, self._spend, depth):
            step.parts.append((missing.name, _Step("it is not written, and its default is not one of its type")))

    # --- unions -------------------------------------------------------------------------------------------------------

    def _from_union(self, writer: Node, reader: Node, depth: int) -> _Step:
        if self._same(writer, reader, depth):
            return _FINE
        steps = [(f"<{each.label}>", self.resolve(each, reader, depth + 1)) for each in writer.branches]
        return _Step(parts=steps)

    def _into_union(self, writer: Node, reader: Node, depth: int) -> _Step:
        chosen = self._branch(writer, reader, depth)
        if chosen is None:
            labels = ", ".join(each.label for each in reader.branches)
            return _Step(f"{writer.label} is written, one of {labels:.200} is expected")
        return _Step(parts=[(f"<{chosen.label}>", self.resolve(writer, chosen, depth + 1))])

    def _branch(self, writer: Node, reader: Node, depth: int) -> Node | None:
        """The branch of a union that a value goes to."""
        like: Node | None = None
        for each in reader.branches:
            if each.kind != writer.kind:
                continue
            if writer.kind not in NAMED or each.name == self._aliases.name(writer):
                return each
            if writer.kind == RECORD and self._looks_like(writer, each, depth):
                called_so = each.short_name == self._aliases.short_name(writer)
                like = each if like is None or called_so else like
        if like is not None:
            return like
        return next((each for each in reader.branches if each.kind in PROMOTED.get(writer.kind, ())), None)

    def _looks_like(self, writer: Node, reader: Node, depth: int) -> bool:
        """Whether a record's own fields fit; not what is further down."""
        step = self._record(writer, reader, depth + 1)
        return not step.why and not any(part.why for _, part in step.parts)

    # --- types that are the same --------------------------------------------------------------------------------------

    def _same(self, writer: Node, reader: Node, depth: int) -> bool:
        """Whether two types are the same, in the same order, as far as what is written goes."""
        tried: dict[Pair, bool] = {}
        found = self._alike(writer, reader, tried, depth)
        self._known.update({pair: like for pair, like in tried.items() if found or not like})
        return found

    def _alike(self, writer: Node, reader: Node, tried: dict[Pair, bool], depth: int) -> bool:
        self._spend(depth)
        if writer.kind != reader.kind:
            return False
        if writer.kind in NAMED and self._aliases.short_name(writer) != reader.short_name:
            return False
        if (writer.size, writer.symbols) != (reader.size, reader.symbols):
            return False
        if writer.items is not None and reader.items is not None:
            return self._alike(writer.items, reader.items, tried, depth + 1)
        if writer.kind == RECORD:
            return self._alike_records(writer, reader, tried, depth)
        return self._all_alike(writer.branches, reader.branches, tried, depth)

    def _alike_records(self, writer: Node, reader: Node, tried: dict[Pair, bool], depth: int) -> bool:
        pair = id(writer), id(reader)
        if pair in self._known:
            return self._known[pair]
        if pair not in tried:
            tried[pair] = True  # until it turns out not to be so
            written = self._aliases.fields(writer)
            types = [each.type for each in written.values()], [each.type for each in reader.fields]
            named_so = list(written) == [each.name for each in reader.fields]
            tried[pair] = named_so and self._all_alike(*types, tried, depth)
        return tried[pair]

    def _all_alike(self, writers: list[Node], readers: list[Node], tried: dict[Pair, bool], depth: int) -> bool:
        if len(writers) != len(readers):
            return False
        both = zip(writers, readers, strict=True)
        return all(self._alike(one, other, tried, depth + 1) for one, other in both)


def _promoted(writer: Node, reader: Node) -> _Step:
    if reader.kind in PROMOTED.get(writer.kind, ()):
        return _FINE
    return _Step(f"{writer.label} is written, {reader.label} is expected")
