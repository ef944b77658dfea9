"""A program as users write it, with nothing of ours but the name of the format: read a topic, batch and streaming.

python program.py MASTER SERVICE TOPIC FOLDER          # prints what it has read, as JSON
"""

import json
import sys

from pyspark.sql import SparkSession


def main(master: str, service: str, topic: str, folder: str) -> None:
    spark = SparkSession.builder.master(master).config("spark.executor.memory", "512m").getOrCreate()
    options = {"service": service, "topic": topic}
    table = spark.read.format("penstock").options(**options, minPartitions="4").load()
    rows = table.selectExpr("queue", "offset", "cast(body as string) body").collect()
    stream = spark.readStream.format("penstock").options(**options, startingOffsets="earliest").load()
    query = (
        stream.selectExpr("queue", "offset", "cast(body as string) body")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/lake")
    )
    query.awaitTermination()
    lake = spark.read.parquet(f"{folder}/lake").collect()
    print(json.dumps({"batch": rows, "stream": lake, "tasks": table.rdd.getNumPartitions()}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
