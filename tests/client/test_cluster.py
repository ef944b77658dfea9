"""Masters, slaves and name servers that go: who is asked then. On a cluster that does what the test says."""

import asyncio

import pytest
from tests.client import fakes
from tests.client.pushing import WAITS, until

from penstock.client import positions
from penstock.client.consumer.locks import Locks
from penstock.client.consumer.push import PushConsumer
from penstock.client.errors import Unreachable
from penstock.client.instance import Instance, Timers
from penstock.client.positions import FIRST
from penstock.client.pull import PullConsumer
from penstock.client.pulling import pull, spins
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode

A, SLAVE = "broker-a", "broker-a/1"
QUEUE = MessageQueue("orders", A, 0)
SLOW = Timers(route_interval_ms=60_000, rebalance_interval_ms=60_000, persist_interval_ms=60_000)
SPINNING_PULLS = 30  # in half a second; one that waits as it should has 5 for each of two queues


def pulls(fake, broker: str) -> int:
    return sum(frame.code == RequestCode.PULL_MESSAGE for frame in fake.asked[broker])


class Behind:
    """A broker that has nothing: it holds pulls when it is the master, and answers at once when it is a slave."""

    def __init__(self, suggests: int, code: int = ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset: str = "") -> None:
        self._suggests, self._code, self._next = str(suggests), code, next_offset

    def __call__(self, frame):
        if frame.code == RequestCode.PULL_MESSAGE:
            ext = {"nextBeginOffset": self._next or frame.ext["queueOffset"], "suggestWhichBrokerId": self._suggests}
            return self._code, "", ext
        return 0, "", {"offset": "7"}


def holds(frame):
    return None if frame.code == RequestCode.PULL_MESSAGE else (0, "", {"offset": "7"})


@pytest.fixture
async def fake():
    async with fakes.cluster(A, SLAVE) as cluster:
        cluster.answers = dict.fromkeys((A, SLAVE), holds)
        yield cluster


@pytest.fixture
async def instance(fake):
    instance = Instance(fake.namesrv, "192.0.2.1@1", timers=SLOW)
    await instance.cluster.fetch("orders")
    yield instance
    await instance.close()


async def pulled(instance, number: int = 0) -> str:
    def ext_for(is_master: bool) -> dict[str, str]:
        return {"queueOffset": "7", "commitOffset": "7" if is_master else "0"}

    address, _ = await pull(instance.cluster, QUEUE, number, ext_for, 5_000)
    return address


async def test_a_pull_goes_where_the_broker_says(fake, instance):
    fake.answers = dict.fromkeys((A, SLAVE), Behind(suggests=0))
    addresses = [await pulled(instance, number) for number in (0, 1, 7)]
    assert addresses == [*instance.cluster.readers(A), instance.cluster.master(A)]


async def test_a_pull_goes_to_the_slave_when_the_master_is_gone_and_carries_no_commit(fake, instance):
    fake.answers = dict.fromkeys((A, SLAVE), Behind(suggests=0))
    await fake.brokers[A].stop()
    assert [await pulled(instance) for _ in range(3)] == [instance.cluster.readers(A, 1)[0]] * 3
    assert {frame.ext["commitOffset"] for frame in fake.asked[SLAVE]} == {"0"}
    await fake.brokers[A].start()
    async with asyncio.timeout(10):
        while await pulled(instance) != instance.cluster.master(A):
            await asyncio.sleep(0.05)


async def test_a_pull_that_a_dying_master_holds_is_taken_up_by_the_slave(fake, instance):
    fake.answers[SLAVE] = Behind(suggests=0)
    asked = asyncio.ensure_future(pulled(instance))
    await until(lambda: pulls(fake, A), "a pull")
    await fake.brokers[A].stop()
    assert await asked == instance.cluster.readers(A, 1)[0]


async def test_a_slave_that_refuses_is_passed_over_and_a_master_that_refuses_is_not(fake, instance):
    fake.answers[SLAVE] = lambda frame: fakes.refused(ResponseCode.TOPIC_NOT_EXIST, "not heard of yet")
    fake.answers[A] = Behind(suggests=1)
    assert await pulled(instance, 1) == instance.cluster.master(A)
    fake.answers[A] = lambda frame: fakes.refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "later")
    assert await pulled(instance) == instance.cluster.master(A)
    assert len(fake.asked[SLAVE]) == 1


async def test_a_slave_does_not_move_an_offset(fake, instance):
    fake.answers[SLAVE] = Behind(0, ResponseCode.PULL_OFFSET_MOVED, "3")
    fake.gone.add(A)
    await instance.cluster.fetch("orders")
    with pytest.raises(Unreachable, match="its master is needed"):
        await pulled(instance)


async def test_only_a_master_locks_and_says_where_queues_end_and_a_slave_knows_how_far_a_group_is(fake, instance):
    fake.gone.add(A)
    await instance.cluster.fetch("orders")
    with pytest.raises(Unreachable, match="master"):
        await positions.max_offset(instance.cluster, QUEUE)
    assert await Locks(instance, "billing").lock([QUEUE]) == set()
    assert await positions.committed(instance.cluster, "billing", QUEUE) == 7
    assert {frame.code for frame in fake.asked[SLAVE]} == {RequestCode.QUERY_CONSUMER_OFFSET}


@pytest.mark.parametrize(
    ("asked", "found", "took_ms", "expected"), [(7, 7, 0, True), (7, 9, 0, False), (7, 7, 15_000, False)]
)
def test_the_same_question_again_at_once_is_worth_it_only_when_something_has_moved(asked, found, took_ms, expected):
    assert spins(asked, found, took_ms) == expected


# --- consumers --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["push", "pull"])
def reading(request, fake):
    """A consumer that reads both queues, of either kind."""
    if request.param == "push":
        more = {"topics": {"orders": "*"}, "start": FIRST, "timers": SLOW, "settings": WAITS, "broadcast": True}
        return PushConsumer(fake.namesrv, "readers", ignore, **more)
    return PullConsumer(fake.namesrv, "readers", start=FIRST, timers=SLOW)


async def ignore(message) -> None:
    pass


async def begun(reading) -> None:
    if isinstance(reading, PullConsumer):
        await reading.assign(await reading.queues("orders"))


async def test_a_consumer_that_was_sent_to_a_slave_comes_back_when_it_is_told(reading, fake):
    fake.answers = {A: Behind(suggests=1), SLAVE: Behind(suggests=0)}
    async with reading:
        await begun(reading)
        await until(lambda: pulls(fake, SLAVE) >= 2, "the slave's turn")
        seen = pulls(fake, A)
        await until(lambda: pulls(fake, A) > seen, "the master's turn")


async def test_a_slave_that_is_behind_is_not_asked_without_end(reading, fake):
    fake.answers[SLAVE] = Behind(suggests=0)
    fake.gone.add(A)
    async with reading:
        await begun(reading)
        await until(lambda: pulls(fake, SLAVE) >= 2, "a pull of each queue")
        before = pulls(fake, SLAVE)
        await asyncio.sleep(0.5)
        assert pulls(fake, SLAVE) - before < SPINNING_PULLS


async def test_a_broker_that_has_moved_is_found_without_waiting_for_the_next_refresh(reading, fake):
    fake.gone.add(SLAVE)
    async with reading:
        await begun(reading)
        await until(lambda: pulls(fake, A) >= 2, "a pull of each queue")
        await fake.brokers[A].stop()
        fake.gone = {A}
        await until(lambda: pulls(fake, SLAVE) >= 2, "pulls at the one that has taken over")


async def test_a_master_that_is_back_hears_what_a_slave_was_told(fake):
    async with PullConsumer(fake.namesrv, "readers", start=FIRST, timers=SLOW) as consumer:
        await consumer.assign({QUEUE: 5})
        for gone in ({A}, {A}, set()):
            fake.gone = gone
            await consumer.instance.cluster.fetch("orders")
            await consumer.commit({QUEUE: 5})
    told = {
        name: [frame.ext["commitOffset"] for frame in frames if frame.code == RequestCode.UPDATE_CONSUMER_OFFSET]
        for name, frames in fake.asked.items()
    }
    assert told == {SLAVE: ["5"], A: ["5"]}


# --- name servers -----------------------------------------------------------------------------------------------------


async def test_many_who_ask_at_once_all_find_the_name_server_that_is_left(fake):
    gone = fakes.Server(fake.name_server._answer)
    await gone.start()
    await gone.stop()
    instance = Instance(f"127.0.0.1:{gone.port};{fake.namesrv}", "192.0.2.1@1", timers=SLOW)
    instance.cluster._at = 0
    found = await asyncio.gather(*(instance.cluster.fetch(f"t{number}") for number in range(4)))
    assert [list(route.brokers()) for route in found] == [[A]] * 4
    await instance.close()
