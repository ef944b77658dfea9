"""A Spark application to be killed: one topic into another by the sink, and into a lake by the archive.

    python -m tests.spark.full.copying --service rocketmq://127.0.0.1:9876 --topic in --to out --folder DIR

Everything that it knows is in its checkpoints. It ends when one of its queries does.
"""

import argparse
import sys
from pathlib import Path

from penstock.spark.pipelines import archive
from penstock.spark.session import session

SETTINGS = {
    "spark.driver.memory": "700m",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.metadataCache.enabled": "true",
}


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("service", "topic", "to", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--master", default="local[2,4]")  # a task may fail three times
    given = parser.parse_args()
    folder = Path(given.folder)
    spark = session("copying", given.master, {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")})
    read = spark.readStream.format("penstock").option("service", given.service).option("topic", given.topic)
    read = read.option("startingOffsets", "earliest").option("minPartitions", "2").load().select("key", "body")
    copy = read.writeStream.format("penstock").option("service", given.service).option("topic", given.to)
    copied = copy.option("checkpointLocation", str(folder / "copy")).trigger(processingTime="200 milliseconds").start()
    while copied.isActive and not copied.recentProgress:  # one after the other: Spark waits 10 s for a process to start
        copied.awaitTermination(0.2)
    settings = archive.Settings(lake=str(folder / "lake"), service=given.service, topics=given.topic, every_s=0.5)
    settings.folder.mkdir(parents=True, exist_ok=True)
    try:
        archive.start(spark, settings)
        spark.streams.awaitAnyTermination()
    except Exception as error:  # noqa: BLE001  # whoever started it wants to know, and starts it again
        sys.stderr.write(f"{str(error)[:1_000]}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
