"""Staged publishing: nobody sees it before the commit, and a commit happens once, whole, whatever comes between."""

import random

import pytest

from penstock.config import BrokerConfig
from penstock.core.events import Bus, StageCommitted, StageExpired
from penstock.core.publish import Publisher
from penstock.core.staging import Staging
from penstock.core.topics import TopicSettings
from penstock.core.waits import Waits
from penstock.errors import DiskFull, MessageTooLarge, QueueNotFound, StageNotFound, StagesFull
from penstock.model import Durability
from penstock.store.keeper import Keeper
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk, Mode
from penstock.testing.workload import small_config
from penstock.wire.plain import message_in, plain, plain_run

BACK_AGAIN = pytest.mark.parametrize("back", ["restart", "kill"])


async def two_queues(house) -> list[int]:
    topic = await house.topics.create("orders", TopicSettings(write_queues=2))
    return topic.queues


async def commit(house, key: str, *stages: str) -> bool:
    """Until it is durable; whether this commit published."""
    told: list[tuple[Exception | None, bool]] = []
    house.staging.commit(key, stages, lambda error, published: told.append((error, published)))
    await house.keeper.durable(house.store.end_position)
    ((error, published),) = told
    assert error is None
    return published


# --- the story --------------------------------------------------------------------------------------------------------


async def test_nobody_sees_what_is_staged(house):
    one, _ = await two_queues(house)
    end = house.store.end_position
    house.staging.stage("a", [plain(one, b"staged")])
    assert (house.store.end_position, house.bodies(one)) == (end, [])


async def test_a_commit_publishes_all_its_stages_in_the_order_named(house):
    one, two = await two_queues(house)
    house.staging.stage("a", [plain(one, b"a1"), plain(two, b"a2")])
    house.staging.stage("b", [plain(one, b"b1")])
    house.staging.stage("a", [plain(one, b"a3")])
    house.staging.stage("speculative", [plain(one, b"not named")])
    assert await commit(house, "batch 1", "b", "a") is True
    assert (house.bodies(one), house.bodies(two)) == ([b"b1", b"a1", b"a3"], [b"a2"])
    (told,) = house.events(StageCommitted)
    assert (told.key, told.stages, told.messages) == ("batch 1", 2, 4)


async def test_a_commit_wakes_those_who_wait(house):
    one, _ = await two_queues(house)
    woken = []
    house.waits.park(one, 3_600_000, woken.append)
    house.staging.stage("a", [plain(one, b"a")])
    await commit(house, "batch 1", "a")
    assert woken == [True]


async def test_committed_stages_are_gone(house):
    one, _ = await two_queues(house)
    house.staging.stage("a", [plain(one, b"a")])
    await commit(house, "batch 1", "a")
    assert (len(house.staging), house.staging.size_bytes) == (0, 0)
    with pytest.raises(StageNotFound, match="'a'"):
        await commit(house, "batch 2", "a")


async def test_a_batch_without_messages_is_committed_too(house):
    assert await commit(house, "batch 1") is True
    assert await commit(house, "batch 1") is False


async def test_runs_and_closed_batches_are_counted_by_message(house):
    one, _ = await two_queues(house)
    closed = plain(one, b"closed")
    closed.count = 3
    house.staging.stage("a", [plain_run([plain(one, b"r1"), plain(one, b"r2")]), closed])
    await commit(house, "batch 1", "a")
    (told,) = house.events(StageCommitted)
    assert told.messages == 5


# --- once -------------------------------------------------------------------------------------------------------------


async def test_a_second_commit_under_the_key_publishes_nothing(house):
    one, _ = await two_queues(house)
    house.staging.stage("first attempt", [plain(one, b"a")])
    house.staging.stage("second attempt", [plain(one, b"a")])
    assert await commit(house, "batch 1", "first attempt") is True
    assert await commit(house, "batch 1", "second attempt") is False
    assert house.bodies(one) == [b"a"]
    assert (len(house.staging), house.staging.size_bytes) == (0, 0)


@BACK_AGAIN
async def test_a_key_is_remembered_when_the_broker_comes_back(street, back):
    one, _ = await two_queues(street.house)
    street.house.staging.stage("a", [plain(one, b"a")])
    await commit(street.house, "batch 1", "a")
    house = await getattr(street, back)()
    house.staging.stage("a", [plain(one, b"a")])
    assert await commit(house, "batch 1", "a") is False
    assert house.bodies(one) == [b"a"]
    house.staging.stage("a", [plain(one, b"b")])
    assert await commit(house, "batch 2", "a") is True


def test_a_second_commit_is_not_answered_before_the_first_is_durable(still_house):
    queue, told = still_house.topic_now("orders").queue(0), []
    still_house.staging.stage("a", [plain(queue, b"a")])
    still_house.staging.commit("batch 1", ["a"], lambda error, published: told.append(published))
    still_house.staging.commit("batch 1", [], lambda error, published: told.append(published))
    assert told == []
    still_house.store.flush()
    assert told == [True, False]


async def test_a_stage_named_twice_is_published_once(house):
    one, _ = await two_queues(house)
    house.staging.stage("a", [plain(one, b"a")])
    await commit(house, "batch 1", "a", "a")
    assert house.bodies(one) == [b"a"]


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_commit_that_names_an_unknown_stage_publishes_nothing(house):
    one, _ = await two_queues(house)
    house.staging.stage("a", [plain(one, b"a")])
    with pytest.raises(StageNotFound, match="'b' does not exist") as missing:
        house.staging.commit("batch 1", ["a", "b"], lambda error, published: None)
    assert missing.value.stage == "b"
    assert house.bodies(one) == []
    assert await commit(house, "batch 1", "a") is True


@BACK_AGAIN
async def test_stages_do_not_outlive_the_broker_and_the_commit_says_so(street, back):
    one, _ = await two_queues(street.house)
    street.house.staging.stage("a", [plain(one, b"a")])
    house = await getattr(street, back)()
    with pytest.raises(StageNotFound):
        house.staging.commit("batch 1", ["a"], lambda error, published: None)
    assert house.bodies(one) == []


async def test_a_dropped_stage_is_forgotten(house):
    one, _ = await two_queues(house)
    house.staging.stage("a", [plain(one, b"a")])
    house.staging.drop("a")
    house.staging.drop("a")
    assert (len(house.staging), house.staging.size_bytes) == (0, 0)
    with pytest.raises(StageNotFound):
        house.staging.commit("batch 1", ["a"], lambda error, published: None)


async def test_staged_bytes_are_bounded(open_street):
    async with open_street(stages_bytes_max=1_000) as street:
        house = street.house
        one, _ = await two_queues(house)
        house.staging.stage("a", [plain(one, bytes(500))])
        with pytest.raises(StagesFull, match=r"1000 bytes.*stages_bytes_max"):
            house.staging.stage("b", [plain(one, bytes(500))])
        assert len(house.staging) == 1
        house.staging.drop("a")
        house.staging.stage("b", [plain(one, bytes(500))])


async def test_stages_are_bounded(open_street):
    async with open_street(stages_max=2) as street:
        house = street.house
        one, _ = await two_queues(house)
        for name in ("a", "b", "a"):
            house.staging.stage(name, [plain(one, b"x")])
        size_bytes = house.staging.size_bytes
        with pytest.raises(StagesFull, match=r"2 stages.*stages_max"):
            house.staging.stage("c", [plain(one, b"x")])
        assert (len(house.staging), house.staging.size_bytes) == (2, size_bytes)


async def test_a_message_that_could_never_be_published_is_not_staged(open_street):
    async with open_street(message_bytes_max=1_000) as street:
        house = street.house
        one, _ = await two_queues(house)
        with pytest.raises(MessageTooLarge):
            house.staging.stage("a", [plain(one, b"x"), plain(one, bytes(1_000))])
        with pytest.raises(QueueNotFound):
            house.staging.stage("a", [plain(one, b"x"), plain(4711, b"x")])
        assert (len(house.staging), house.staging.size_bytes) == (0, 0)


async def test_a_topic_deleted_before_the_commit_refuses_all_of_it(house):
    one, _ = await two_queues(house)
    other = await house.topics.create("other", TopicSettings(write_queues=1))
    house.staging.stage("a", [plain(one, b"a"), plain(other.queue(0), b"b")])
    await house.topics.delete("other")
    with pytest.raises(QueueNotFound):
        house.staging.commit("batch 1", ["a"], lambda error, published: None)
    house.staging.stage("again", [plain(one, b"a")])
    assert await commit(house, "batch 1", "again") is True
    assert house.bodies(one) == [b"a"]


# --- time -------------------------------------------------------------------------------------------------------------


async def test_a_stage_that_nobody_touches_expires(open_street):
    async with open_street(stage_expiry_ms=1_000) as street:
        house = street.house
        one, _ = await two_queues(house)
        house.staging.stage("a", [plain(one, b"a"), plain(one, b"b")])
        house.clock.advance(999)
        house.staging.expire()
        assert len(house.staging) == 1
        house.clock.advance(1)
        house.staging.expire()
        assert (len(house.staging), house.staging.size_bytes) == (0, 0)
        (told,) = house.events(StageExpired)
        assert (told.stage, told.messages) == ("a", 2)


async def test_a_stage_that_is_still_written_does_not_expire(open_street):
    async with open_street(stage_expiry_ms=1_000) as street:
        house = street.house
        one, _ = await two_queues(house)
        for _ in range(3):
            house.staging.stage("a", [plain(one, b"a")])
            house.clock.advance(600)
            house.staging.expire()
        assert (len(house.staging), house.events(StageExpired)) == (1, [])
        await commit(house, "batch 1", "a")
        assert house.bodies(one) == [b"a"] * 3


@BACK_AGAIN
async def test_a_key_is_forgotten_when_it_is_old(open_street, back):
    async with open_street(commit_key_expiry_ms=1_000) as street:
        await commit(street.house, "old")
        street.house.clock.advance(1_000)
        await commit(street.house, "young")
        street.house.staging.expire()
        house = await getattr(street, back)()
        assert await commit(house, "young") is False
        assert await commit(house, "old") is True


@BACK_AGAIN
async def test_the_oldest_keys_make_room_for_new_ones(open_street, back):
    async with open_street(commit_keys_max=2) as street:
        for key in ("first", "second", "third"):
            await commit(street.house, key)
            street.house.clock.advance(1)
        house = await getattr(street, back)()
        assert await commit(house, "third") is False
        assert await commit(house, "second") is False
        assert await commit(house, "first") is True


# --- all or nothing ---------------------------------------------------------------------------------------------------


class Desk:
    """Staging on a disk in memory."""

    def __init__(self, disk: FaultyDisk, clock, slack_rows: int = 20) -> None:
        config = small_config()
        config.catalog_slack_rows = slack_rows
        self.store = Store.open(disk, config, clock)
        limits = BrokerConfig(commit_keys_max=2)  # old keys go, so that the catalog is written anew now and then
        publisher = Publisher(self.store, Keeper(self.store, clock, config), Waits(1), limits)
        self.staging = Staging(self.store, publisher, clock, Bus(100), limits)

    def commit(self, key: str, bodies: list[bytes]) -> None:
        self.staging.stage("stage", [plain(1 + number % 2, body) for number, body in enumerate(bodies)])
        self.staging.commit(key, ["stage"], lambda error, published: None)

    def bodies(self) -> list[bytes]:
        batches = [self.store.read(queue, 0, 10_000, 10_000_000) for queue in (1, 2)]
        return [message_in(payload).body for batch in batches for payload in batch.payloads]


def new_desk(disk: FaultyDisk, clock, slack_rows: int = 20) -> Desk:
    desk = Desk(disk, clock, slack_rows)
    desk.store.create_queues([1, 2], Durability.SYNC, {})
    desk.store.flush()
    return desk


@pytest.mark.parametrize("seed", range(30))
def test_a_power_cut_leaves_all_of_a_commit_or_nothing_of_it(seed, clock):
    """And who commits again ends up with each message once: the key tells the truth."""
    choose, disk = random.Random(seed), FaultyDisk()
    desk = new_desk(disk, clock)
    wanted = [b"%d." % number + choose.randbytes(choose.randrange(2_000)) for number in range(30)]
    desk.commit("batch", wanted)
    desk = Desk(disk.crash(choose, choose.choice(list(Mode))), clock)
    assert len(desk.bodies()) in (0, 30)
    desk.commit("batch", wanted)
    desk.store.flush()
    assert sorted(desk.bodies()) == sorted(wanted)


def test_a_commit_refused_for_lack_of_space_has_not_happened(clock):
    """Whichever write of it fails: after a refusal the same commit publishes each message once."""
    refused = 0
    for failing in range(8):
        disk = FaultyDisk()
        desk = new_desk(disk, clock, slack_rows=0)
        for number in range(12):
            disk.fail_at(disk.calls + failing, OSError(28, "full"))
            desk.staging.stage("stage", [plain(1, b"%d" % number)])
            try:
                desk.staging.commit(f"batch {number}", ["stage"], lambda error, published: None)
            except DiskFull:
                refused += 1
                disk.mend()
                desk.staging.commit(f"batch {number}", ["stage"], lambda error, published: None)
            disk.mend()
            clock.advance(1)
        desk.store.flush()
        assert desk.bodies() == [b"%d" % number for number in range(12)], f"call {failing} refused"
    assert refused, "no write was ever refused: the test tests nothing"
