"""What RocketMQ's producers wrote, pushed to Pulsar's clients; and topics as both see them."""

import zlib

from tests.gateway.cross.conftest import Both
from tests.gateway.pulsar.caller import Caller
from tests.gateway.pulsar.conftest import one, several
from tests.gateway.rocketmq.test_produce import in_batch

from penstock.core.topics import TopicSettings
from penstock.gateway.pulsar import foreign
from penstock.gateway.pulsar.places import OPEN, PARTITIONED
from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.batch import opened_entry
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode, SysFlag

SHARED = {"subType": pb.CommandSubscribe.Shared}


async def read(both: Both, count: int) -> list:
    entries = await both.pulsar.entries(count)
    return [opened_entry(memoryview(both.pulsar.payloads[entry]), check=True) for entry in entries]


def bodies(opened: list) -> list[bytes]:
    return [message.body for each in opened for message in each.messages]


async def test_a_message_comes_with_keys_tags_properties_and_times(both):
    await both.broker.topics.create("orders", TopicSettings(write_queues=2))
    properties = "KEYS\x01k-1 k-2\x02TAGS\x01eu\x02a\x011\x02UNIQ_KEY\x01u\x02"
    await both.rocketmq.send("orders", b"paid", 1, properties)
    assert (await both.pulsar.partitions("orders")).partitions == 2
    await both.pulsar.consumer("orders-partition-1")
    both.pulsar.flow(10)
    (found,) = await read(both, 1)
    (message,) = found.messages
    assert (message.body, message.key) == (b"paid", "k-1 k-2")
    assert message.properties == {"TAGS": "eu", "a": "1", "UNIQ_KEY": "u"}
    assert found.metadata.publish_time == 1


async def test_all_kinds_of_subscriptions_read_them_in_order(both):
    await both.broker.topics.create("orders", TopicSettings(write_queues=1))
    sent = [b"%d" % number for number in range(50)]
    for body in sent:
        await both.rocketmq.send("orders", body, 0, "__SHARDINGKEY\x01s\x02")
    kinds = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Failover, pb.CommandSubscribe.Shared
    for number, kind in enumerate((*kinds, pb.CommandSubscribe.Key_Shared)):
        both.pulsar.payloads.clear()
        await both.pulsar.consumer("orders-partition-0", f"s{number}", number, subType=kind)
        both.pulsar.flow(100, number)
        assert bodies(await read(both, 50)) == sent


async def test_both_write_and_acks_count_in_rows(both):
    await both.pulsar.producer("orders")
    await both.pulsar.send(several([b"p0", b"p1"]), num_messages=2)
    for number in range(3):
        await both.rocketmq.send("orders", b"r%d" % number)
    await both.pulsar.send(one(b"p2"), 2)
    await both.pulsar.consumer("orders")
    both.pulsar.flow(100)
    assert bodies(await read(both, 5)) == [b"p0", b"p1", b"r0", b"r1", b"r2", b"p2"]
    queue = both.broker.topics.get("orders").queue(0)
    both.pulsar.ack(queue, 2, cumulative=True)
    await both.pulsar.settled()
    both.pulsar.say(pb.CommandCloseConsumer(consumer_id=0, request_id=99))
    await both.pulsar.next("success")
    await both.pulsar.consumer("orders", consumer_id=1)
    both.pulsar.flow(100, 1)
    assert await both.pulsar.entries(2) == [3, 4]


async def test_a_batch_of_rocketmqs_is_a_row_per_message(both):
    await both.broker.topics.create("orders", TopicSettings(write_queues=1))
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "m": "true"}
    batch = b"".join(in_batch(b"%d" % number, "KEYS\x01k") for number in range(3))
    await both.rocketmq.ask(RequestCode.SEND_BATCH_MESSAGE, ext, batch)
    await both.pulsar.consumer("orders-partition-0")
    both.pulsar.flow(10)
    found = await read(both, 3)
    assert bodies(found) == [b"0", b"1", b"2"]
    assert {each.messages[0].key for each in found} == {"k"}
    assert list(both.pulsar.payloads) == [0, 1, 2]


async def test_the_last_message_may_be_a_record(both):
    await both.pulsar.producer("orders")
    await both.pulsar.consumer("orders")
    await both.rocketmq.send("orders", b"r")
    both.pulsar.say(pb.CommandGetLastMessageId(consumer_id=0, request_id=70))
    last = (await both.pulsar.next("getLastMessageIdResponse")).last_message_id
    assert (last.entryId, last.batch_index) == (0, -1)


async def test_compressed_bodies_do_not_all_come_at_once(both, monkeypatch):
    """What is small while it is compressed is made in turns."""
    monkeypatch.setattr(foreign, "TURN_BYTES_MAX", 10_000)
    await both.broker.topics.create("orders", TopicSettings(write_queues=1))
    sent = [bytes([number]) * 6_000 for number in range(9)]
    for body in sent:
        await both.rocketmq.send("orders", zlib.compress(body), 0, f=SysFlag.COMPRESSED)
    await both.pulsar.consumer("orders-partition-0", **SHARED)
    both.pulsar.flow(100)
    assert bodies(await read(both, 9)) == sent


async def test_a_record_is_peeked_and_counted(both):
    http = Caller(both.penstock)
    await both.pulsar.producer("orders")
    await both.pulsar.send(several([b"p0", b"p1"]), num_messages=2)
    await both.rocketmq.send("orders", b"r0", 0, "KEYS\x01k\x02")
    await http.topic("PUT", "orders", "/subscription/s", "earliest")
    peeked = await http.topic("GET", "orders", "/subscription/s/position/2")
    assert (peeked.body, peeked.headers["x-pulsar-partition-key"]) == (b"r0", "k")
    stats = (await http.topic("GET", "orders", "/stats")).json
    assert (stats["msgInCounter"], stats["subscriptions"]["s"]["msgBacklog"]) == (3, 2)  # messages, entries
    assert (await http.topic("GET", "orders", "/internalStats")).json["numberOfEntries"] == 2
    assert (await http.topic("GET", "orders", "/lastMessageId")).json["entryId"] == 1


# --- topics -----------------------------------------------------------------------------------------------------------


async def test_topics_are_in_both_lists(both):
    await both.pulsar.producer("theirs")
    await both.rocketmq.send("ours", b"x")
    listed = set((await both.pulsar.topics()).topics)
    assert {"persistent://public/default/theirs", "persistent://public/default/ours-partition-0"} <= listed
    names = bytes((await both.rocketmq.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body)
    assert b'"theirs"' in names
    assert b'"ours"' in names


async def test_a_topic_of_another_namespace_has_a_long_name(both):
    await both.broker.namespaces.create("shop/eu")
    await both.pulsar.producer("persistent://shop/eu/orders")
    assert (await both.rocketmq.send("shop%eu%orders", b"x")).code == ResponseCode.SUCCESS
    await both.pulsar.consumer("persistent://shop/eu/orders")
    both.pulsar.flow(1)
    assert bodies(await read(both, 1)) == [b"x"]


async def test_queues_that_rocketmqs_tools_add_are_partitions(both):
    await both.pulsar.producer("orders")
    assert (await both.pulsar.partitions("orders")).partitions == 0
    more = {"topic": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    assert (await both.rocketmq.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, more)).code == ResponseCode.SUCCESS
    assert (await both.pulsar.partitions("orders")).partitions == 4


async def test_a_topic_that_rocketmqs_tools_delete_is_gone_for_all(both):
    await both.pulsar.producer("orders")
    await both.pulsar.consumer("orders", consumer_id=1)
    gone = await both.rocketmq.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert gone.code == ResponseCode.SUCCESS
    assert (await both.pulsar.next("close_consumer")).consumer_id == 1
    assert (await both.pulsar.next("close_producer")).producer_id == 0


async def test_offsets_go_with_a_topic_that_pulsars_tools_delete(both):
    await both.pulsar.producer("orders")
    both.broker.offsets.commit("g", "orders", 0, 5)
    await both.broker.topics.delete("orders")
    assert both.broker.offsets.find("g", "orders", 0) == -1


async def test_old_topics_are_opened_once(tmp_path):
    settings = {"data": str(tmp_path)}
    async with serving(server=settings) as running:
        topics = running.server.broker.topics
        await topics.create("old", TopicSettings(write_queues=1, permissions=0, attributes={PARTITIONED: "no"}))
    async with serving(server=settings) as running:
        topics = running.server.broker.topics
        assert (topics.get("old").permissions, topics.get("old").attributes[OPEN]) == (6, "yes")
        await topics.alter("old", TopicSettings(permissions=0))
    async with serving(server=settings) as running:
        assert running.server.broker.topics.get("old").permissions == 0


async def test_a_mixed_topic_is_read_after_a_restart(tmp_path):
    settings = {"data": str(tmp_path)}
    async with serving(server=settings) as running:
        both = await Both(running).connect()
        await both.pulsar.producer("orders")
        await both.pulsar.send(several([b"p0", b"p1"]), num_messages=2)
        await both.rocketmq.send("orders", b"r0")
        await both.close()
    async with serving(server=settings) as running:
        both = await Both(running).connect()
        assert [message.body for message in await both.rocketmq.messages("orders", offset=1)] == [b"p1", b"r0"]
        await both.pulsar.consumer("orders")
        both.pulsar.flow(10)
        assert bodies(await read(both, 2)) == [b"p0", b"p1", b"r0"]
        await both.close()


async def test_a_topic_that_was_terminated_is_so_for_both(both):
    await both.broker.topics.create("orders", TopicSettings(write_queues=2))
    await both.rocketmq.send("orders", b"before", 1)
    await both.broker.endings.end([both.broker.topics.get("orders").queue(1)])
    refused = await both.rocketmq.send("orders", b"after", 1)
    assert (refused.code, "terminated" in refused.remark) == (ResponseCode.NO_PERMISSION, True)
    assert (await both.rocketmq.send("orders", b"elsewhere", 0)).code == ResponseCode.SUCCESS
    await both.pulsar.consumer("orders-partition-1")
    both.pulsar.flow(10)
    assert bodies(await read(both, 1)) == [b"before"]
    both.pulsar.ack(both.broker.topics.get("orders").queue(1), 0)
    await both.pulsar.next("reachedEndOfTopic")


async def test_what_rocketmqs_clients_wrote_is_compacted_by_its_key(both):
    await both.broker.topics.create("orders", TopicSettings(write_queues=1))
    for key, body in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        await both.rocketmq.send("orders", body, 0, f"KEYS\x01{key}\x02")
    await both.pulsar.producer("orders-partition-0")
    await both.pulsar.send(one(b"4", partition_key="b"))
    queue = both.broker.topics.get("orders").queue(0)
    both.broker.compaction.start(queue)
    await both.broker.compaction.settled(queue)
    await both.rocketmq.send("orders", b"later", 0, "KEYS\x01a\x02")
    await both.pulsar.consumer("orders-partition-0", read_compacted=True)
    both.pulsar.flow(10)
    assert bodies(await read(both, 3)) == [b"3", b"4", b"later"]
