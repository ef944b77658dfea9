"""Half messages: nobody sees them, each is ended once, and what is open survives whatever happens."""

import pytest

from penstock.core import halves as module
from penstock.core.halves import HalfLimits, Halves
from penstock.core.topics import TopicSettings
from penstock.errors import HalfNotOpen, TooManyHalves
from penstock.wire.plain import message_in, plain

TIMEOUT_MS, INTERVAL_MS = 6_000, 60_000


class Desk:
    """Half messages whose bodies are numbers, and the one queue that they are meant for."""

    def __init__(self, street, **limits: int) -> None:
        self._street = street
        self._limits = HalfLimits(**{"ask_interval_ms": INTERVAL_MS, "asks_max": 3, "open_max": 1_000_000, **limits})

    @property
    def house(self):
        return self._street.house

    async def open(self) -> "Desk":
        topics = self.house.topics
        if topics.find("halves") is None:
            await topics.create("halves", TopicSettings(write_queues=2, retention_ms=0))
            await topics.create("real", TopicSettings(write_queues=1))
        self.held, self.notes = topics.get("halves").queues
        self.real = topics.get("real").queue(0)
        house = self.house
        parts = house.store, house.fetcher, house.publisher, house.clock
        self.halves = Halves(*parts, self.held, self.notes, self._limits)
        return self

    async def hold(self, *bodies: bytes, first_ask_ms: int = TIMEOUT_MS) -> list[int]:
        entries = [plain(self.held, body) for body in bodies]
        for entry in entries:
            entry.tag = first_ask_ms
        self.halves.check_room(len(entries))
        self.house.publisher.publish(entries, lambda error: None)
        for entry in entries:
            self.halves.held(entry)
        await self.durable()
        return [entry.offset for entry in entries]

    async def durable(self) -> None:
        await self.house.keeper.durable(self.house.store.end_position)

    async def commit(self, *offsets: int) -> None:
        payloads = [await self.halves.read(offset) for offset in offsets]
        told: list[Exception | None] = []
        self.halves.end(offsets, [plain(self.real, message_in(payload).body) for payload in payloads], told.append)
        await self.durable()
        assert told == [None]

    def roll_back(self, *offsets: int) -> None:
        self.halves.end(offsets, [], lambda error: None)

    def due(self, passed_ms: int = 0) -> list[int]:
        self.house.clock.advance(passed_ms)
        return self.halves.due(1_000)

    async def again(self, end: str) -> None:
        await getattr(self._street, end)()
        await self.open()

    @property
    def published(self) -> list[bytes]:
        return self.house.bodies(self.real)


@pytest.fixture
async def desk(street):
    return await Desk(street).open()


async def test_a_half_message_is_seen_only_when_it_is_committed(desk):
    (offset,) = await desk.hold(b"paid")
    assert desk.published == []
    await desk.commit(offset)
    assert desk.published == [b"paid"]
    assert len(desk.halves) == 0


async def test_what_is_rolled_back_is_never_seen(desk):
    (offset,) = await desk.hold(b"not paid")
    desk.roll_back(offset)
    await desk.durable()
    assert desk.published == []
    assert desk.due(10 * INTERVAL_MS) == []


async def test_each_is_ended_once(desk):
    (offset,) = await desk.hold(b"paid")
    await desk.commit(offset)
    for offsets in ([offset], [offset + 1]):
        with pytest.raises(HalfNotOpen):
            desk.halves.end(offsets, [plain(desk.real, b"again")], lambda error: None)
    assert desk.published == [b"paid"]


async def test_one_that_is_not_open_keeps_the_others_from_being_ended(desk):
    first, second = await desk.hold(b"1", b"2")
    desk.roll_back(first)
    with pytest.raises(HalfNotOpen):
        desk.roll_back(second, first)
    assert second in desk.halves


@pytest.mark.parametrize("end", ["restart", "kill"])
async def test_what_is_open_and_what_has_ended_survives(desk, end):
    first, second, third, fourth = await desk.hold(b"1", b"2", b"3", b"4")
    await desk.commit(second)
    desk.roll_back(third)
    await desk.durable()
    await desk.again(end)
    assert [offset in desk.halves for offset in (first, second, third, fourth)] == [True, False, False, True]
    with pytest.raises(HalfNotOpen):
        desk.roll_back(second)
    await desk.commit(first, fourth)
    assert desk.published == [b"2", b"1", b"4"]


async def test_a_commit_that_is_cut_off_leaves_the_half_message_open(still_house):
    """Not even a part of the group counts: the message and the note that ends it come together or not at all."""
    topics = still_house.topics
    held, notes = topics.create_now("halves", TopicSettings(write_queues=2, retention_ms=0)).queues
    real = still_house.topic_now("real").queue(0)
    limits = HalfLimits(INTERVAL_MS, 3, 100)

    def opened(house):
        return Halves(house.store, house.fetcher, house.publisher, house.clock, held, notes, limits)

    halves = opened(still_house)
    half = plain(held, b"paid")
    still_house.publisher.publish([half], lambda error: None)
    halves.held(half)
    still_house.store.flush()
    whole = still_house.store.end_position
    halves.end([half.offset], [plain(real, b"paid" * 100)], lambda error: None)
    end, segment_bytes = still_house.store.end_position, still_house.store_config.segment_bytes
    still_house.store.abandon()
    assert end < segment_bytes
    file = still_house.disk.open("log/" + min(still_house.disk.list("log")))
    file.write(bytes(40), end - 40)
    file.close()
    house = still_house.again()
    try:
        assert house.store.end_position == whole
        assert half.offset in opened(house)
        assert house.bodies(real) == []
    finally:
        house.store.close()


async def test_a_producer_is_asked_after_a_while_and_then_again_and_again(desk):
    (offset,) = await desk.hold(b"?")
    assert desk.due(TIMEOUT_MS - 1) == []
    assert desk.due(1) == [offset]
    assert desk.due() == []
    assert desk.due(INTERVAL_MS - 1) == []
    assert desk.due(1) == [offset]


async def test_a_message_says_itself_when_to_ask_first(desk):
    (soon,) = await desk.hold(b"soon", first_ask_ms=1_000)
    (late,) = await desk.hold(b"late", first_ask_ms=100_000)
    assert desk.due(1_000) == [soon]
    assert desk.due(99_000) == [soon, late]


@pytest.mark.parametrize("end", ["restart", "kill"])
async def test_when_to_ask_first_and_how_often_was_asked_survives(desk, end):
    asked, fresh = await desk.hold(b"asked", b"fresh", first_ask_ms=0)
    assert desk.due() == [asked, fresh]
    for _ in range(3):
        desk.halves.asked([asked])
    (late,) = await desk.hold(b"late", first_ask_ms=100_000)
    await desk.again(end)
    assert (desk.halves.asks(asked), desk.halves.asks(fresh)) == (3, 0)
    assert desk.halves.is_hopeless(asked)
    assert desk.due() == [fresh]
    assert desk.due(100_000) == [asked, fresh, late]


async def test_more_than_the_limit_is_refused(street):
    desk = await Desk(street, open_max=2).open()
    first, _ = await desk.hold(b"1", b"2")
    with pytest.raises(TooManyHalves, match=r"rocketmq\.half_messages_max"):
        await desk.hold(b"3")
    desk.roll_back(first)
    await desk.hold(b"3")


@pytest.mark.parametrize("end", ["restart", "kill"])
async def test_the_notes_are_summed_up_and_nothing_is_forgotten(desk, end, monkeypatch):
    monkeypatch.setattr(module, "_NOTES_MAX", 10)
    (kept,) = await desk.hold(b"kept")
    desk.halves.asked([kept])
    for number in range(100):
        (offset,) = await desk.hold(b"%d" % number)
        await desk.commit(offset)
    table = desk.house.store.table(desk.notes)
    assert table.next_row - table.min_row < 30
    assert desk.house.store.bounds(desk.held).min_offset == kept
    (last,) = await desk.hold(b"last")
    await desk.again(end)
    assert (len(desk.halves), desk.halves.asks(kept)) == (2, 1)
    await desk.commit(kept, last)
    assert desk.published == [*(b"%d" % number for number in range(100)), b"kept", b"last"]
    for number in range(20):
        (offset,) = await desk.hold(b"%d" % number)
        desk.roll_back(offset)
    assert desk.house.store.bounds(desk.held).min_offset > last


async def test_memory_does_not_grow_with_what_has_ended(desk, monkeypatch):
    monkeypatch.setattr(module, "_HEAP_SLACK", 8)
    for _ in range(50):
        (offset,) = await desk.hold(b"x", first_ask_ms=10**9)
        desk.roll_back(offset)
    assert len(desk.halves._due) <= 9


async def test_notes_that_older_versions_wrote_are_read(desk, monkeypatch):
    """They had the number of another encoding."""

    class Older(module._NoteEntry):
        encoding = 5

    monkeypatch.setattr(module, "_NoteEntry", Older)
    first, second, third = await desk.hold(b"a", b"b", b"c")
    await desk.commit(second)
    desk.halves.asked([first])
    await desk.durable()
    assert desk.house.store.table(desk.notes).encodings == 1 << 5
    monkeypatch.undo()
    await desk.again("restart")
    assert [offset in desk.halves for offset in (first, second, third)] == [True, False, True]
    assert desk.halves.asks(first) == 1
    await desk.commit(third)
    await desk.again("kill")
    assert [offset in desk.halves for offset in (first, second, third)] == [True, False, False]
    assert desk.house.store.table(desk.notes).encodings == 1 << 5 | 1 << module.ENCODING
