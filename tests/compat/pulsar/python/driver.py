"""Drives Pulsar's client for Python: driver.py produce URL TOPIC COUNT MODE. A line of JSON per message.

Runs under the Python that the client is installed in; it needs nothing of this project. Works with 3.5 and newer.
"""

import json
import sys
import threading

import pulsar

BODY_BYTES = 100
CHUNKED_BYTES = 12_000_000
COMPRESSED = {
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


def body(number: int, mode: str) -> bytes:
    size = CHUNKED_BYTES if mode == "chunked" else BODY_BYTES
    return f"m-{number} ".encode().ljust(size, b".")


def settings(mode: str) -> dict[str, object]:
    if mode == "chunked":
        return {"chunking_enabled": True, "batching_enabled": False}
    return {
        "batching_enabled": mode != "single",
        "compression_type": COMPRESSED.get(mode, pulsar.CompressionType.NONE),
        "block_if_queue_full": True,
    }


def produce(client: pulsar.Client, topic: str, count: int, mode: str) -> None:
    producer = client.create_producer(topic, **settings(mode))
    done = threading.Event()
    told: list[tuple[object, object]] = []

    def answered(result: object, where: object) -> None:
        told.append((result, where))
        if len(told) == count:
            done.set()

    for number in range(count):
        producer.send_async(body(number, mode), answered, partition_key=f"k{number % 3}", properties={"n": str(number)})
    producer.flush()
    done.wait()
    for result, where in told:
        say(ok=result == pulsar.Result.Ok, ledger=where.ledger_id(), entry=where.entry_id(), batch=where.batch_index())
    producer.close()


def refused(client: pulsar.Client, topic: str) -> None:
    """What a producer is told that comes to a topic that another has for itself."""
    client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    try:
        client.create_producer(topic)
    except pulsar.PulsarException as error:
        say(error=type(error).__name__)


def say(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    _, what, url, topic, count, mode = sys.argv
    client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, "client.log"))
    if what == "produce":
        produce(client, topic, int(count), mode)
    else:
        refused(client, topic)
    client.close()


if __name__ == "__main__":
    main()
