"""An operator's questions and commands, through a real socket to a broker in this process."""

import os

import pytest

from penstock.admin import growth
from penstock.admin.engine import opened
from penstock.admin.errors import AlreadyThere, NoEngine, NotPossible, NotSent, NotThere
from penstock.admin.model import Outgoing
from penstock.admin.place import Place
from penstock.admin.rocketmq import address_in, kind_of
from penstock.client.errors import NoRoute, Refused
from penstock.client.message import Message
from penstock.client.pull import PullConsumer
from penstock.client.routes import MessageQueue

EARLIEST = Place("earliest")
LATER_MS = 4_000_000_000_000


@pytest.mark.parametrize("url", ["", "kafka://x:1", "rocketmq://", "pulsar://127.0.0.1:6650"])
def test_an_address_that_is_no_engine(url):
    with pytest.raises(NoEngine, match="give rocketmq://"):
        opened(url)


# --- topics -----------------------------------------------------------------------------------------------------------


async def test_a_topic_from_its_creation_to_its_end(engine):
    await engine.create_topic("orders", 3, "rw")
    [line] = [one for one in await engine.topics() if one.kind == "normal"]
    assert (line.name, line.queues, line.permissions, line.brokers) == ("orders", 3, "rw", ["penstock"])
    with pytest.raises(AlreadyThere, match="'orders'"):
        await engine.create_topic("orders", 3, "rw")
    await engine.alter_topic("orders", 5, None, "r")
    [share] = (await engine.topic("orders")).shares
    assert (share.read_queues, share.write_queues, share.permissions) == (5, 3, "r")
    await engine.delete_topic("orders")
    assert "orders" not in [one.name for one in await engine.topics()]
    for command in (engine.topic, engine.delete_topic):
        with pytest.raises(NotThere, match="no topic 'orders'"):
            await command("orders")


async def test_a_topic_in_detail(engine, orders, commit):
    await commit(orders, 4)
    found = await engine.topic("orders")
    assert [(q.queue, q.min_offset, q.max_offset, q.messages) for q in found.queues] == [(0, 0, 10, 10), (1, 0, 10, 10)]
    assert all(queue.last_ms > 0 for queue in found.queues)
    assert found.groups == ["readers"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("orders", "normal"),
        ("%RETRY%g", "retry"),
        ("%DLQ%g", "dead"),
        ("TBW102", "system"),
        ("RMQ_SYS_TRACE_TOPIC", "system"),
        ("b1", "system"),
    ],
)
def test_what_a_topic_is_for(name, kind):
    assert kind_of(name, {"b1"}) == kind


async def test_permissions_that_are_none(engine, orders):
    with pytest.raises(NotPossible, match="one of r, w, rw, none"):
        await engine.alter_topic("orders", None, None, "rwx")


async def test_a_name_that_the_broker_refuses(engine):
    with pytest.raises(Refused, match="not a topic name"):
        await engine.create_topic("no spaces", 1, "rw")


# --- groups and lag ---------------------------------------------------------------------------------------------------


async def test_a_group_offline_and_online(engine, orders, commit, join):
    await commit(orders, 4)
    [line] = await engine.groups()
    assert (line.name, line.members, line.model) == ("readers", 0, "")
    member = await join(offsets={orders: 4})
    [line] = await engine.groups()
    assert (line.members, line.model) == (1, "cluster")
    found = await engine.group("readers")
    [shown] = found.members
    assert (shown.client_id, shown.queues, shown.language) == (member.instance.client_id, [str(orders)], "PYTHON")
    assert [one.topic for one in found.subscriptions] == ["orders"]
    assert found.lag == 16
    assert found.settings["retries_max"] == 16


async def test_s17_lag_names_who_reads_a_queue_and_who_reads_it_twice(engine, orders, commit, join):
    await commit(orders, 4)
    first, second = await join(offsets={orders: 4}), await join(offsets={orders: 4})
    lines = {line.queue: line for line in await engine.lag("readers", "orders")}
    assert (lines[0].committed, lines[0].end, lines[0].lag) == (4, 10, 6)
    assert sorted(lines[0].owners) == sorted([first.instance.client_id, second.instance.client_id])
    assert (lines[1].lag, lines[1].owners) == (10, [])


async def test_the_lag_of_broadcast_instances_is_their_own(engine, orders, join):
    far, near = await join(broadcast=True, offsets={orders: 1}), await join(broadcast=True, offsets={orders: 9})
    lines = await engine.lag("readers")
    assert {line.owners[0]: line.lag for line in lines} == {far.instance.client_id: 9, near.instance.client_id: 1}


async def test_a_group_that_is_not_there(engine, orders):
    for command in (engine.group, engine.lag, engine.delete_group):
        with pytest.raises(NotThere, match="no group 'nobody'"):
            await command("nobody")


async def test_a_group_is_deleted_when_nobody_is_in_it(engine, orders, commit, join):
    await commit(orders, 4)
    member = await join()
    with pytest.raises(NotPossible, match="1 members"):
        await engine.delete_group("readers")
    await member.instance.leave(member, consumerGroup="readers")
    assert "%RETRY%readers" in [topic.name for topic in await engine.topics()]
    await engine.delete_group("readers")
    assert await engine.groups() == []
    assert "%RETRY%readers" not in [topic.name for topic in await engine.topics()]


# --- messages ---------------------------------------------------------------------------------------------------------


async def test_a_message_by_either_id(engine, orders, producer):
    sent = await producer.send(Message("orders", b"found", keys="a b", properties={"x": "y"}), orders)
    by_broker = await engine.message(sent.offset_id)
    by_producer = await engine.message(sent.message_id, "orders")
    assert by_broker == by_producer
    assert (by_broker.body, by_broker.offset, by_broker.queue, by_broker.properties["x"]) == (b"found", 10, 0, "y")


async def test_an_id_that_is_not_there(engine, orders, producer):
    sent = await producer.send(Message("orders", b"x"), orders)
    missing = sent.offset_id[:-4] + "FFFF"
    assert await engine.message(missing) is None
    assert await engine.message(sent.message_id[:-4] + "FFFF", "orders") is None
    with pytest.raises(NotThere, match="32 or 56 hex digits"):
        await engine.message("xyz")


async def test_an_id_of_elsewhere_sends_nobody_elsewhere(engine, orders):
    """An id names an address: only the brokers of this cluster are asked."""
    with pytest.raises(NotPossible, match="--topic"):
        await engine.message("0A000001" + "00000050" + "0" * 16)


def test_the_address_in_an_id():
    assert address_in("7F000001000074B40000000000000009") == ("127.0.0.1:29876", 9)
    assert address_in("0" * 31 + "1" + "00002A9F" + "0" * 15 + "7") == ("[::1]:10911", 7)


async def test_messages_by_key(engine, orders):
    assert sorted((m.queue, m.body) for m in await engine.messages("orders", "k3")) == [(0, b"3"), (1, b"3")]
    assert await engine.messages("orders", "k33") == []
    with pytest.raises(NoRoute):
        await engine.messages("nowhere", "k3")


# --- messages in and out ----------------------------------------------------------------------------------------------


async def outgoing(*bodies: bytes, topic: str = "orders"):
    for body in bodies:
        yield Outgoing(topic, body, keys="k", properties={"a": "b"})


async def read(engine, start=EARLIEST, queues=(), tags="*", sql=""):
    return [m async for batch in engine.read("orders", start, queues, tags, sql, to_end=True) for m in batch]


async def test_what_is_sent_is_told_in_its_order_and_read_again(engine):
    await engine.create_topic("orders", 1, "rw")
    bodies = [b"%d" % number for number in range(600)]
    receipts = [receipt async for receipt in engine.send(outgoing(*bodies), None)]
    assert [receipt.offset for receipt in receipts] == list(range(600))
    found = await read(engine)
    assert [message.body for message in found] == bodies
    assert (found[0].id, found[0].keys, found[0].properties["a"]) == (receipts[0].id, "k", "b")


async def test_reading_begins_where_it_is_told(engine, orders):
    assert [m.body for m in await read(engine, Place("offset", 8), [0])] == [b"8", b"9"]
    assert await read(engine, Place("latest")) == []
    assert len(await read(engine, Place("time", 0))) == 20
    assert await read(engine, Place("time", LATER_MS)) == []
    with pytest.raises(NotThere, match="has no queue 7"):
        await read(engine, queues=[7])


async def test_reading_selects(engine, orders, producer):
    await producer.send(Message("orders", b"red", tags="red", properties={"size": "5"}), orders)
    assert [m.body for m in await read(engine, tags="red")] == [b"red"]
    assert [m.body for m in await read(engine, sql="size > 4")] == [b"red"]


async def test_one_queue_alone(engine, orders):
    receipts = [receipt async for receipt in engine.send(outgoing(b"x", b"y"), 1)]
    assert [(receipt.queue, receipt.offset) for receipt in receipts] == [(1, 10), (1, 11)]
    with pytest.raises(NotThere, match="no queue 9"):
        [receipt async for receipt in engine.send(outgoing(b"x"), 9)]


async def test_a_message_that_is_refused_is_named_and_ends_it(engine, orders):
    sending = engine.send(outgoing(b"x", b"y", os.urandom(5 << 20), b"z"), 0)
    assert [(await anext(sending)).offset for _ in range(2)] == [10, 11]
    with pytest.raises(NotSent, match="message 3 could not be stored, the 2 before it are"):
        await anext(sending)


async def test_lag_of_a_consumer_that_subscribes_to_nothing(engine, orders, commit, penstock):
    """One that reads chosen queues: its group is online, and its offsets count all the same."""
    await commit(orders, 4)
    async with PullConsumer(penstock.addresses["namesrv"], "readers", auto_commit=False) as consumer:
        await consumer.assign([orders])
        lines = await engine.lag("readers")
    assert {MessageQueue(line.topic, line.broker, line.queue): line.lag for line in lines}[orders] == 6


# --- growth -----------------------------------------------------------------------------------------------------------


async def meanwhile(producer, queue: MessageQueue, count: int) -> None:
    for number in range(count):
        await producer.send(Message("orders", b"%d" % number), queue)


class Looks:
    """An engine between whose two looks something happens."""

    def __init__(self, engine, between) -> None:
        self._engine, self._between = engine, between

    def __getattr__(self, name):
        ask = getattr(self._engine, name)

        async def look(*args):
            found = await ask(*args)
            between, self._between = self._between, None
            if between is not None:
                await between
            return found

        return look


async def test_s17_twins_and_the_growth_of_what_nobody_reads(engine, orders, commit, join, producer):
    """Two connections with one ClientID say that they have queue 0, so nobody has queue 1, and that fills up."""
    await commit(orders, 4)
    first, second = await join(offsets={orders: 4}), await join(offsets={orders: 4})
    second.instance.client_id = first.instance.client_id
    await second.instance.heartbeat()
    unread = orders._replace(queue=1)
    found = await growth.group(Looks(engine, meanwhile(producer, unread, 7)), "readers", 0)
    [twins] = found.twins
    assert (twins.client_id, twins.read_twice) == (first.instance.client_id, [str(orders)])
    assert sorted(twins.addresses) == sorted(member.address for member in found.members)
    assert len(set(twins.addresses)) == 2
    [one] = [one for one in found.unread if one.topic == "orders"]
    assert (one.queue, one.lag, one.growth) == (1, 17, 7)
    lines = {line.queue: line for line in await engine.lag("readers", "orders")}
    assert lines[0].owners == [first.instance.client_id] * 2


async def test_a_queue_that_was_taken_between_two_looks_is_not_unread(engine, orders, commit, join):
    await commit(orders, 4)
    member = await join(offsets={orders: 4})

    async def taken() -> None:
        member.offsets[orders._replace(queue=1)] = 0

    found = await growth.group(Looks(engine, taken()), "readers", 0)
    assert [one for one in found.unread if one.topic == "orders"] == []


async def test_how_much_a_lag_has_grown(engine, orders, commit, producer):
    await commit(orders, 4)
    lines = await growth.lag(Looks(engine, meanwhile(producer, orders, 3)), "readers", "orders", 0)
    assert [(line.queue, line.lag, line.growth) for line in lines] == [(0, 9, 3), (1, 10, 0)]


async def test_a_member_that_does_not_say_what_it_reads_makes_no_queue_unread(engine, orders, commit, join):
    await commit(orders, 4)
    member = await join(offsets={orders: 4})
    member.asked = lambda frame, link: False
    assert (await engine.group("readers")).unread == []


# --- as a member of a group -------------------------------------------------------------------------------------------


async def test_what_a_member_was_given_is_committed_when_more_is_asked_for(engine, orders):
    """Whoever goes away with messages in hand has not done them."""
    consuming = engine.consume("orders", "members", EARLIEST, "*", "", True, None)
    first = await anext(consuming)
    await consuming.aclose()
    assert sum(line.committed for line in await engine.lag("members", "orders")) == 0
    found = [m async for batch in engine.consume("orders", "members", EARLIEST, "*", "", True, None) for m in batch]
    assert len(found) == 20
    assert {(m.queue, m.offset) for m in first} <= {(m.queue, m.offset) for m in found}
    assert sum(line.lag for line in await engine.lag("members", "orders")) == 0


async def test_a_group_begins_where_it_is_told_and_counts(engine, orders, producer):
    consuming = engine.consume("orders", "late", Place("time", LATER_MS), "*", "", True, None)
    assert [m async for batch in consuming for m in batch] == []
    consuming = engine.consume("orders", "counts", EARLIEST, "*", "", False, 7)
    assert len([m async for batch in consuming for m in batch]) == 7
    assert sum(line.committed for line in await engine.lag("counts", "orders")) == 7
    with pytest.raises(NotPossible, match="a group begins at"):
        await anext(engine.consume("orders", "x", Place("offset", 7), "*", "", True, None))
