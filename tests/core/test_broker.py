"""The broker as a whole: its events in their topic, its chores, what it says of itself, and its end."""

import asyncio
import contextlib
import errno
import json
import sqlite3
import threading
from collections.abc import AsyncIterator

import pytest

from penstock.clock import ManualClock
from penstock.config import BrokerConfig, Config, ServerConfig, StoreConfig
from penstock.core.broker import Broker
from penstock.core.events import EVENTS_TOPIC, LogReadOnly
from penstock.core.topics import TopicSettings
from penstock.errors import DiskFull, FolderInUse, StoreError, StoreReadOnly
from penstock.model import Durability
from penstock.store.files import LocalFile
from penstock.store.lock import FolderLock
from penstock.store.progress import Progress
from penstock.wire.plain import PLAIN_RUN, message_in, plain, split

LONG_MS = 10_000


def config_for(folder) -> Config:
    return Config(
        server=ServerConfig(data=str(folder)),
        broker=BrokerConfig(chore_interval_ms=1),
        store=StoreConfig(segment_bytes=1 << 20, clean_interval_ms=1_000),
    )


def opened(folder, clock) -> Broker:
    return Broker.open(config_for(folder), clock, {PLAIN_RUN: split}, encoded)


def encoded(queue: int, data: bytes, kind: str, at_ms: int):
    return plain(queue, data, tags=kind, born_ms=at_ms)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def broker(tmp_path, clock) -> AsyncIterator[Broker]:
    broker = opened(tmp_path, clock)
    await broker.start()
    yield broker
    if broker.state != "stopped":
        await broker.stop()


async def told(broker: Broker, kind: str) -> list[dict]:
    """The events of a kind in their topic; waits for the first."""
    queue, offset, found = broker.topics.get(EVENTS_TOPIC).queue(0), 0, []
    while not found:
        assert await broker.fetcher.wait(queue, offset, LONG_MS), f"no {kind}"
        batch = await broker.fetcher.fetch(queue, offset, 1_000, 1_000_000)
        messages = [message_in(payload) for payload in batch.payloads]
        found = [json.loads(message.body) for message in messages if message.tags == kind]
        offset = batch.next_offset
    return found


# --- events -----------------------------------------------------------------------------------------------------------


async def test_events_are_json_in_a_topic_of_their_own(broker, clock):
    await broker.topics.create("orders", TopicSettings(write_queues=2))
    found = [event for event in await told(broker, "TopicCreated") if event["topic"] == "orders"]
    assert found == [{"kind": "TopicCreated", "at_ms": clock.now_ms(), "topic": "orders", "queues": 2}]


async def test_the_topic_of_the_events_is_made_once(broker, tmp_path, clock):
    topic = broker.topics.get(EVENTS_TOPIC)
    assert (topic.system, topic.durability, topic.queue_count) == (True, Durability.ASYNC, 1)
    await broker.stop()
    again = opened(tmp_path, clock)
    await again.start()
    assert again.topics.get(EVENTS_TOPIC) == topic
    await again.stop()


async def test_what_a_broker_is_set_to_holds_for_topics_that_are_there_but_not_for_its_events(tmp_path, clock):
    loose = config_for(tmp_path)
    loose.store.durability = Durability.ASYNC
    broker = Broker.open(loose, clock, {PLAIN_RUN: split}, encoded)
    await broker.start()
    await broker.topics.create("orders")
    await broker.stop()
    again = opened(tmp_path, clock)
    await again.start()
    found = {name: again.topics.get(name).durability for name in ("orders", EVENTS_TOPIC)}
    assert found == {"orders": Durability.SYNC, EVENTS_TOPIC: Durability.ASYNC}
    await again.stop()


@pytest.mark.parametrize("full", [False, True])
async def test_topics_that_cannot_follow_yet_do_not_keep_a_broker_from_starting(tmp_path, clock, monkeypatch, full):
    """Limits were lowered since, or the disk is full: then it is tried again."""
    loose = config_for(tmp_path)
    loose.store.durability = Durability.ASYNC
    broker = Broker.open(loose, clock, {PLAIN_RUN: split}, encoded)
    await broker.start()
    await broker.topics.create("orders", TopicSettings(write_queues=16))
    await broker.stop()
    strict = config_for(tmp_path)
    strict.broker.topic_queues_max = 8
    again = Broker.open(strict, clock, {PLAIN_RUN: split}, encoded)
    whole, tried = again.store.create_queues, asyncio.Event()

    def refuses(*what, **more) -> None:
        tried.set()
        raise DiskFull("orders")

    if full:
        monkeypatch.setattr(again.store, "create_queues", refuses)
    await again.start()
    if full:
        assert (again.state, tried.is_set()) == ("running", True)
        assert again.topics.get("orders").durability is Durability.ASYNC
        monkeypatch.setattr(again.store, "create_queues", whole)
        async with asyncio.timeout(10):
            while again.topics.get("orders").durability is not Durability.SYNC:
                await asyncio.sleep(0.01)
    assert again.topics.get("orders").durability is Durability.SYNC
    await again.stop()


async def test_a_start_tells_how_the_stop_before_was(broker, tmp_path, clock):
    assert (await told(broker, "BrokerStarted"))[0]["replayed_entries"] == 0
    await broker.stop()
    again = opened(tmp_path, clock)
    heard = []
    again.bus.listen(heard.append)
    await again.start()
    assert heard[0].clean
    assert len(await told(again, "BrokerStopping")) == 1
    await again.stop()


async def test_chores_count_minutes_and_apply_retention(broker, clock):
    topic = await broker.topics.create("orders", TopicSettings(write_queues=1, retention_ms=30_000))
    broker.publisher.publish([plain(topic.queue(0), b"a")], lambda error: None)
    await broker.keeper.durable(broker.store.end_position)
    clock.advance(60_000)
    assert (await told(broker, "QueueMinute"))[0]["messages"] == 1
    assert (await told(broker, "QueueTrimmed"))[0]["to_offset"] == 1


async def test_a_chore_that_fails_is_logged_and_the_next_round_goes_on(tmp_path, clock, caplog):
    failures, failed = [StoreReadOnly("out of order"), RuntimeError("out of order")], asyncio.Event()

    def encode(*event):
        if failures:
            failed.set()
            raise failures.pop()
        return encoded(*event)

    broker = Broker.open(config_for(tmp_path), clock, {PLAIN_RUN: split}, encode)
    await broker.start()
    for name in ("first", "second"):  # an event each, for a round that fails
        failed.clear()
        await broker.topics.create(name)
        await asyncio.wait_for(failed.wait(), 10)
    await broker.topics.create("third")
    assert [event["topic"] for event in await told(broker, "TopicCreated")] == ["third"]
    assert caplog.text.count("a chore failed") == 2
    await broker.stop()


async def test_events_are_kept_while_the_disk_is_full(broker, monkeypatch):
    publish, refusals = broker.publisher.publish, []
    enough = asyncio.Event()

    def full_at_first(entries, then) -> None:
        if len(refusals) < 3:
            refusals.append(entries)
            raise DiskFull("no space")
        enough.set()
        publish(entries, then)

    monkeypatch.setattr(broker.publisher, "publish", full_at_first)
    await broker.topics.create("orders")
    await asyncio.wait_for(enough.wait(), 10)
    assert [event["topic"] for event in await told(broker, "TopicCreated")][-1] == "orders"


# --- progress ---------------------------------------------------------------------------------------------------------


def progress_in(folder) -> bytes | None:
    """As somebody else finds it."""
    progress = Progress(str(folder))
    try:
        return progress.get("group", "orders")
    finally:
        progress.abandon()


class Watched:
    """Stands in for `progress.write`: fails so many times, then writes, and says so."""

    def __init__(self, broker: Broker, failures: int = 0) -> None:
        self._write, self.failures, self.written = broker.progress.write, failures, threading.Event()
        broker.progress.write = self

    def __call__(self, changes) -> None:
        if self.failures:
            self.failures -= 1
            raise sqlite3.OperationalError("disk I/O error")
        self._write(changes)
        self.written.set()


@pytest.mark.parametrize("failures", [0, 3])
async def test_progress_is_written_by_the_way_however_often_it_takes(broker, tmp_path, failures):
    watched = Watched(broker, failures)
    broker.progress.put("group", "orders", b"17")
    assert await asyncio.to_thread(watched.written.wait, 10)
    assert progress_in(tmp_path) == b"17"


async def test_a_stop_writes_the_last_of_the_progress(broker, tmp_path):
    broker.progress.put("group", "orders", b"17")
    await broker.stop()
    assert progress_in(tmp_path) == b"17"


async def test_a_stop_waits_for_a_batch_of_progress_that_is_being_written(broker):
    """Two transactions at once on one connection: the second would fail, and with it the stop."""
    order, entered, release = [], threading.Event(), threading.Event()
    write, close = broker.progress.write, broker.progress.close

    def slow(changes) -> None:
        broker.progress.write = write
        entered.set()
        assert release.wait(10)
        write(changes)
        order.append("written")

    def closing() -> None:
        order.append("closed")
        close()

    broker.progress.write, broker.progress.close = slow, closing
    broker.progress.put("group", "orders", b"17")
    assert await asyncio.to_thread(entered.wait, 10)
    stopping = asyncio.ensure_future(broker.stop())
    await asyncio.wait([stopping], timeout=0.2)  # time enough to do it wrong
    release.set()
    await stopping
    assert order == ["written", "closed"]


async def test_damaged_progress_is_told(broker, tmp_path, clock):
    await broker.stop()
    (tmp_path / "progress.sqlite").write_bytes(b"no database" * 1_000)
    again = opened(tmp_path, clock)
    await again.start()
    (event,) = await told(again, "ProgressDamaged")
    assert "progress.sqlite is damaged" in event["what"]
    await again.stop()


# --- one broker per folder --------------------------------------------------------------------------------------------


async def test_a_folder_in_use_is_refused_and_free_after_the_stop(broker, tmp_path, clock):
    with pytest.raises(FolderInUse):
        opened(tmp_path, clock)
    await broker.stop()
    again = opened(tmp_path, clock)
    await again.start()
    await again.stop()


def test_a_start_that_fails_gives_the_folder_back(tmp_path, clock, monkeypatch):
    def fails(*_: object) -> None:
        raise StoreError("cannot be opened")

    monkeypatch.setattr("penstock.core.broker.Store.open", fails)
    with pytest.raises(StoreError):
        opened(tmp_path, clock)
    FolderLock(str(tmp_path)).release()


# --- what it says of itself, and its end ------------------------------------------------------------------------------


async def test_it_is_ready_between_start_and_stop(tmp_path, clock):
    broker = opened(tmp_path, clock)
    assert (broker.state, broker.ready) == ("starting", False)
    await broker.start()
    assert (broker.state, broker.ready) == ("running", True)
    await broker.stop()
    assert (broker.state, broker.ready) == ("stopped", False)


async def test_it_says_so_when_the_log_is_read_only(broker, caplog):
    heard, told_of = [], asyncio.Event()
    broker.bus.listen(lambda event: (heard.append(event), told_of.set()) if isinstance(event, LogReadOnly) else None)
    broker.store.sync_failed("the disk is gone")
    await asyncio.wait_for(told_of.wait(), 10)
    assert [event.why for event in heard] == ["the disk is gone"]
    assert (broker.state, broker.ready) == ("read-only: the disk is gone", False)
    assert "read-only until a restart" in caplog.text


async def test_metrics_tell_what_was_published(broker):
    topic = await broker.topics.create("orders", TopicSettings(write_queues=2))
    entries = [plain(queue, b"x", producer=1, sequence=1) for queue in topic.queues]
    broker.publisher.publish([*entries, *entries], lambda error: None)
    await broker.keeper.durable(broker.store.end_position)
    broker.waits.park(topic.queue(0), LONG_MS, lambda there: None)
    found = {(metric.name, metric.labels.get("topic")): metric.value for metric in broker.metrics()}
    assert found["penstock_topic_messages_total", "orders"] == 2
    assert found["penstock_topic_bytes", "orders"] == 2 * entries[0].length
    assert found["penstock_duplicates_total", None] == 2
    assert (found["penstock_waiting_consumers", None], found["penstock_ready", None]) == (1, 1)
    assert 0 < found["penstock_log_durable_bytes", None] <= found["penstock_log_end_bytes", None]
    broker.waits.wake(topic.queues)


async def test_a_stop_is_a_clean_one(broker, tmp_path, clock):
    topic = await broker.topics.create("orders", TopicSettings(write_queues=1))
    broker.publisher.publish([plain(topic.queue(0), b"a")], lambda error: None)
    await broker.stop()
    again = opened(tmp_path, clock)
    assert (again.store.report.clean, again.store.report.replayed_entries) == (True, 0)
    assert again.store.bounds(topic.queue(0)).max_offset == 1
    await again.start()
    await again.stop()


async def test_a_stop_on_a_broken_disk_still_ends_everything(broker, tmp_path, monkeypatch):
    """The log cannot take the last events; progress, threads and the folder do not depend on that."""

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    broker.progress.put("group", "orders", b"17")
    with monkeypatch.context() as broken, contextlib.suppress(StoreError):
        broken.setattr(LocalFile, "write", fails)
        await broker.stop()
    assert broker.state == "stopped"
    assert "penstock-commit" not in {thread.name for thread in threading.enumerate()}
    FolderLock(str(tmp_path)).release()
    assert progress_in(tmp_path) == b"17"
