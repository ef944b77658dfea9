"""Reading a queue: by offset or by entry, as much as the limits allow, and without holding up the loop."""

import asyncio
import contextlib
import threading

import pytest

from penstock.core.events import DamageFound
from penstock.core.topics import TopicSettings
from penstock.errors import OffsetOutOfRange, QueueNotFound
from penstock.store.files import LocalFile
from penstock.wire.plain import message_in, plain, plain_run

PLENTY = 1_000_000


async def a_queue(house, messages: int = 0) -> int:
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue = topic.queue(0)
    if messages:
        await house.publish(*(plain(queue, b"%d" % number) for number in range(messages)))
    return queue


def bodies(batch) -> list[bytes]:
    return [message_in(payload).body for payload in batch.payloads]


# --- where ------------------------------------------------------------------------------------------------------------


async def test_from_an_offset_to_the_end(house):
    queue = await a_queue(house, messages=20)
    batch = await house.fetcher.fetch(queue, 5, PLENTY, PLENTY)
    assert bodies(batch) == [b"%d" % number for number in range(5, 20)]
    assert (batch.next_offset, batch.next_row) == (20, 20)


async def test_at_the_end_there_is_nothing_yet(house):
    queue = await a_queue(house, messages=3)
    batch = await house.fetcher.fetch(queue, 3, PLENTY, PLENTY)
    assert (bodies(batch), batch.next_offset, batch.next_row) == ([], 3, 3)


async def test_an_empty_queue_has_an_end_too(house):
    queue = await a_queue(house)
    assert bodies(await house.fetcher.fetch(queue, 0, PLENTY, PLENTY)) == []


@pytest.mark.parametrize("offset", [-1, 4, 1_000_000])
async def test_an_offset_outside_tells_what_there_is(house, offset):
    queue = await a_queue(house, messages=3)
    house.store.trim(queue, 1)
    with pytest.raises(OffsetOutOfRange, match=f"offset {offset} .* 1 up to 3") as outside:
        await house.fetcher.fetch(queue, offset, PLENTY, PLENTY)
    assert (outside.value.minimum, outside.value.maximum, outside.value.offset) == (1, 3, offset)
    with pytest.raises(OffsetOutOfRange):
        house.fetcher.fetch_now(queue, offset, PLENTY, PLENTY)
    with pytest.raises(OffsetOutOfRange):
        await house.fetcher.fetch_rows(queue, offset, PLENTY, PLENTY)


async def test_an_offset_before_what_is_kept_is_outside(house):
    queue = await a_queue(house, messages=3)
    house.store.trim(queue, 2)
    with pytest.raises(OffsetOutOfRange) as outside:
        await house.fetcher.fetch(queue, 1, PLENTY, PLENTY)
    assert (outside.value.minimum, outside.value.maximum) == (2, 3)


async def test_an_unknown_queue_is_named(house):
    with pytest.raises(QueueNotFound, match="queue 4711"):
        await house.fetcher.fetch(4711, 0, PLENTY, PLENTY)


async def test_entries_are_numbered_apart_from_offsets(house):
    """A closed batch of three and one more: entries 0 and 1, offsets 0 to 3."""
    queue = await a_queue(house)
    closed, single = plain(queue, b"three in one"), plain(queue, b"one")
    closed.count = 3
    await house.publish(closed, single)
    by_entry = await house.fetcher.fetch_rows(queue, 1, PLENTY, PLENTY)
    assert (bodies(by_entry), by_entry.rows["base"].tolist()) == ([b"one"], [3])
    assert (by_entry.next_row, by_entry.next_offset) == (2, 4)


@pytest.mark.parametrize("offset", [0, 1, 2])
async def test_an_offset_inside_a_closed_batch_gets_the_batch(house, offset):
    queue = await a_queue(house)
    closed = plain(queue, b"three in one")
    closed.count = 3
    await house.publish(closed)
    batch = await house.fetcher.fetch(queue, offset, PLENTY, PLENTY)
    assert (bodies(batch), batch.next_offset) == ([b"three in one"], 3)


async def test_a_run_is_read_from_its_middle(house):
    queue = await a_queue(house)
    await house.publish(plain_run([plain(queue, b"%d" % number) for number in range(10)]))
    batch = await house.fetcher.fetch(queue, 4, 3, PLENTY)
    assert (bodies(batch), batch.next_offset) == ([b"4", b"5", b"6"], 7)


# --- how much ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages_max", [1, 7, 8, 9, 20, 21])
async def test_no_more_messages_than_asked_for(house, messages_max):
    queue = await a_queue(house, messages=20)
    batch = await house.fetcher.fetch(queue, 0, messages_max, PLENTY)
    assert len(bodies(batch)) == min(20, messages_max)
    assert batch.next_offset == min(20, messages_max)


async def test_messages_in_a_closed_batch_count(house):
    queue = await a_queue(house)
    entries = [plain(queue, b"%d" % number) for number in range(4)]
    for entry in entries:
        entry.count = 5
    await house.publish(*entries)
    assert len(bodies(await house.fetcher.fetch(queue, 0, 14, PLENTY))) == 2
    assert len(bodies(await house.fetcher.fetch(queue, 0, 15, PLENTY))) == 3


async def test_no_more_bytes_than_asked_for(house):
    queue = await a_queue(house, messages=10)
    length = plain(queue, b"0").length
    assert len(bodies(await house.fetcher.fetch(queue, 0, PLENTY, 3 * length))) == 3
    assert len(bodies(await house.fetcher.fetch(queue, 0, PLENTY, 3 * length - 1))) == 2


@pytest.mark.parametrize(("messages_max", "bytes_max"), [(1, 1), (PLENTY, 0), (0, PLENTY), (0, 0)])
async def test_at_least_one_however_narrow_the_limits(house, messages_max, bytes_max):
    """Else a consumer would ask for ever; and never is anything skipped."""
    queue = await a_queue(house, messages=3)
    batch = await house.fetcher.fetch(queue, 0, messages_max, bytes_max)
    assert (bodies(batch), batch.next_offset) == ([b"0"], 1)


async def test_a_batch_larger_than_the_limit_is_handed_out_alone(house):
    queue = await a_queue(house)
    closed = plain(queue, b"hundred in one")
    closed.count = 100
    await house.publish(closed, plain(queue, b"next"))
    batch = await house.fetcher.fetch(queue, 0, 10, PLENTY)
    assert (bodies(batch), batch.next_offset) == ([b"hundred in one"], 100)


async def test_following_next_offset_reads_everything_once(house):
    queue = await a_queue(house)
    for number in range(40):
        entry = plain(queue, b"%d" % number)
        entry.count = 1 + number % 3
        await house.publish(entry)
    found, offset = [], 0
    while offset < house.store.bounds(queue).max_offset:
        batch = await house.fetcher.fetch(queue, offset, 4, 300)
        found.extend(bodies(batch))
        offset = batch.next_offset
    assert found == [b"%d" % number for number in range(40)]


# --- without holding up the loop --------------------------------------------------------------------------------------


class Cold:
    """Nothing of the log is in memory, and the disk answers when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        self.asked, self.answer = threading.Event(), threading.Event()
        read_all = LocalFile.read_all

        def slow(file: LocalFile, places: list[tuple[int, int]], wait: bool) -> list[memoryview] | None:
            if not wait:
                return None
            self.threads.append(threading.current_thread().name)
            self.asked.set()
            assert self.answer.wait(10)
            return read_all(file, places, wait)

        monkeypatch.setattr(LocalFile, "read_all", slow)
        monkeypatch.setattr(LocalFile, "is_resident", lambda file, mapping, at, length: False)


async def test_a_cold_read_leaves_the_loop_free(street, monkeypatch):
    queue = await a_queue(street.house, messages=10)
    house = await street.restart()
    cold = Cold(monkeypatch)
    reading = asyncio.ensure_future(house.fetcher.fetch(queue, 0, PLENTY, PLENTY))
    assert await asyncio.to_thread(cold.asked.wait, 10)
    other = await house.topics.create("other", TopicSettings(write_queues=1))  # meanwhile
    await house.publish(plain(other.queue(0), b"beside"))
    assert not reading.done()
    cold.answer.set()
    assert bodies(await reading) == [b"%d" % number for number in range(10)]
    assert threading.current_thread().name not in cold.threads


async def test_reading_now_says_that_it_cannot(street, monkeypatch):
    queue = await a_queue(street.house, messages=3)
    house = await street.restart()
    cold = Cold(monkeypatch)
    assert house.fetcher.fetch_now(queue, 0, PLENTY, PLENTY) is None
    assert cold.threads == []


async def test_what_was_written_a_moment_ago_is_read_now(house):
    queue = await a_queue(house, messages=3)
    batch = house.fetcher.fetch_now(queue, 0, PLENTY, PLENTY)
    assert bodies(batch) == [b"0", b"1", b"2"]


async def test_what_is_in_memory_needs_no_thread(street, monkeypatch):
    queue = await a_queue(street.house, messages=3)
    house = await street.restart()

    read_all = LocalFile.read_all

    def from_memory(file: LocalFile, places: list[tuple[int, int]], wait: bool) -> list[memoryview] | None:
        assert not wait, "asked the disk"
        return read_all(file, places, wait=True)  # a machine short of memory may have let go of it

    monkeypatch.setattr(LocalFile, "read_all", from_memory)
    monkeypatch.setattr(LocalFile, "is_resident", lambda file, mapping, at, length: False)
    assert bodies(house.fetcher.fetch_now(queue, 0, PLENTY, PLENTY)) == [b"0", b"1", b"2"]


# --- beside the cleaner -----------------------------------------------------------------------------------------------


async def nearly_emptied(street) -> tuple[int, list[bytes]]:
    """A queue whose few messages lie in segments of which another queue's retention took nearly all."""
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=2))
    queue, other = topic.queues
    for number in range(30):
        await street.house.publish(plain(queue, b"%d" % number), plain(other, bytes(10_000)))
    street.house.store.trim(other, 30)
    await street.restart()
    return queue, [b"%d" % number for number in range(30)]


async def overtaken(house, queue: int, monkeypatch, offset: int = 0):
    """A read that began before the cleaner did, and ends after it."""
    segments, cold = house.disk.list("log"), Cold(monkeypatch)
    reading = asyncio.ensure_future(house.fetcher.fetch(queue, 0, PLENTY, PLENTY))
    assert await asyncio.to_thread(cold.asked.wait, 10)
    house.store.trim(queue, offset)
    house.store.clean()
    assert house.disk.list("log")[0] > segments[0], "the cleaner should have removed a segment"
    cold.answer.set()
    return await reading


async def test_a_read_that_the_cleaner_overtakes_finds_everything(street, monkeypatch):
    """The messages were never gone: who skips them loses them, and who calls them damaged wakes somebody at night."""
    queue, wanted = await nearly_emptied(street)
    house = street.house
    batch = await overtaken(house, queue, monkeypatch)
    found, offset = bodies(batch), batch.next_offset
    while offset < 30:
        batch = await house.fetcher.fetch(queue, offset, PLENTY, PLENTY)
        found, offset = found + bodies(batch), batch.next_offset
    assert found == wanted
    assert (house.events(DamageFound), house.store.damage) == ([], [])


async def test_a_read_that_retention_overtakes_is_no_damage(street, monkeypatch):
    """Served, or outside the queue by now: both are true."""
    queue, _ = await nearly_emptied(street)
    with contextlib.suppress(OffsetOutOfRange):
        await overtaken(street.house, queue, monkeypatch, offset=30)
    assert (street.house.events(DamageFound), street.house.store.damage) == ([], [])


# --- damage -----------------------------------------------------------------------------------------------------------


def damage_one(house, tmp_path, body: bytes) -> None:
    """Rot while the broker is stopped."""
    for path in (tmp_path / "data" / "log").iterdir():
        data = path.read_bytes()
        if body in data:
            path.write_bytes(data.replace(body, b"?" * len(body)))


async def test_damage_is_told_once_and_its_neighbours_are_served(street, tmp_path):
    house = street.house
    queue = await a_queue(house)
    await house.publish(*(plain(queue, b"body of number %d" % number) for number in range(3)))
    await house.keeper.stop()
    damage_one(house, tmp_path, b"body of number 1")
    street.house = house = house.again()
    await street.start()
    for _ in range(2):
        batch = await house.fetcher.fetch(queue, 0, PLENTY, PLENTY)
        assert bodies(batch) == [b"body of number 0", b"body of number 2"]
        assert batch.next_offset == 3
    (told,) = house.events(DamageFound)
    assert told.why == "checksum wrong when served"
    assert [damage.position for damage in house.store.damage] == [told.position]
