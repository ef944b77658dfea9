"""Pulls that are served the short way: they get what they would get the long way, and whatever has changed since the
last one is seen.
"""

import asyncio

import msgspec
import pytest

from penstock.errors import NotAuthorized
from penstock.gateway.rocketmq.ordinary_pulls import OrdinaryPulls
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.pulls import front
from penstock.wire.rocketmq.record import messages_in

GROUP = "readers"


@pytest.fixture
def served(monkeypatch):
    """Of each pull that could go the short way, whether it did."""
    found = []
    take = OrdinaryPulls.take

    def counted(self, view, at, end, connection):
        ends = [asked[0] for asked in front(view, at, end)] if connection.seats else []
        reached = take(self, view, at, end, connection)
        short = sum(end <= reached for end in ends)
        found.extend([True] * short + [False] * (short < len(ends)))
        return reached

    monkeypatch.setattr(OrdinaryPulls, "take", counted)
    return found


@pytest.fixture
async def reader(client):
    """A member of the group; three messages are there for it. Its first pull goes the long way, and gets it a seat."""
    for number in range(3):
        await client.send("orders", b"%d" % number, 0)
    await client.heartbeat(GROUP, "a@1", 5, {"orders": "*"})
    await client.pull(GROUP, "orders", 0, 0, 5)
    return client


def bodies(answer):
    return [bytes(message.body) for message in messages_in(answer.body)]


async def test_the_second_pull_gets_the_short_way_what_the_first_got_the_long_way(served, client):
    for number in range(3):
        await client.send("orders", b"%d" % number, 0)
    await client.heartbeat(GROUP, "a@1", 5, {"orders": "*"})
    long, short = [await client.pull(GROUP, "orders", 0, 1, 5) for _ in range(2)]
    assert served == [True]
    assert bodies(short) == [b"1", b"2"]
    told = [(answer.code, answer.flag, answer.version, answer.remark, answer.ext) for answer in (long, short)]
    assert told[0] == told[1]
    assert bytes(long.body) == bytes(short.body)


async def test_all_pulls_of_a_read_are_answered_each_with_its_own(served, reader):
    asked = [reader.pull(GROUP, "orders", 0, offset, 5) for offset in (2, 0, 1)]
    assert [bodies(answer) for answer in await asyncio.gather(*asked)] == [[b"2"], [b"0", b"1", b"2"], [b"1", b"2"]]
    assert served == [True] * 3


async def test_as_many_as_asked_for(served, reader):
    assert bodies(await reader.pull(GROUP, "orders", 0, 0, 5, maxMsgNums=2)) == [b"0", b"1"]
    assert served == [True]


async def test_offsets_are_committed(served, reader, penstock):
    await reader.pull(GROUP, "orders", 0, 2, 5, sysFlag=PullFlag.COMMIT, commitOffset=2)
    assert served == [True]
    assert penstock.server.broker.offsets.find(GROUP, "orders", 0) == 2


async def test_offsets_are_committed_in_the_order_of_the_pulls(served, reader, penstock):
    """One that waits is noted at once, those that are answered when their answers have left."""
    commit = PullFlag.COMMIT
    first = reader.pull(GROUP, "orders", 0, 1, 5, sysFlag=commit, commitOffset=1)
    last = reader.pull(GROUP, "orders", 0, 3, 5, wait_ms=200, sysFlag=commit | PullFlag.SUSPEND, commitOffset=3)
    assert [bodies(await first), (await last).code] == [[b"1", b"2"], ResponseCode.PULL_NOT_FOUND]
    assert served == [True, True]
    assert penstock.server.broker.offsets.find(GROUP, "orders", 0) == 3


async def test_seats_at_a_topic_have_one_standing(reader, penstock):
    await reader.send("payments", b"0", 0)
    await reader.heartbeat(GROUP, "a@1", 6, {"orders": "*", "payments": "*"})
    for queue in range(3):
        for topic in ("orders", "payments"):
            await reader.pull(GROUP, topic, queue, 0, 6)
    (line,) = penstock.server.broker.groups.find(GROUP).members
    standings = [
        {id(seat.standing) for key, seat in line.seats.items() if key[1] == topic} for topic in ("orders", "payments")
    ]
    assert [len(found) for found in standings] == [1, 1]


async def test_at_the_end_it_waits_for_the_next_message(served, reader, connect):
    waiting = reader.pull(GROUP, "orders", 0, 3, 5, wait_ms=20_000)
    producer = await connect()
    await producer.send("orders", b"next", 0)
    assert bodies(await waiting) == [b"next"]
    assert served == [True]


async def test_at_the_end_it_waits_no_longer_than_it_wants(served, reader):
    answer = await reader.pull(GROUP, "orders", 0, 3, 5, wait_ms=10)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "3")
    assert served == [True]


async def test_too_many_that_wait_are_refused_as_they_are_the_long_way(served, reader, penstock):
    penstock.server.broker.waits._waiters_max = 0
    assert (await reader.pull(GROUP, "orders", 0, 3, 5, wait_ms=20_000)).code == ResponseCode.SYSTEM_BUSY
    assert served == [True]
    assert (await reader.pull(GROUP, "orders", 0, 0, 5)).code == ResponseCode.SUCCESS


async def test_who_does_not_want_to_wait_is_told_the_long_way(served, reader):
    assert (await reader.pull(GROUP, "orders", 0, 3, 5)).code == ResponseCode.PULL_NOT_FOUND
    assert served == [False]


async def test_what_is_counted_is_the_same(served, reader, penstock):
    traffic = penstock.server.broker.traffic
    before = traffic.delivered
    await reader.pull(GROUP, "orders", 0, 1, 5)
    assert served == [True]
    assert traffic.delivered == before + 2


async def test_it_is_seen_at_its_queue(served, reader, penstock):
    readers = penstock.server.broker.readers
    for _ in range(3):
        readers.turn()
    assert not readers.of(GROUP, "orders", 0).anybody
    await reader.pull(GROUP, "orders", 0, 0, 5)
    assert served == [True]
    assert readers.of(GROUP, "orders", 0).now


# --- what has changed is seen -----------------------------------------------------------------------------------------


async def new_version(reader, penstock):
    await reader.heartbeat(GROUP, "a@1", 6, {"orders": "*"})


async def other_tags(reader, penstock):
    await reader.heartbeat(GROUP, "a@1", 6, {"orders": "red"})


async def broadcast(reader, penstock):
    await reader.heartbeat(GROUP, "a@1", 5, {"orders": "*"}, messageModel="BROADCASTING")


async def other_topic(reader, penstock):
    await reader.heartbeat(GROUP, "a@1", 6, {"payments": "*"})


async def forbidden(reader, penstock):
    settings = {"groupName": GROUP, "consumeEnable": False}
    await reader.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, msgspec.json.encode(settings))


async def not_readable(reader, penstock):
    ext = {"topic": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 2, "defaultTopic": "TBW102"}
    await reader.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


async def deleted(reader, penstock):
    await reader.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})


async def gone(reader, penstock):
    await reader.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "a@1", "consumerGroup": GROUP})


async def reset(reader, penstock):
    broker = penstock.server.broker
    broker.offsets.commit(GROUP, "orders", 0, 1)
    broker.resets.ask(GROUP, "orders", {0: 2}, broker.groups.find(GROUP))


async def not_allowed(reader, penstock):
    def check(who, action, resource):
        raise NotAuthorized(who, action, resource)

    penstock.server.broker.authorizer.check = check


CHANGES = {
    new_version: ResponseCode.SUCCESS,
    other_tags: ResponseCode.PULL_RETRY_IMMEDIATELY,
    broadcast: ResponseCode.SUCCESS,
    other_topic: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    forbidden: ResponseCode.NO_PERMISSION,
    not_readable: ResponseCode.NO_PERMISSION,
    deleted: ResponseCode.TOPIC_NOT_EXIST,
    gone: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    reset: ResponseCode.PULL_OFFSET_MOVED,
    not_allowed: ResponseCode.NO_PERMISSION,
}


@pytest.mark.parametrize(("change", "code"), CHANGES.items(), ids=lambda value: getattr(value, "__name__", ""))
async def test_what_has_changed_is_looked_at_the_long_way(served, reader, penstock, change, code):
    await reader.pull(GROUP, "orders", 0, 0, 5)
    await change(reader, penstock)
    served.clear()
    assert (await reader.pull(GROUP, "orders", 0, 0, 5)).code == code
    assert served == [False]


async def test_a_pull_that_is_newer_than_what_the_broker_knows_is_refused(served, reader):
    assert (await reader.pull(GROUP, "orders", 0, 0, 6)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert (await reader.pull(GROUP, "orders", 0, 0, 5)).code == ResponseCode.SUCCESS  # and ends the refusals
    assert (await reader.pull(GROUP, "orders", 0, 0, 5)).code == ResponseCode.SUCCESS
    assert served == [False, False, True]


@pytest.mark.parametrize("offset", [-1, 4])
async def test_an_offset_outside_the_queue_is_corrected(served, reader, offset):
    answer = await reader.pull(GROUP, "orders", 0, offset, 5, wait_ms=20_000)
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    assert served == [False]


async def test_a_consumer_of_certain_tags_has_no_seat(served, client):
    await client.send("orders", b"x", 0, "TAGS\x01red\x02")
    await client.heartbeat(GROUP, "a@1", 5, {"orders": "red"})
    for _ in range(2):
        assert bodies(await client.pull(GROUP, "orders", 0, 0, 5)) == [b"x"]
    assert served == []


async def test_seats_of_very_many_queues_are_given_anew(reader, penstock, monkeypatch, served):
    monkeypatch.setattr("penstock.gateway.rocketmq.connection.SEATS_MAX", 1)
    for queue in (0, 1, 0, 0):
        await reader.pull(GROUP, "orders", queue, 0, 5, wait_ms=1)
    assert served == [True, False, False, True]
