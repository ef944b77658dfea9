"""What an executor does: pull ranges, decode them, hand on record batches.

A large answer is decoded where it lies while the next ones are on their way; small ones (a real RocketMQ gives 32
messages at a time) are put together first, since a batch costs about as much as a thousand rows.

Messages that are not there any more are an error or a warning with their number, as `failOnDataLoss` has it.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock import logs
from penstock.client.consumer.subscription import tags_in
from penstock.spark import columns
from penstock.spark.decode import Decoder
from penstock.spark.errors import DataLost
from penstock.spark.fetch import Answer, Gone, answers
from penstock.spark.options import Options
from penstock.spark.ranges import Range

log = logs.get(__name__)

TOGETHER_BYTES = 2 << 20


def read(ranges: Sequence[Range], options: Options, wanted: StructType) -> Iterator[pa.RecordBatch]:
    """The messages of some ranges, with the columns of a schema."""
    decoder = Decoder(columns.arrow_schema(wanted), tags_in(options.tags))
    for source in ranges:
        counted = 0
        for batch in _batches(source, options, decoder):
            counted += batch.num_rows
            yield batch
        if counted
