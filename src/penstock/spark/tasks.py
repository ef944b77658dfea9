"""What batch and stream readers share: ranges as Spark's partitions, the read itself, and what is said of a loss."""

import functools
import gc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from penstock import logs
from penstock.spark.engines import engine_of
from penstock.spark.errors import DataLost, sentence
from penstock.spark.options import Edge, Options
from penstock.spark.places import Queue
from penstock.spark.plan import Loss, Offsets, check_inside, grouped, inside, losses
from penstock.spark.ranges import Range

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.spark.values import Values

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
        with sentence():
            yield from engine_of(options.service).read(partition.ranges, options, schema)
        keep_modules()


@functools.cache
def keep_modules() -> None:
    """Once in each worker, when its first task has read everything: a third of what is loaded is loaded while it reads.
    Spark has it look for garbage after every task, among all objects that there are: tens of thousands, nearly all of
    modules that stay. That takes 15 to 40 ms, unless they are kept apart; what is garbage already is not.
    """
    gc.collect()
    gc.freeze()


def parser(wanted: StructType, options: Options) -> "Values | None":
    """What parses bodies. The parsers are loaded when they are needed: every worker would wait for them."""
    if not options.value_format:
        return None
    from penstock.spark.values import values_for

    return values_for(wanted, options.value_format, options.value_schema)


def placed(edge: Edge, queues: Sequence[Queue], offsets: Offsets, options: Options) -> Offsets:
    """The offsets of an edge, inside of their queues. Where one is not: an error, or a warning and the nearest."""
    if options.fail_on_data_loss:
        check_inside(edge, queues, offsets)
    report(losses(queues, offsets), options)
    return inside(queues, offsets)


def report(found: Sequence[Loss], options: Options) -> None:
    """An error or a warning, as `failOnDataLoss` has it, with the counts."""
    if not found:
        return
    messages = sum(loss.messages or 0 for loss in found)
    if options.fail_on_data_loss:
        more = f", and more of {len(found) - 1} other queues ({messages} in all)" if len(found) > 1 else ""
        raise DataLost(f"{found[0]}{more}", messages)
    for loss in found:
        told = f"{loss}; the query goes on without them"
        log.warning(told, messages=loss.messages)
