"""The client for Python under the same orders as the Java program: read from stdin line by line, answered in JSON.

    send window=256 seconds=5 warm=1 bytes=1024 queues=4 service=... topic=...     then: go
    consume count=200000 bytes=1024 queues=4 service=... topic=...                 then: go

`send` is awaited sends, so many in flight, through one producer. `consume` sends a backlog, then a push consumer takes
it with a handler that does nothing, counted from the first message to the last.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

from penstock.client.consumer.push import PushConsumer
from penstock.client.errors import ClientError
from penstock.client.message import Message, Received
from penstock.client.operator import Operator
from penstock.client.positions import FIRST
from penstock.client.producer import Producer
from penstock.client.tables import TopicConfig

GROUP = "bench"
BATCH, BATCHES_AT_ONCE = 32, 8
WAIT_S = 60

Words = dict[str, str]
Go = Callable[[], Awaitable[None]]
Figures = dict[str, object]


def main() -> None:
    _say({"ready": True})
    for line in sys.stdin:
        order, *pairs = line.split()
        words = dict(pair.split("=", 1) for pair in pairs)
        try:
            _say(asyncio.run(ORDERS[order](words, _go)))
        except (ClientError, TimeoutError, ValueError) as error:
            _say({"failed": f"{type(error).__name__}: {error}"})


def _say(line: Figures) -> None:
    print(json.dumps(line), flush=True)


async def _go() -> None:
    """Everything is warm: wait for the word."""
    _say({"warm": True})
    await asyncio.to_thread(sys.stdin.readline)


async def send(words: Words, go: Go) -> Figures:
    await _make_topic(words)
    body = os.urandom(int(words["bytes"]))
    async with Producer(words["service"], GROUP) as producer:
        await _sent(producer, words, body, float(words["warm"]))
        await go()
        gc.collect()
        began = time.perf_counter()
        taken = await _sent(producer, words, body, float(words["seconds"]))
        lasted = time.perf_counter() - began
    taken.sort()
    return {
        "messages": len(taken),
        "per_s": len(taken) / lasted,
        "p50_ms": taken[len(taken) // 2] * 1000,
        "p99_ms": taken[len(taken) * 99 // 100] * 1000,
        "failures": 0,
    }


async def _sent(producer: Producer, words: Words, body: bytes, seconds: float) -> list[float]:
    """How long each send took."""
    taken: list[float] = []
    clock, until, topic = time.perf_counter, time.perf_counter() + seconds, words["topic"]

    async def one_after_the_other() -> None:
        while (began := clock()) < until:
            await producer.send(Message(topic, body))
            taken.append(clock() - began)

    await asyncio.gather(*(one_after_the_other() for _ in range(int(words["window"]))))
    return taken


async def consume(words: Words, go: Go) -> Figures:
    await _make_topic(words)
    count = await _backlog(words)
    left, all_there = count, asyncio.Event()
    first = last = 0.0

    async def handle(message: Received) -> None:
        nonlocal left, first, last
        if left == count:
            first = time.perf_counter()
        left -= 1
        if not left:
            last = time.perf_counter()
            all_there.set()

    await go()
    gc.collect()
    async with PushConsumer(
        words["service"], f"group-{words['topic']}", handle, topics={words["topic"]: "*"}, start=FIRST
    ):
        async with asyncio.timeout(WAIT_S):
            await all_there.wait()
    failures = {"failures": max(0, -left), "failure": "delivered twice" if left < 0 else ""}
    return {"messages": count, "seconds": last - first, "per_s": count / (last - first), **failures}


async def _backlog(words: Words) -> int:
    """How many messages there are now."""
    body = os.urandom(int(words["bytes"]))
    batches = -(-int(words["count"]) // BATCH)
    numbers = iter(range(batches))
    async with Producer(words["service"], GROUP) as producer:

        async def one_after_the_other() -> None:
            for _ in numbers:
                await producer.send_batch([Message(words["topic"], body) for _ in range(BATCH)])

        await asyncio.gather(*(one_after_the_other() for _ in range(BATCHES_AT_ONCE)))
    async with Operator(words["service"]) as operator:  # a batch that was tried again may be there twice
        return sum(queue.max_offset for queue in (await operator.topic_stats(words["topic"])).values())


async def _make_topic(words: Words) -> None:
    queues = int(words["queues"])
    async with Operator(words["service"]) as operator:
        for address in (await operator.masters()).values():
            await operator.put_topic(address, TopicConfig(words["topic"], queues, queues))


ORDERS = {"send": send, "consume": consume}

if __name__ == "__main__":
    main()
