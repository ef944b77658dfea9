"""What an executor does: pull ranges, decode them, hand on record batches.

A large answer is decoded where it lies while the next ones are on their way; small ones (a real RocketMQ gives 32
messages at a time) are put together first, and so are small batches of several ranges, since a batch costs about as
much as a thousand rows. All ranges of a task share their connections.

Messages that are not there any more are an error or a warning with their number, as `failOnDataLoss` has it.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock import logs
from penstock.client.consumer.subscription import tags_in
from penstock.spark import columns
from penstock.spark.decode import Decoder
from penstock.spark.errors import DataLost
from penstock.spark.fetch import Gone, answers
from penstock.spark.hop import Buffer
from penstock.spark.link import Links
from penstock.spark.options import Options
from penstock.spark.ranges import Range
from penstock.spark.tasks import parser

log = logs.get(__name__)

TOGETHER_BYTES, TOGETHER_ROWS = 1 << 20, 1_000


def read(ranges: Sequence[Range], options: Options, wanted: StructType) -> Iterator[pa.RecordBatch]:
    """The messages of some ranges, with the columns of a schema."""
    values = parser(wanted, options)
    left_out = () if options.all_properties else columns.left_out(wanted.names)
    decoder = Decoder(columns.arrow_schema(wanted), tags_in(options.tags), values, left_out)
    with Links() as links:
        yield from together(batch for source in ranges for batch in _Reading(source, links, options, decoder).batches())
    if values and values.corrupt:
        log.warning("bodies do not parse and are kept as they are", format=options.value_format, count=values.corrupt)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, without batches that are smaller than they need be."""
    small: list[pa.RecordBatch] = []
    for batch in batches:
        if not small and batch.num_rows >= TOGETHER_ROWS:
            yield batch
            continue
        small.append(batch)
        if sum(one.num_rows for one in small) >= TOGETHER_ROWS:
            yield _one(small)
            small = []
    if small:
        yield _one(small)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


class _Reading:
    """One range. `_missing` counts the messages that did not come, `_why` says why, as far as it is known."""

    def __init__(self, source: Range, links: Links, options: Options, decoder: Decoder) -> None:
        self._source, self._links, self._options, self._decoder = source, links, options, decoder
        self._missing, self._why = source.messages, "the broker has left them out of its answers"

    def batches(self) -> Iterator[pa.RecordBatch]:
        for body in self._large_ones():
            for batch in self._decoder.batches(body, self._source):
                self._missing -= batch.num_rows
                yield batch
        if self._missing > 0 and not self._decoder.filters:
            self._lost()

    def _large_ones(self) -> Iterator[Buffer]:
        """Answers, small ones put together."""
        small: list[bytes] = []
        size_bytes = 0
        group = self._options.group_of(self._source.topic)
        for answer in answers(self._source, self._links, group, self._options.tags):
            if isinstance(answer, Gone):
                self._why = answer.why
                continue
            self._missing -= answer.empty
            large = len(answer.body) >= TOGETHER_BYTES
            if not large:
                small.append(bytes(answer.body))
                size_bytes += len(answer.body)
            if small and (large or size_bytes >= TOGETHER_BYTES):
                yield b"".join(small)
                small, size_bytes = [], 0
            if large:
                yield answer.body
        if small:
            yield b"".join(small)

    def _lost(self) -> None:
        what = f"{self._missing} messages of {self._source} are not there: {self._why}"
        if self._options.fail_on_data_loss:
            raise DataLost(what, self._missing)
        log.warning("messages are not there any more, the query goes on without them", lost=what)
