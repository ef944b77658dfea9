"""The core on real files: its parts put together as the broker does, without the chores, on a clock that tests own.

A `House` can be stopped (`restart`) and killed (`kill`); what comes back stands on the same folder. Without its keeper
(`still_house`) nothing is synced until the test says `store.flush()`, so that a test can stand between an append and
its sync.
"""

import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from penstock.clock import ManualClock
from penstock.config import KIB, BrokerConfig, StoreConfig
from penstock.core.events import Bus, Event
from penstock.core.fetch import Fetcher
from penstock.core.publish import Publisher
from penstock.core.staging import Staging
from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.core.waits import Waits
from penstock.model import Durability, Entry
from penstock.store.files import LocalDisk
from penstock.store.keeper import Keeper
from penstock.store.plan import Batch
from penstock.store.store import Store
from penstock.wire.plain import PLAIN_RUN, message_in, split

EVERYTHING = 1_000_000
SMALL_STORE = StoreConfig(
    segment_bytes=64 * KIB,
    append_buffer_bytes=16 * KIB,
    fill_step_bytes=4 * KIB,
    fill_ahead_bytes=8 * KIB,
    piece_rows=8,
    chunk_pieces=16,
)


class House:
    """The parts of a core on one folder. Made by `opened`."""

    def __init__(self, disk: LocalDisk, clock: ManualClock, store_config: StoreConfig, config: BrokerConfig) -> None:
        self.disk, self.clock, self.store_config, self.config = disk, clock, store_config, config
        self.bus = Bus(config.events_pending_max)
        self.told: list[Event] = []
        self.bus.listen(self.told.append)
        self.store = Store.open(disk, store_config, clock, {PLAIN_RUN: split})
        self.keeper = Keeper(self.store, clock, store_config)
        self.waits = Waits(config.waiters_max)
        self.topics = Topics(self.store, self.keeper, clock, self.bus, config, store_config.durability)
        self.publisher = Publisher(self.store, self.keeper, self.waits, config)
        self.fetcher = Fetcher(self.store, self.waits, clock, self.bus)
        self.staging = Staging(self.store, self.publisher, clock, self.bus, config)

    def again(self) -> "House":
        return House(self.disk, self.clock, self.store_config, self.config)

    # --- in one word --------------------------------------------------------------------------------------------------

    def topic_now(self, name: str, queues: int = 1, durability: Durability = Durability.SYNC) -> Topic:
        """A topic in a house without its keeper."""
        topic = self.topics.create_now(name, TopicSettings(write_queues=queues, durability=durability))
        self.store.flush()
        return topic

    async def publish(self, *entries: Entry) -> None:
        """Until they are acknowledged."""
        told: list[Exception | None] = []
        self.publisher.publish(entries, told.append)
        await self.keeper.durable(self.store.end_position)
        assert told == [None]

    def read(self, queue: int, offset: int | None = None) -> Batch:
        """All that a queue shows."""
        start = self.store.bounds(queue).min_offset if offset is None else offset
        return self.store.read(queue, start, EVERYTHING, EVERYTHING)

    def bodies(self, queue: int) -> list[bytes]:
        return [message_in(payload).body for payload in self.read(queue).payloads]

    def events(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.told if isinstance(event, kind)]


class Street:
    """One house after the other on the same folder: whatever is open at the end is closed."""

    def __init__(self, house: House) -> None:
        self.house = house

    async def start(self) -> House:
        await self.house.keeper.start()
        return self.house

    async def restart(self) -> House:
        """A clean stop, and up again."""
        await self.house.keeper.stop()
        self.house = self.house.again()
        return await self.start()

    async def kill(self) -> House:
        """As `kill -9` would leave it, and up again."""
        self.house.store.abandon()
        await self.house.keeper.stop()
        self.house = self.house.again()
        return await self.start()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_house(tmp_path, clock) -> Callable[..., House]:
    """A house with the settings that a test wants, given as for BrokerConfig; without its keeper."""

    def open_one(store: StoreConfig = SMALL_STORE, **settings: int) -> House:
        return House(LocalDisk(str(tmp_path / "data")), clock, msgspec.structs.replace(store), BrokerConfig(**settings))

    return open_one


@pytest.fixture
def open_street(open_house) -> Callable[..., contextlib.AbstractAsyncContextManager[Street]]:
    """A street whose first house has its keeper running."""

    @contextlib.asynccontextmanager
    async def open_one(store: StoreConfig = SMALL_STORE, **settings: int) -> AsyncIterator[Street]:
        street = Street(open_house(store, **settings))
        await street.start()
        try:
            yield street
        finally:
            await street.house.keeper.stop()

    return open_one


@pytest.fixture
async def street(open_street) -> AsyncIterator[Street]:
    async with open_street() as street:
        yield street


@pytest.fixture
def house(street) -> House:
    return street.house


@pytest.fixture
def still_house(open_house) -> House:
    return open_house()
