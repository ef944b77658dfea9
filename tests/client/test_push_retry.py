"""What becomes of a message whose handler fails: it comes again later, and is a dead letter in the end."""

import asyncio

import pytest
from tests.client.pushing import WAITS, Inbox, committed, consumer, send, until

from penstock.client.consumer import ConsumerSettings, Later
from penstock.client.consumer.sendback import SendBack
from penstock.client.errors import Refused
from penstock.client.message import Message
from penstock.clock import ManualClock
from penstock.config import Config, ServerConfig
from penstock.server import Server
from penstock.testing.server import PORTS, Running
from penstock.wire.rocketmq.codes import RequestCode, SysFlag
from penstock.wire.rocketmq.record import messages_in


class World(Running):
    """A broker whose clock stands still until `after`."""

    def __init__(self, server: Server, clock: ManualClock) -> None:
        super().__init__(server)
        self.clock = clock

    async def after(self, passed_ms: int) -> None:
        self.clock.advance(passed_ms)
        await self.server.kept.tick()

    async def stored(self, topic: str) -> list:
        """The messages in the first queue of a topic."""
        found = self.server.broker.topics.find(topic)
        if found is None:
            return []
        batch = await self.server.broker.fetcher.fetch(found.queue(0), 0, 100, 1 << 20)
        return [message for payload in batch.payloads for message in messages_in(payload)]


@pytest.fixture
async def penstock(tmp_path):
    clock = ManualClock()
    server = Server(Config(server=ServerConfig(data=str(tmp_path), **dict.fromkeys(PORTS, 0))), clock)
    await server.start()
    yield World(server, clock)
    await server.stop()


@pytest.mark.parametrize("failure", [RuntimeError("no"), Later()], ids=["raises", "later"])
async def test_a_message_that_fails_comes_again_after_ten_seconds(penstock, producer, failure):
    inbox = Inbox(lambda message: failure if message.reconsume_times == 0 else None)
    sent = await producer.send(Message("orders", b"body", tags="t", keys="k"))
    async with consumer(penstock, "billing", inbox):
        await inbox.until(1)
        await until(lambda: committed(penstock, "billing").get(sent.queue.queue) == 1, "the commit")
        await penstock.after(9_999)
        assert len(inbox.messages) == 1
        await penstock.after(1)
        first, second = await inbox.until(2)
    assert (second.topic, second.body, second.tags, second.keys) == ("orders", b"body", "t", "k")
    assert (second.reconsume_times, second.queue.topic) == (1, "%RETRY%billing")
    assert second.message_id == first.message_id == sent.message_id


async def test_a_handler_says_when(penstock, producer):
    inbox = Inbox(lambda message: Later(delay_level=5) if message.reconsume_times == 0 else None)
    await producer.send(Message("orders", b"body"))
    async with consumer(penstock, "billing", inbox):
        await inbox.until(1)
        await until(lambda: sum(committed(penstock, "billing").values()) == 1, "the commit")
        await penstock.after(59_999)
        assert len(inbox.messages) == 1
        await penstock.after(1)
        await inbox.until(2)


@pytest.mark.parametrize(
    ("failure", "times"), [(Later(), 2), (Later(delay_level=-1), 1)], ids=["too often", "never again"]
)
async def test_a_dead_letter(penstock, producer, failure, times):
    inbox = Inbox(lambda message: failure)
    await producer.send(Message("orders", b"body"))
    async with consumer(penstock, "billing", inbox, settings=ConsumerSettings(reconsume_max=1)):
        for topic in ("orders", "%RETRY%billing")[:times]:
            await until(lambda topic=topic: sum(committed(penstock, "billing", topic).values()) == 1, "the commit")
            await penstock.after(10_000)
    [dead] = await penstock.stored("%DLQ%billing")
    assert (dead.body, len(inbox.messages)) == (b"body", times)


@pytest.fixture
def refuses(monkeypatch):
    """No broker takes anything back."""

    async def refuse(self, message, queue, delay_level):
        raise Refused(1, "not today", "127.0.0.1:1")

    monkeypatch.setattr(SendBack, "_ask", refuse)


async def test_a_broker_that_takes_nothing_back_gets_it_as_a_new_message(penstock, producer, refuses):
    inbox = Inbox(lambda message: Later() if message.reconsume_times == 0 else None)
    sent = await producer.send(Message("orders", b"x" * 10_000, tags="t"))
    async with consumer(penstock, "billing", inbox):
        await inbox.until(1)
        await until(lambda: sum(committed(penstock, "billing").values()) == 1, "the commit")
        await penstock.after(10_000)
        _, second = await inbox.until(2)
    assert (second.topic, second.body, second.tags, second.reconsume_times) == ("orders", b"x" * 10_000, "t", 1)
    assert second.message_id == sent.message_id


async def test_a_new_message_is_a_dead_letter_too_when_it_has_to_be(penstock, producer, refuses):
    inbox = Inbox(lambda message: Later(delay_level=-1))
    await producer.send(Message("orders", b"body"))
    async with consumer(penstock, "billing", inbox):
        await inbox.until(1)
        await until(lambda: sum(committed(penstock, "billing").values()) == 1, "the commit")
    assert [message.body for message in await penstock.stored("%DLQ%billing")] == [b"body"]


async def test_what_cannot_be_given_back_at_all_is_tried_again_here(penstock, producer, refuses, monkeypatch):
    async def nowhere(self, *of_message):
        return False

    monkeypatch.setattr(SendBack, "send", nowhere)
    inbox = Inbox(lambda message: Later() if message.reconsume_times < 2 else None)
    await producer.send(Message("orders", b"body"))
    settings = ConsumerSettings(reconsume_wait_ms=20)
    async with consumer(penstock, "billing", inbox, settings=settings) as one:
        await inbox.until(2)
        assert sum(held.commit_offset for held in one.owned.values()) == 0
        await inbox.until(3)
        await until(lambda: sum(committed(penstock, "billing").values()) == 1, "the commit")
    assert [message.reconsume_times for message in inbox.messages] == [0, 1, 2]


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_what_nobody_foresaw_stops_no_worker(penstock, producer, monkeypatch, caplog, orderly):
    broken = [True]

    async def breaks(self, *of_message, **more):
        if broken.pop():
            raise ZeroDivisionError
        return True

    monkeypatch.setattr(SendBack, "send" if orderly else "back", breaks)
    broken[:0] = [False]
    inbox = Inbox(lambda message: Later() if message.body == b"bad" else None)
    await producer.send(Message("orders", b"bad"))
    settings = ConsumerSettings(reconsume_wait_ms=20, suspend_ms=20, concurrency=1, reconsume_max=0)
    async with consumer(penstock, "billing", inbox, settings=settings, orderly=orderly):
        await inbox.until(2)
        await until(lambda: sum(committed(penstock, "billing").values()) == 1, "the commit")
    assert caplog.messages.count("a message was not dealt with, it is tried again") == 1


async def test_a_handler_that_takes_too_long_is_cancelled_and_its_message_comes_again(penstock, producer):
    async def wait(message):
        await asyncio.Event().wait()

    inbox = Inbox(lambda message: wait(message) if (message.body, message.reconsume_times) == (b"body", 0) else None)
    await producer.send(Message("orders", b"body"))
    settings = ConsumerSettings(handle_timeout_ms=500, concurrency=1)
    async with consumer(penstock, "billing", inbox, settings=settings):
        await inbox.until(1)
        await until(lambda: sum(committed(penstock, "billing").values()) == 1, "the commit")
        await penstock.after(10_000)
        await inbox.until(2)
        await send(producer, 3)  # the worker works on
        await inbox.until(5)


async def test_a_body_that_cannot_be_opened_does_not_stop_the_others(penstock, producer, caplog):
    inbox = Inbox()
    queue = (await producer.queues("orders"))[0]
    ext = {
        "a": "tests",
        "b": "orders",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": str(SysFlag.COMPRESSED),
        "g": "1",
        "h": "0",
    }
    await producer.instance.cluster.get(penstock.addresses["broker"], RequestCode.SEND_MESSAGE_V2, ext, b"not zlib")
    await producer.send(Message("orders", b"fine"), queue)
    async with consumer(penstock, "billing", inbox):
        await inbox.until(1)
        await until(lambda: committed(penstock, "billing").get(0) == 2, "the commit of both")
    assert inbox.bodies == [b"fine"]
    assert "a message cannot be opened" in caplog.messages


async def test_what_a_broadcast_handler_refuses_is_not_tried_again(penstock, producer, tmp_path, caplog):
    inbox = Inbox(lambda message: Later())
    await send(producer, 3)
    options = {"broadcast": True, "offsets_folder": tmp_path, "settings": WAITS}
    async with consumer(penstock, "billing", inbox, **options) as one:
        await inbox.until(3)
        await until(lambda: sum(held.commit_offset for held in one.owned.values()) == 3, "the end")
    assert caplog.messages.count("a broadcast message failed and is not tried again") == 3
