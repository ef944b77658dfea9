"""What an executor does with ranges of partitions: read them through Pulsar's client, and hand on record batches.

A reader begins before the range, at the latest with the entry of the last message that was read before. When that
comes, nothing is missing in between. When it does not, messages may have been deleted before they were read: unless
something is left of what was before the range. That is an error or a warning, as `failOnDataLoss` has it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock import logs
from penstock.client.consumer.subscription import tags_in
from penstock.spark import columns
from penstock.spark.errors import DataLost
from penstock.spark.options import Options
from penstock.spark.pulsar.clients import Reader, Silent, began_at, connected, first_place
from penstock.spark.pulsar.positions import EARLIEST, Place, packed
from penstock.spark.ranges import Range
from penstock.spark.tasks import parser
from penstock.wire.cross.names import EVENT_TIME, NULL_VALUE

if TYPE_CHECKING:
    import pulsar

    from penstock.spark.values import Values

log = logs.get(__name__)

TAGS = "TAGS"  # the property that RocketMQ's tags are
ROWS_MAX, BYTES_MAX = 10_000, 8 << 20  # of a batch

Row = tuple[Place, "pulsar.Message"]


def read(ranges: Sequence[Range], options: Options, wanted: StructType) -> Iterator[pa.RecordBatch]:
    """The messages of some ranges, with the columns of a schema."""
    values = parser(wanted, options)
    making = Making(columns.arrow_schema(wanted), tags_in(options.tags), values, options.all_properties)
    with connected(options.service) as client:
        for source in ranges:
            for rows in _packs(_Reading(client, source, options).rows(), making.tags):
                yield making.batch(rows, source)
    if values and values.corrupt:
        log.warning("bodies do not parse and are kept as they are", format=options.value_format, count=values.corrupt)


def _packs(rows: Iterator[Row], tags: frozenset[str]) -> Iterator[list[Row]]:
    """As many as make a batch, of those with one of these tags."""
    pack: list[Row] = []
    size_bytes = 0
    for row in rows:
        if tags and row[1].properties().get(TAGS) not in tags:
            continue
        pack.append(row)
        size_bytes += len(row[1].data())
        if len(pack) >= ROWS_MAX or size_bytes >= BYTES_MAX:
            yield pack
            pack, size_bytes = [], 0
    if pack:
        yield pack


class _Reading:
    """One range."""

    def __init__(self, client: "pulsar.Client", source: Range, options: Options) -> None:
        self._client, self._source, self._options = client, source, options
        self._start, self._end = Place(source.start), Place(source.end)

    def rows(self) -> Iterator[Row]:
        reader = Reader(self._client, self._source.address, self._start, self._options.group_prefix)
        try:
            yield from self._from(reader)
        finally:
            reader.close()

    def _from(self, reader: Reader) -> Iterator[Row]:
        last = Place(self._end - 1)
        at: Place | None = None
        while at is None or at < last:
            try:
                found = reader.next()
            except Silent as error:
                self._lost(str(error))
                return
            if found is None:
                self._ended(at)
                return
            if at is None:
                self._check_first(began_at(found[1]))
            at = found[0]
            if self._start <= at < self._end:
                yield found

    # --- what is missing ----------------------------------------------------------------------------------------------

    def _check_first(self, first: Place) -> None:
        if self._start == EARLIEST or first <= self._start:
            return
        there = first_place(self._client, self._source.address, self._options.group_prefix)
        if there is None or there >= first:
            self._lost(
                f"the first message that is left is {first}, so some may be gone that were not read (the subscription "
                "of a commitGroup would keep them)"
            )

    def _ended(self, at: Place | None) -> None:
        where = "is empty" if at is None else f"ends behind {at}"
        self._lost(f"the partition {where}, as if the topic had been deleted and made anew")

    def _lost(self, why: str) -> None:
        what = f"messages of {self._source} are not there: {why}"
        if self._options.fail_on_data_loss:
            raise DataLost(what, 0)
        log.warning("messages are not there any more, the query goes on without them", lost=what)


# --- columns ----------------------------------------------------------------------------------------------------------


def _properties(row: Row, left_out: Collection[str]) -> list[tuple[str, str]]:
    """Its own, and what has no column, under the names that it has for RocketMQ's clients."""
    found = [(name, value) for name, value in row[1].properties().items() if name not in left_out]
    if event_ms := row[1].event_timestamp():
        found.append((EVENT_TIME, str(event_ms)))
    if getattr(row[1], "has_null_value", bool)():  # older clients do not tell
        found.append((NULL_VALUE, "true"))
    return found


def _message_id(row: Row) -> str:
    """As Pulsar's tools write it: ledger, entry, partition, and the place in a batch if it came in one."""
    id = row[1].message_id()
    text = f"{id.ledger_id()}:{id.entry_id()}:{id.partition()}"
    return text if id.batch_index() < 0 else f"{text}:{id.batch_index()}"


def _published_us(row: Row) -> int:
    return int(row[1].publish_timestamp()) * 1000


MAKERS: dict[str, Callable[[Row], Any]] = {
    "offset": lambda row: packed(row[0]),
    "key": lambda row: row[1].partition_key() or None,
    "tags": lambda row: row[1].properties().get(TAGS),
    "body": lambda row: row[1].data(),
    "born_time": _published_us,
    "store_time": _published_us,
    "message_id": _message_id,
}
CONSTANTS: dict[str, Callable[[Range], Any]] = {
    "topic": lambda source: source.topic,
    "queue": lambda source: source.queue,
    "broker": lambda source: source.broker,
}


class Making:
    """Makes batches with the columns of a schema, those of messages and those of bodies. Tags that have a column are
    not among the properties once more, unless it is to be all of them.
    """

    def __init__(
        self, schema: pa.Schema, tags: frozenset[str], values: "Values | None", all_properties: bool = False
    ) -> None:
        self._schema, self.tags, self._values = schema, tags, values
        self._left_out = () if all_properties or "tags" not in schema.names else (TAGS,)

    def batch(self, rows: list[Row], source: Range) -> pa.RecordBatch:
        parsed = {}
        if self._values:
            parsed = self._values.columns(pa.array([row[1].data() for row in rows], pa.binary()))
        arrays = [self._array(field, rows, source, parsed) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: pa.Field, rows: list[Row], source: Range, parsed: dict[str, pa.Array]) -> pa.Array:
        if field.name in parsed:
            found = parsed[field.name]
            return found if found.type == field.type else found.cast(field.type)
        if field.name in CONSTANTS:
            return pa.repeat(pa.scalar(CONSTANTS[field.name](source), field.type), len(rows))
        if field.name == columns.PROPERTIES:
            return pa.array([_properties(row, self._left_out) for row in rows], field.type)
        make = MAKERS[field.name]
        return pa.array([make(row) for row in rows], field.type)
