"""Drives Pulsar's client for Python: a line of JSON in is a command, a line out its answer, as `drivers.py` says.

Runs under the Python that the client is installed in; it needs nothing of this project. Works with 3.5 and newer.
"""

import concurrent.futures
import datetime as dt
import functools
import json
import re
import sys
import threading
import zlib

import pulsar

SHOWN_BYTES = 200
COMPRESSED = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}
ENDS = {"earliest": pulsar.MessageId.earliest, "latest": pulsar.MessageId.latest}
UNSUPPORTED = ("priority", "retry", "ack_receipt")

things = {}
makers = concurrent.futures.ThreadPoolExecutor()  # of what is made later
waits_for_ever = set()  # consumers without a queue: this client has no other way for them
messages = []


class Unsupported(Exception):
    """Something that this client does not have."""


def keep(asked, thing):
    things[asked["as"]] = thing
    return True


def keys(asked):
    return pulsar.CryptoKeyReader(asked.get("public_key", ""), asked.get("private_key", ""))


# --- clients and producers --------------------------------------------------------------------------------------------


def open_client(asked):
    if asked.get("transactions"):
        raise Unsupported("transactions")
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, "client.log")
    return keep(asked, pulsar.Client(asked["url"], logger=logger, operation_timeout_seconds=20))


def close(asked):
    things.pop(asked["on"]).close()
    return True


def producer(asked):
    settings = {
        "batching_enabled": asked.get("batch", False),
        "batching_max_messages": asked.get("batch_max", 1000),
        "batching_max_publish_delay_ms": 20,
        "chunking_enabled": asked.get("chunk", False),
        "compression_type": COMPRESSED[asked.get("compress", "none")],
        "access_mode": getattr(pulsar.ProducerAccessMode, asked.get("access", "Shared")),
        "producer_name": asked.get("name"),
        "block_if_queue_full": True,
    }
    if asked.get("by_key"):
        settings["batching_type"] = pulsar.BatchingType.KeyBased
    if "public_key" in asked:
        settings |= {"crypto_key_reader": keys(asked), "encryption_key": "key"}
    make = functools.partial(things[asked["on"]].create_producer, asked["topic"], **settings)
    return keep(asked, makers.submit(make) if asked.get("later") else make())


def there(asked):
    """Whether one that is made later is there; from then on it is a producer like any other."""
    making = things[asked["on"]]
    if not making.done():
        return False
    things[asked["on"]] = making.result()
    return True


def send(asked):
    said = asked["messages"]
    told, done, lock = {}, threading.Event(), threading.Lock()

    def answered(number):
        def take(result, where):
            with lock:
                told[number] = result, where
                if len(told) == len(said):
                    done.set()

        return take

    for number, message in enumerate(said):
        body = message["body"].encode().ljust(message.get("body_bytes", 0), b".")
        things[asked["on"]].send_async(body, answered(number), **parts_of(message))
    things[asked["on"]].flush()
    done.wait()
    for result, _ in told.values():
        if result != pulsar.Result.Ok:
            raise RuntimeError(f"not sent: {result}")
    return [place(told[number][1]) for number in range(len(said))]


def parts_of(message):
    delay = message.get("deliver_after_ms")
    return {
        "properties": message.get("properties"),
        "partition_key": message.get("key"),
        "ordering_key": message.get("ordering_key"),
        "sequence_id": message.get("sequence"),
        "event_timestamp": message.get("event_ms"),
        "deliver_after": delay and dt.timedelta(milliseconds=delay),
    }


def place(where):
    if isinstance(where, pulsar.MessageId):
        where = where._msg_id
    return {
        "ledger": where.ledger_id(),
        "entry": where.entry_id(),
        "batch": where.batch_index(),
        "partition": where.partition(),
    }


# --- consumers --------------------------------------------------------------------------------------------------------


def subscribe(asked):
    for name in UNSUPPORTED:
        if asked.get(name):
            raise Unsupported(name)
    settings = {
        "consumer_type": getattr(pulsar.ConsumerType, asked.get("type", "Exclusive").replace("_", "")),
        "initial_position": getattr(pulsar.InitialPosition, asked["from"]),
        "negative_ack_redelivery_delay_ms": asked.get("nack_ms", 100),
        "batch_index_ack_enabled": asked.get("batch_ack", False),
        "receiver_queue_size": asked.get("queue", 1000),
        "consumer_name": asked.get("name"),
        "pattern_auto_discovery_period": asked.get("discover_s", 60),
        "properties": asked.get("properties"),
        "is_read_compacted": asked.get("compacted", False),
    }
    if "ranges" in asked:
        spans = [(span["first"], span["last"]) for span in asked["ranges"]]
        settings["key_shared_policy"] = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, False, spans)
    elif asked.get("any_order"):
        settings["key_shared_policy"] = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.AutoSplit, True)
    if "dead" in asked:
        dead = asked["dead"]
        policy = pulsar.ConsumerDeadLetterPolicy(dead["times"], dead["topic"], dead.get("subscription"))
        settings["dead_letter_policy"] = policy
    if "private_key" in asked:
        settings["crypto_key_reader"] = keys(asked)
    if asked.get("queue") == 0:
        waits_for_ever.add(asked["as"])
    return keep(asked, things[asked["on"]].subscribe(topics_of(asked), asked["subscription"], **settings))


def topics_of(asked):
    if "pattern" in asked:
        return re.compile(asked["pattern"])
    topics = asked["topics"]
    return topics[0] if len(topics) == 1 else topics


def receive(asked):
    consumer, got = things[asked["on"]], []
    wait_ms = None if asked["on"] in waits_for_ever else asked["wait_ms"]
    try:
        while len(got) < asked["count"]:
            got.append(take(consumer.receive(wait_ms)))
    except pulsar.Timeout:
        pass
    return got


def take(message):
    messages.append(message)
    body = message.data()
    return place(message.message_id()) | {
        "number": len(messages) - 1,
        "body": body[:SHOWN_BYTES].decode(),
        "bytes": len(body),
        "crc": zlib.crc32(body),
        "key": message.partition_key(),
        "ordering_key": message.ordering_key(),
        "properties": message.properties(),
        "redelivered": message.redelivery_count(),
        "topic": message.topic_name(),
        "publish_ms": message.publish_timestamp(),
        "event_ms": message.event_timestamp(),
    }


def ack(asked):
    for number in asked["numbers"]:
        things[asked["on"]].acknowledge(messages[number])
    return True


def ack_until(asked):
    things[asked["on"]].acknowledge_cumulative(messages[asked["number"]])
    return True


def nack(asked):
    for number in asked["numbers"]:
        things[asked["on"]].negative_acknowledge(messages[number])
    return True


def redeliver(asked):
    things[asked["on"]].redeliver_unacknowledged_messages()
    return True


def seek(asked):
    things[asked["on"]].seek(asked["time_ms"] if "time_ms" in asked else position(asked))
    return True


def position(asked):
    return ENDS[asked["to"]] if "to" in asked else messages[asked["number"]].message_id()


def last(asked):
    return [place(things[asked["on"]].get_last_message_id())]


def unsubscribe(asked):
    things[asked["on"]].unsubscribe()
    return True


# --- readers ----------------------------------------------------------------------------------------------------------


def reader(asked):
    settings = {
        "start_message_id_inclusive": asked.get("inclusive", False),
        "is_read_compacted": asked.get("compacted", False),
    }
    return keep(asked, things[asked["on"]].create_reader(asked["topic"], position(asked), **settings))


def read(asked):
    try:
        return [take(things[asked["on"]].read_next(asked["wait_ms"])) for _ in range(asked["count"])]
    except pulsar.Timeout:
        return []


def available(asked):
    return things[asked["on"]].has_message_available()


def partitions(asked):
    return things[asked["on"]].get_topic_partitions(asked["topic"])


COMMANDS = {
    "open": open_client,
    "close": close,
    "producer": producer,
    "send": send,
    "there": there,
    "subscribe": subscribe,
    "receive": receive,
    "ack": ack,
    "ack_until": ack_until,
    "nack": nack,
    "redeliver": redeliver,
    "seek": seek,
    "last": last,
    "unsubscribe": unsubscribe,
    "reader": reader,
    "read": read,
    "available": available,
    "reader_seek": seek,
    "partitions": partitions,
}


def answer(asked):
    try:
        if asked["do"] not in COMMANDS:
            raise Unsupported(asked["do"])
        return {"ok": COMMANDS[asked["do"]](asked)}
    except Exception as error:  # noqa: BLE001  # whatever it is, the test is told
        return {"error": type(error).__name__, "why": str(error)}


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
