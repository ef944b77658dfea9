"""What batch and stream readers share: ranges as Spark's partitions, the read itself, and what is said of a loss."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from penstock import logs
from penstock.spark.errors import DataLost, sentence
from penstock.spark.options import Options
from penstock.spark.plan import Loss, grouped
from penstock.spark.ranges import Range

if TYPE_CHECKING:
    import pyarrow as pa

log = logs.get(__name__)


class Task(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


def tasks(ranges: Sequence[Range], tasks_min: int | None) -> list[InputPartition]:
    return [Task(group) for group in grouped(ranges, tasks_min)]


def rows(partition: InputPartition, options: Options, schema: StructType) -> Iterator["pa.RecordBatch"]:
    """What the executors run. Where there is nothing to read, Spark makes a partition of its own that has no ranges."""
    if isinstance(partition, Task):
        from penstock.spark.read import read

        with sentence():
            yield from read(partition.ranges, options, schema)


def report(losses: Sequence[Loss], options: Options) -> None:
    """An error or a warning, as `failOnDataLoss` has it, with the counts."""
    if not losses:
        return
    messages = sum(loss.messages for loss in losses)
    if options.fail_on_data_loss:
        more = f", and more of {len(losses) - 1} other queues ({messages} in all)" if len(losses) > 1 else ""
        raise DataLost(f"{losses[0]}{more}", messages)
    for loss in losses:
        told = f"{loss}; the query goes on without them"  # in the sentence: workers of Spark show no fields
        log.warning(told)
