"""The data source `penstock`: what Spark asks it for, and which part answers.

    spark.read.format("penstock").option("service", "rocketmq://127.0.0.1:9876").option("topic", "orders").load()

Spark makes one in a process of its own for each thing it wants to know: nothing is kept between two calls, and nothing
here is asked on an executor.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark import columns
from penstock.spark.batch import BatchReader
from penstock.spark.errors import sentence
from penstock.spark.options import BATCH, READ, STREAM, Options, read_options
from penstock.spark.stream import StreamReader


class PenstockSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType | str:
        """What a read without `.schema(...)` gives."""
        with sentence():
            options = read_options(self.options, READ)
            messages = columns.schema(options.include_properties)
            return _with_values(messages, options)

    def reader(self, schema: StructType) -> DataSourceReader:
        with sentence():
            options = read_options(self.options, BATCH)
            _check(schema, options)
            return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        with sentence():
            options = read_options(self.options, STREAM)
            _check(schema, options)
            return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink import batch_writer  # a read does without it

        with sentence():
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's name
        from penstock.spark.sink import stream_writer

        with sentence():
            return stream_writer(self.options, schema, overwrite)


def _with_values(messages: StructType, options: Options) -> StructType | str:
    """The columns of messages, and those of their bodies where these are parsed. Parsers are loaded when they are
    needed: every query would wait for them.
    """
    if not options.value_format:
        return messages
    from penstock.spark.values import with_values

    return with_values(messages, options.value_format, options.value_schema)


def _check(wanted: StructType, options: Options) -> None:
    """ConfigError unless all these columns can be had."""
    if not options.value_format:
        columns.check(wanted)
        return
    from penstock.spark.values import check_values

    check_values(wanted, options.value_format, options.value_schema)
