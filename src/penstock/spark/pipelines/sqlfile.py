"""What an ETL file says: where rows come from and where they go, in its leading comments, and one query. Pure.

    -- source: orders
    --   valueFormat: json
    --   valueSchema: id BIGINT, amount DOUBLE
    -- target: topic large_orders
    SELECT id AS key, id, amount FROM orders WHERE amount > 1000

`source` names a topic, which is a view of that name in the query (`source: eu-orders as orders` gives it another); the
lines below it are options of the source `penstock`. `table: folder as name` is a Parquet folder, for joins. `target` is
a topic or a table of the lake; the lines below it are `mode` (append, update, complete) and `partitionBy`. A line that
has no colon behind its first word is a comment.
"""

import difflib
import re
from collections.abc import Iterator, Mapping

import msgspec

from penstock.errors import ConfigError

TOPIC, LAKE = "topic", "lake"
MODES = ("append", "update", "complete")
_LINE = re.compile(r"--\s{0,40}([A-Za-z][A-Za-z0-9]{0,60})\s{0,40}:\s{0,40}(\S.{0,4000})")
_AS = re.compile(r"(\S{1,255})(?:\s{1,20}as\s{1,20}([A-Za-z_][A-Za-z0-9_]{0,120}))?", re.IGNORECASE)
_TARGET = re.compile(r"(topic|lake)\s{1,20}(\S{1,255})")
_TABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")
_QUERY = re.compile(r"(select|with|from|values|table|\()", re.IGNORECASE)


class Input(msgspec.Struct, frozen=True):
    """A topic as a stream, or a folder as a table, under the name that the query has for it."""

    name: str
    view: str
    options: dict[str, str] = {}


class Target(msgspec.Struct, frozen=True):
    kind: str
    name: str
    mode: str = "append"
    by: tuple[str, ...] = ()


class Job(msgspec.Struct, frozen=True):
    sources: tuple[Input, ...]
    tables: tuple[Input, ...]
    target: Target
    query: str


def parsed(text: str) -> Job:
    """ConfigError says what is missing or wrong."""
    blocks = list(_blocks(text))
    sources = tuple(_input(value, options) for word, value, options in blocks if word == "source")
    tables = tuple(_input(value, options) for word, value, options in blocks if word == "table")
    targets = [_target(value, options) for word, value, options in blocks if word == "target"]
    if not sources:
        raise ConfigError("the SQL file names no source: begin it with a line such as `-- source: orders`")
    if len(targets) != 1:
        raise ConfigError(
            f"the SQL file names {len(targets) or 'no'} targets: it needs one line such as "
            "`-- target: topic large_orders` or `-- target: lake large_orders`"
        )
    views = [one.view for one in (*sources, *tables)]
    if twice := {view for view in views if views.count(view) > 1}:
        raise ConfigError(f"the SQL file has two inputs named {min(twice)}: give one another name with `as`")
    return Job(sources, tables, targets[0], _query(text))


def _blocks(text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(source, table or target; what it is; the lines below it)."""
    block: tuple[str, str, dict[str, str]] | None = None
    for word, value in _header(text):
        if word in ("source", "table", "target"):
            if block is not None:
                yield block
            block = word, value, {}
        elif block is None:
            close = difflib.get_close_matches(word, ("source", "table", "target"), n=1)
            raise ConfigError(
                f"`-- {word}:` is not known: " + (f"did you mean {close[0]}?" if close else "begin with `-- source:`")
            )
        else:
            block[2][word] = value
    if block is not None:
        yield block


def _header(text: str) -> Iterator[tuple[str, str]]:
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("--"):
            return
        if found := _LINE.fullmatch(line):
            yield found[1], found[2].strip()


def _input(value: str, options: Mapping[str, str]) -> Input:
    found = _AS.fullmatch(value)
    if not found:
        raise ConfigError(f"{value[:100]!r} is no input: write a name, or `name as view`")
    return Input(found[1], found[2] or found[1], dict(options))


def _target(value: str, options: Mapping[str, str]) -> Target:
    found = _TARGET.fullmatch(value)
    if not found:
        raise ConfigError(f"{value[:100]!r} is no target: write `topic NAME` or `lake NAME`")
    if found[1] == LAKE and not _TABLE.fullmatch(found[2]):
        raise ConfigError(f"{found[2][:100]!r} is no name for a table: take letters, digits, _, . and -")
    if wrong := options.keys() - {"mode", "partitionBy"}:
        raise ConfigError(f"{min(wrong)} is not known of a target: it has mode and partitionBy")
    mode = options.get("mode", "append")
    if mode not in MODES or (found[1] == LAKE and mode != "append"):
        allowed = ", ".join(MODES) if found[1] == TOPIC else "append"
        raise ConfigError(f"the mode of this target is {mode[:20]!r}: it can be {allowed}")
    by = tuple(name.strip() for name in options.get("partitionBy", "").split(",") if name.strip())
    return Target(found[1], found[2], mode, by)


def _query(text: str) -> str:
    """The statement behind the leading comments, without its semicolon."""
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("--")):
        lines.pop(0)
    query = "\n".join(lines).strip().removesuffix(";").strip()
    while query.startswith("/*"):
        query = query.partition("*/")[2].lstrip()
    if not _QUERY.match(query):
        raise ConfigError("the SQL file has no query: behind its leading comments it needs one SELECT")
    return query
