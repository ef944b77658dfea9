"""How far pipelines are, and what is in their tables: told from the lake alone, without Spark.

A query's checkpoint has a file per batch that was begun (`offsets/N`: a version, what Spark notes, and a line per
source) and one per batch that is done (`commits/N`). How far it is behind is what the service has beyond the last that
is done.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from penstock.client.routes import MessageQueue
from penstock.errors import ConfigError
from penstock.spark.pipelines.lake import rows_in
from penstock.spark.pipelines.running import CHECKPOINT, STATE
from penstock.spark.places import Places
from penstock.spark.plan import from_topics

ByQueue = dict[str, dict[str, int | str]]


class QueryStatus(msgspec.Struct):
    """`batch` is the last that is done, `begun` the last that was begun: they differ while one is under way."""

    pipeline: str
    query: str
    batch: int | None
    begun: int | None
    at_ms: int
    offsets: ByQueue
    rows: int | None  # in its table; None where it does not count them
    behind: int | None = None


class TableStatus(msgspec.Struct):
    name: str
    files: int
    size_bytes: int


# --- queries ----------------------------------------------------------------------------------------------------------


def queries(lake: Path, pipeline: str = "") -> list[QueryStatus]:
    """All that have a checkpoint, of one pipeline or of all."""
    if not lake.is_dir():
        raise ConfigError(f"there is no folder {lake}: give the one that the pipelines were given")
    found = sorted(lake.glob(f"{STATE}/{pipeline or '*'}/*/{CHECKPOINT}"))
    return [_query(checkpoint) for checkpoint in found]


def _query(checkpoint: Path) -> QueryStatus:
    state = checkpoint.parent
    done, begun = (max(_numbers(checkpoint / name), default=None) for name in ("commits", "offsets"))
    at_ms, offsets = _offsets(checkpoint / "offsets" / str(done)) if done is not None else (0, {})
    return QueryStatus(state.parent.name, state.name, done, begun, at_ms, offsets, rows_in(state))


def _numbers(folder: Path) -> Iterator[int]:
    return (int(path.name) for path in folder.glob("*") if path.name.isascii() and path.name.isdigit())


def _offsets(file: Path) -> tuple[int, ByQueue]:
    """When the batch was begun, and how far it goes, of the sources that are topics."""
    try:
        _, noted, *sources = file.read_text(encoding="utf-8").splitlines()
        at_ms = msgspec.json.decode(noted).get("batchTimestampMs", 0)
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise ConfigError(f"the checkpoint's {file} cannot be read: {error}") from None
    together: ByQueue = {}
    for line in sources:
        for topic, queues in _topics(line).items():
            together.setdefault(topic, {}).update(queues)
    return at_ms, together


def _topics(line: str) -> ByQueue:
    try:
        return msgspec.json.decode(line, type=ByQueue)
    except msgspec.DecodeError:
        return {}  # another source than ours


def compare(found: Sequence[QueryStatus], service: str) -> None:
    """Fill in how far each is behind what the service has now."""
    found = [one for one in found if _is_numbered(one.offsets)]
    topics = sorted({topic for one in found for topic in one.offsets})
    if not topics:
        return
    with Places(service) as places:
        ends = {queue.name: (queue.min_offset, queue.max_offset) for queue in places.existing(topics)}
    for one in found:
        if one.offsets:
            one.behind = behind(from_topics(one.offsets), one.offsets, ends)


def _is_numbered(offsets: ByQueue) -> bool:
    """Whether places can be counted: those in a Pulsar cannot."""
    return all(isinstance(offset, int) for queues in offsets.values() for offset in queues.values())


def behind(
    reached: Mapping[MessageQueue, int], topics: Iterable[str], ends: Mapping[MessageQueue, tuple[int, int]]
) -> int:
    """Messages beyond what is reached, in the queues of these topics; those that are gone do not count. Pure."""
    return sum(
        max(last - max(reached.get(name, 0), first), 0) for name, (first, last) in ends.items() if name.topic in topics
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def tables(lake: Path) -> list[TableStatus]:
    """Every folder of the lake that has Parquet files, by its name in the lake."""
    return [_table(lake, folder) for folder in _table_folders(lake)]


def _table_folders(lake: Path) -> list[Path]:
    found = set()
    for file in lake.rglob("*.parquet"):
        parts = file.relative_to(lake).parts[:-1]
        if parts and not any(part.startswith(("_", ".")) for part in parts):
            found.add(lake.joinpath(*(part for part in parts if "=" not in part)))
    return sorted(found)


def _table(lake: Path, folder: Path) -> TableStatus:
    sizes = [file.stat().st_size for file in folder.rglob("*.parquet")]
    return TableStatus(folder.relative_to(lake).as_posix(), len(sizes), sum(sizes))


def rows(lake: Path, table: str, limit: int, order: str = "") -> tuple[list[str], list[list[Any]]]:
    """The columns and the first rows of a table, by a column (the last first) where one is given."""
    from pyarrow import dataset

    names = [one.name for one in tables(lake)]
    if table not in names:
        raise ConfigError(f"there is no table {table[:100]!r} in {lake}: there are {', '.join(names) or 'none'}")
    data = dataset.dataset(lake / table, format="parquet", partitioning="hive", exclude_invalid_files=False)
    if not order:
        head = data.head(limit)
        return head.column_names, [list(row.values()) for row in head.to_pylist()]
    if order not in data.schema.names:
        raise ConfigError(f"{table} has no column {order[:60]!r}: it has {', '.join(data.schema.names)}")
    batches = (row for batch in data.to_batches() for row in batch.to_pylist())
    last = heapq.nlargest(limit, batches, key=lambda row: (row[order] is not None, row[order]))
    return list(data.schema.names), [[row[name] for name in data.schema.names] for row in last]
