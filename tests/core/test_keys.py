"""The key index: found by key, newest first, whatever the blocks are made of, and made anew when they are gone.

Messages are words with spaces between: each word is a key. Blocks are eight messages long here.
"""

import asyncio
import random

import pytest

from penstock.core import keys as module
from penstock.core.keys import KeyIndex, Search
from penstock.core.topics import TopicSettings
from penstock.errors import IndexBusy
from penstock.model import Durability
from penstock.store.keyfiles import FOLDER
from penstock.wire.plain import message_in, plain, tag_hash

BLOCK = 8
EVER = 1 << 63


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_MESSAGES", BLOCK)
    monkeypatch.setattr(module, "STEP_MESSAGES", 3)


class Library:
    """A topic and an index that counts what it reads."""

    def __init__(self, street) -> None:
        self._street = street
        self.looked_at = 0

    @property
    def house(self):
        return self._street.house

    async def open(self, queues: int = 1) -> None:
        if self.house.topics.find("words") is None:
            await self.house.topics.create("words", TopicSettings(write_queues=queues))
        self.queues = self.house.topics.get("words").queues
        self.index = KeyIndex(self.house.store, self.house.fetcher, self.house.clock, self.keys_in)

    def keys_in(self, payload):
        self.looked_at += 1
        return message_in(payload).body.split()

    async def put(self, *texts: str, queue: int = 0) -> None:
        for text in texts:
            self.house.clock.advance(1)
            await self.house.publish(plain(self.queues[queue], text.encode()))

    async def find(self, key: str, begin_ms: int = 0, end_ms: int = EVER, most: int = 64, bytes_max: int = 1 << 20):
        def matches(payload):
            return key.encode() in message_in(payload).body.split()

        search = Search(begin_ms, end_ms, matches, most, bytes_max)
        found = await self.index.find(self.queues, key.encode(), search)
        return [message_in(payload).body.decode() for payload in found]

    @property
    def files(self) -> list[str]:
        return self.house.disk.list(FOLDER)


@pytest.fixture
async def library(street):
    library = Library(street)
    await library.open()
    return library


async def test_by_each_of_its_keys_and_the_newest_first(library):
    await library.put("red one", "blue two", "red three")
    assert await library.find("red") == ["red three", "red one"]
    assert await library.find("two") == ["blue two"]
    assert await library.find("green") == []


async def test_across_queues_by_time(street):
    library = Library(street)
    await library.open(queues=3)
    for number in range(30):
        await library.put(f"red {number}", queue=number % 3)
    assert await library.find("red") == [f"red {number}" for number in reversed(range(30))]


async def test_only_in_the_range_of_time(library):
    times = []
    for number in range(20):
        await library.put(f"red {number}")
        times.append(library.house.clock.now_ms())
    assert await library.find("red", times[5], times[9]) == ["red 9", "red 8", "red 7", "red 6", "red 5"]
    assert await library.find("red", times[-1] + 1) == []
    assert await library.find("red", -5, times[0]) == ["red 0"]


async def test_not_more_than_was_asked_for(library):
    await library.put(*(f"red {number}" for number in range(20)))
    assert await library.find("red", most=2) == ["red 19", "red 18"]
    assert await library.find("red", bytes_max=1) == ["red 19"]


async def test_what_comes_later_is_found_and_the_rest_is_not_read_again(library):
    await library.put(*(f"red {number}" for number in range(10)))
    await library.find("red")
    assert library.looked_at == 10
    await library.put("blue 10")
    assert await library.find("blue") == ["blue 10"]
    assert library.looked_at == 11


async def test_complete_blocks_are_kept_in_files(street, library):
    await library.put(*(f"red {number}" for number in range(2 * BLOCK + 3)))
    await library.find("7")
    assert len(library.files) == 2
    for again in (street.restart, street.kill):
        await again()
        await library.open()
        library.looked_at = 0
        assert await library.find("7") == ["red 7"]
        assert library.looked_at == 3  # only the block that is not complete


async def test_what_may_be_lost_is_not_kept(open_house):
    """Its offset may come to be another message's after a power cut."""
    house = open_house()
    topic = house.topic_now("words", durability=Durability.ASYNC)
    queue = topic.queue(0)
    for number in range(BLOCK):
        house.publisher.publish([plain(queue, b"red %d" % number)], lambda error: None)
    index = KeyIndex(house.store, house.fetcher, house.clock, lambda payload: message_in(payload).body.split())
    everything = Search(0, EVER, lambda payload: True, 64, 1 << 20)
    assert len(await index.find([queue], b"red", everything)) == BLOCK
    assert not house.disk.list(FOLDER)
    house.store.flush()
    await index.find([queue], b"red", everything)
    assert len(house.disk.list(FOLDER)) == 1


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "empty", "another's"])
async def test_a_damaged_file_is_made_anew(library, street, damage):
    await library.put(*(f"red {number}" for number in range(2 * BLOCK)))
    await library.find("7")
    names, disk = [f"{FOLDER}/{name}" for name in library.files], library.house.disk
    file = disk.open(names[0])
    if damage == "gone":
        disk.remove(names[0])
    elif damage == "cut":
        file.truncate(file.length() - 1)
    elif damage == "flipped":
        file.write(bytes([file.read(1, 40)[0] ^ 1]), 40)
    elif damage == "empty":
        file.truncate(0)
    else:
        disk.rename(names[1], names[0])
    file.close()
    await street.restart()
    await library.open()
    library.looked_at = 0
    assert await library.find("7") == ["red 7"]
    assert library.looked_at >= BLOCK


async def test_what_retention_has_taken_is_not_found_and_its_files_go(library):
    await library.put(*(f"red {number}" for number in range(3 * BLOCK)))
    assert len(await library.find("red")) == 3 * BLOCK
    library.house.store.trim(library.queues[0], 2 * BLOCK + 1)
    assert await library.find("red") == [f"red {number}" for number in reversed(range(2 * BLOCK + 1, 3 * BLOCK))]
    assert len(library.files) == 1


async def test_files_of_a_deleted_topic_go_with_the_next_start(street, library):
    await library.put(*(f"red {number}" for number in range(BLOCK)))
    await library.find("red")
    await library.house.topics.delete("words")
    assert library.files
    await street.restart()
    await library.open()
    assert not library.files


async def test_by_tag(library):
    for number in range(3 * BLOCK):
        tag = ("red", "blue", "")[number % 3]
        await library.house.publish(plain(library.queues[0], b"%d" % number, tags=tag))
    library.house.store.trim(library.queues[0], 2)
    search = Search(0, EVER, lambda payload: message_in(payload).body != b"21", 3, 1 << 20)
    found = await library.index.find_tagged(library.queues, tag_hash("red"), search)
    assert [message_in(payload).body for payload in found] == [b"18", b"15", b"12"]
    everything = search._replace(messages_max=64)
    found = await library.index.find_tagged(library.queues, tag_hash("red"), everything)
    assert len(found) == BLOCK - 2
    assert not await library.index.find_tagged(library.queues, tag_hash("green"), everything)


async def test_too_many_keys_are_found_all_the_same(library):
    many = " ".join(f"key{number}" for number in range(module.KEYS_MAX + 1))
    await library.put("red", many, "blue")
    assert await library.find("key7") == [many]
    assert await library.find("red") == ["red"]


async def test_equal_hashes_are_told_apart(library, monkeypatch):
    monkeypatch.setattr(module, "crc32c", lambda key: 5)
    await library.put("red", "blue", "red")
    assert await library.find("blue") == ["blue"]


async def test_memory_is_bounded_and_the_answer_the_same(library, monkeypatch):
    monkeypatch.setattr(module, "CACHE_BYTES_MAX", 100)
    await library.put(*(f"red {number}" for number in range(5 * BLOCK)))
    assert len(await library.find("red")) == 5 * BLOCK
    assert library.index._cache_bytes <= 100
    assert len(await library.find("red")) == 5 * BLOCK


async def test_a_long_search_is_broken_off_and_gone_on_with(library, monkeypatch):
    await library.put(*(f"red {number}" for number in range(3 * BLOCK)))
    slow, clock = library.index._keys_in, library.house.clock

    def keys_in(payload):
        clock.advance(module.FIND_MS_MAX // 10)
        return slow(payload)

    library.index._keys_in = keys_in
    refused = 0
    while True:
        try:
            assert await library.find("7") == ["red 7"]
            break
        except IndexBusy:
            refused += 1
    assert refused == 2
    assert library.looked_at == 3 * BLOCK  # nothing twice


async def test_only_so_many_wait(library, monkeypatch):
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    await library.put("red")
    results = await asyncio.gather(*(library.find("red") for _ in range(3)), return_exceptions=True)
    assert results[:2] == [["red"], ["red"]]
    assert isinstance(results[2], IndexBusy)


@pytest.mark.parametrize("seed", range(5))
async def test_it_finds_what_a_plain_search_finds(street, seed):
    choose, library = random.Random(seed), Library(street)
    await library.open(queues=2)
    stored: list[tuple[int, str]] = []
    for _ in range(choose.randrange(40, 90)):
        text = " ".join(choose.choices(["a", "b", "c", "d", "e"], k=choose.randrange(4))) or "-"
        await library.put(text, queue=choose.randrange(2))
        stored.append((library.house.clock.now_ms(), text))
        if choose.random() < 0.2:
            key, (begin, _), (end, _) = choose.choice("abcde"), choose.choice(stored), choose.choice(stored)
            expected = [text for at, text in reversed(stored) if begin <= at <= end and key in text.split()]
            assert await library.find(key, begin, end) == expected, seed
