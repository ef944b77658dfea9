"""What was in the topics, for good: a table by topic and day."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.pipelines.archive import BY, by_day

spark = SparkSession.active()


@dp.table(partition_cols=list(BY))
def archive() -> DataFrame:
    reader = spark.readStream.format("penstock").option("service", spark.conf.get("penstock.service"))
    reader = reader.option("topic", spark.conf.get("penstock.topics")).option("startingOffsets", "earliest")
    return by_day(reader.option("includeProperties", "true").load())
