"""What our client traces, RocketMQ's own tool reads: who sent a message, and how consuming it went."""

import asyncio
import time

from penstock.client.consumer import PushConsumer
from penstock.client.message import Message
from penstock.client.positions import FIRST
from penstock.client.producer import Producer

WAIT_S = 60


async def trace_one(namesrv, topic, group):
    """A message that is consumed at the second try."""
    failed, done = asyncio.Event(), asyncio.Event()

    async def handle(message):
        if not failed.is_set():
            failed.set()
            raise ValueError("not yet")
        done.set()

    async with Producer(namesrv, f"{group}-shop", trace=True) as producer:
        sent = await producer.send(Message(topic, b"12345", tags="paid", keys="k1"))
    async with (
        asyncio.timeout(WAIT_S),
        PushConsumer(namesrv, group, handle, topics={topic: "*"}, start=FIRST, orderly=True, trace=True),
    ):
        await done.wait()
    return sent.message_id


def test_mqadmin_shows_what_was_traced(broker, admin, new_topic, group):
    topic = new_topic()
    message_id = asyncio.run(trace_one(broker.namesrv, topic, group))
    deadline = time.monotonic() + WAIT_S  # a RocketMQ indexes keys a little later
    while True:
        printed = admin("queryMsgTraceById", "-i", message_id)
        if f"{group}-shop" in printed and printed.count("success") >= 2:
            break
        assert time.monotonic() < deadline, printed
        time.sleep(0.2)
    rows = [line.split() for line in printed.splitlines() if line.strip()]
    assert ("Pub", "success") in [(row[0], row[-1]) for row in rows], printed
    consumed = [row[-1] for row in rows if row[0] in {"0", "1"} or "Sub" in row[0]]
    assert consumed.count("success") >= 1, printed
