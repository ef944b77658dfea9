"""What Pulsar's producers wrote, pulled by RocketMQ's clients."""

import asyncio

import pytest
from tests.gateway.cross.conftest import Both
from tests.gateway.pulsar.conftest import metadata, one, several
from tests.gateway.rocketmq.conftest import Client

from penstock.clock import ManualClock
from penstock.core.policies import Delaying
from penstock.testing.server import serving
from penstock.wire.cross import names
from penstock.wire.pulsar.batch import Message, batch_of, single_of
from penstock.wire.pulsar.commands_pb2 import ZLIB, EncryptionKeys, KeyValue
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.record import message_in, messages_in

ALL = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "*"}


def bodies(messages) -> list[bytes]:
    return [message.body for message in messages]


async def wrote(both: Both, *payloads: bytes, topic: str = "orders", counts: dict[int, int] | None = None) -> None:
    await both.pulsar.producer(topic)
    for sequence, payload in enumerate(payloads):
        await both.pulsar.send(payload, sequence, num_messages=(counts or {}).get(sequence, 1))


async def test_a_message_comes_with_key_tags_properties_and_times(both):
    message = Message(body=b"paid", key="k-1", properties={"TAGS": "eu", "a": "1"}, event_ms=77)
    await wrote(both, batch_of(metadata(), [message]))
    (found,) = await both.rocketmq.messages("orders")
    assert (found.topic, found.queue_index, found.offset, found.body) == ("orders", 0, 0, b"paid")
    assert found.born_ms == 1_700_000_000_000
    assert found.store_ms == both.broker.fetcher.time_ms_of(both.broker.topics.get("orders").queue(0), 0)
    expected = {"KEYS": "k-1", "TAGS": "eu", "a": "1", names.EVENT_TIME: "77"}
    assert {name: found.properties[name] for name in expected} == expected
    assert found.properties["MSG_REGION"]  # clients that trace leave out messages without


async def test_batches_are_opened_and_pulls_begin_in_their_middle(both):
    parts = [b"%d" % number for number in range(100)]
    await wrote(both, several(parts[:70]), several(parts[70:]), counts={0: 70, 1: 30})
    for first in (0, 1, 69, 70, 99):
        answer = await both.rocketmq.pull("g", "orders", 0, first, **ALL)
        found = messages_in(answer.body)
        assert [message.offset for message in found] == list(range(first, min(first + 32, 100)))
        assert bodies(found) == parts[first : first + 32]
        assert answer.ext["nextBeginOffset"] == str(min(first + 32, 100))
        assert answer.ext["maxOffset"] == "100"
    assert bodies(await both.rocketmq.messages("orders")) == parts


async def test_a_pull_keeps_to_its_bytes_but_brings_one(both):
    parts = [bytes([number]) * 100_000 for number in range(10)]
    await wrote(both, several(parts), counts={0: 10})
    found = messages_in((await both.rocketmq.pull("g", "orders", 0, 0, **ALL)).body)
    assert bodies(found) == parts[:2]  # 256 KiB
    large = messages_in((await both.rocketmq.pull("g", "orders", 0, 2, **ALL, maxMsgBytes=1 << 20)).body)
    assert bodies(large) == parts[2:]


async def test_both_write_and_the_order_is_kept(both):
    await wrote(both, several([b"p0", b"p1"]), counts={0: 2})
    await both.rocketmq.send("orders", b"r0")
    await both.pulsar.send(one(b"p2"), 1)
    await both.rocketmq.send("orders", b"r1", properties="TAGS\x01t\x02")
    found = await both.rocketmq.messages("orders")
    assert bodies(found) == [b"p0", b"p1", b"r0", b"p2", b"r1"]
    assert [message.offset for message in found] == [0, 1, 2, 3, 4]
    assert bodies(await both.rocketmq.messages("orders", tags="t")) == [b"r1"]


async def test_tags_and_sql_select_among_them(both):
    tagged = [Message(body=b"%d" % n, properties={"TAGS": "ab"[n % 2], "n": str(n)}) for n in range(6)]
    await wrote(both, batch_of(metadata(), tagged), counts={0: 6})
    assert bodies(await both.rocketmq.messages("orders", tags="b")) == [b"1", b"3", b"5"]
    ext = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "n >= 4", "expressionType": "SQL92"}
    answer = await both.rocketmq.pull("g", "orders", 0, 0, **ext)
    assert bodies(messages_in(answer.body)) == [b"4", b"5"]


async def test_nothing_that_is_wanted_says_where_to_go_on(both):
    await wrote(both, one(b"x"))
    answer = await both.rocketmq.pull("g", "orders", 0, 0, sysFlag=PullFlag.SUBSCRIPTION, subscription="none")
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "1")


async def test_a_pull_that_waits_is_woken(both):
    await both.pulsar.producer("orders")
    await both.rocketmq.heartbeat("g", "c@1", 1, {"orders": "*"})
    waiting = both.rocketmq.pull("g", "orders", 0, 0, version=1, wait_ms=20_000)
    await both.pulsar.send(one(b"came"))
    assert bodies(messages_in((await waiting).body)) == [b"came"]


async def test_chunks_are_joined_wherever_the_pull_begins(both):
    def part(uuid: str, number: int, body: bytes) -> bytes:
        return single_of(metadata(uuid=uuid, num_chunks_from_msg=3, chunk_id=number, total_chunk_msg_size=9), body)

    cut = [part("a", 0, b"abc"), part("b", 0, b"rst"), part("a", 1, b"def"), one(b"between"), part("b", 1, b"uvw")]
    await wrote(both, *cut, part("a", 2, b"ghi"), part("b", 2, b"xyz"))
    found = await both.rocketmq.messages("orders")
    assert [(message.offset, message.body) for message in found] == [
        (3, b"between"),
        (5, b"abcdefghi"),
        (6, b"rstuvwxyz"),
    ]
    assert bodies(await both.rocketmq.messages("orders", offset=6)) == [b"rstuvwxyz"]


async def test_who_reads_what_is_stored_counts_offsets(both):
    def part(number: int) -> bytes:
        return single_of(metadata(uuid="u", num_chunks_from_msg=3, chunk_id=number, total_chunk_msg_size=3), b"x")

    await wrote(both, part(0), part(1), part(2), one(b"a"), one(b"b"))
    for first, count, empty, found in ((0, 2, "2", []), (1, 2, "1", [b"xxx"]), (3, 9, None, [b"a", b"b"])):
        answer = await both.rocketmq.pull("g", "orders", 0, first, **ALL, maxMsgNums=count, asStored="true")
        assert bodies(messages_in(answer.body)) == found
        assert answer.ext.get("emptyOffsets") == empty
        assert answer.ext["nextBeginOffset"] == str(min(first + count, 5))


async def test_the_name_of_a_message_in_chunks_may_be_used_again(both):
    def part(number: int, body: bytes) -> bytes:
        return single_of(metadata(uuid="u", num_chunks_from_msg=2, chunk_id=number, total_chunk_msg_size=2), body)

    await wrote(both, part(0, b"a"), part(1, b"b"), part(0, b"c"), part(1, b"d"))
    assert bodies(await both.rocketmq.messages("orders")) == [b"ab", b"cd"]


async def test_a_chunk_whose_others_are_missing_says_so(both):
    last = single_of(metadata(uuid="u", num_chunks_from_msg=2, chunk_id=1, total_chunk_msg_size=2), b"b")
    await wrote(both, last)
    (found,) = await both.rocketmq.messages("orders")
    assert (found.body, found.properties[names.CHUNK]) == (b"b", "2/2")


async def test_what_is_encrypted_comes_as_it_is_and_its_offsets_are_passed(both):
    locked = metadata(encryption_keys=[EncryptionKeys(key="k", value=b"v")])
    payload = batch_of(locked, [Message(body=b"secret")] * 3)
    await wrote(both, payload, one(b"open"), counts={0: 3})
    first, second = await both.rocketmq.messages("orders")
    assert (first.offset, first.properties[names.ENCRYPTED]) == (0, "true")
    assert (second.offset, second.body) == (3, b"open")
    assert bodies(await both.rocketmq.messages("orders", offset=1)) == [b"open"]


async def test_compressed_and_null_ones(both):
    await wrote(both, single_of(metadata(), b"x" * 9_000, ZLIB), single_of(metadata(null_value=True), b""))
    first, second = await both.rocketmq.messages("orders")
    assert first.body == b"x" * 9_000
    assert (second.body.strip(), second.properties[names.NULL_VALUE]) == (b"", "true")


async def test_empty_bodies_as_clients_can_take_them(both):
    await wrote(both, one(b""))
    ext = {"consumerGroup": "g", "topic": "orders", "queueId": 0, "queueOffset": 0, **ALL}
    for version, body in ((409, b" "), (413, b"")):
        answer = await both.rocketmq.ask(RequestCode.PULL_MESSAGE, ext, version=version)
        assert bodies(messages_in(answer.body)) == [body]


async def test_a_message_is_found_by_id_and_by_key(both):
    keyed = [Message(body=b"%d" % n, key=f"k{n}") for n in range(5)]
    await wrote(both, batch_of(metadata(), keyed), counts={0: 5})
    third = (await both.rocketmq.messages("orders"))[3]
    by_id = await both.rocketmq.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": third.physical_offset})
    assert message_in(by_id.body).body == b"3"
    times = {"beginTimestamp": 0, "endTimestamp": 1 << 60, "maxNum": 10}
    by_key = await both.rocketmq.ask(RequestCode.QUERY_MESSAGE, {"topic": "orders", "key": "k3", **times})
    assert bodies(messages_in(by_key.body)) == [b"3"]


@pytest.mark.parametrize(("body", "again_as"), [(b"b", b"b"), (b"", b" ")], ids=["a body", "no body"])
async def test_one_that_is_sent_back_comes_again(tmp_path, body, again_as):
    """With a space where it was empty: clients from before 5.0 stand still over that."""
    clock = ManualClock()
    async with serving(clock=clock, server={"data": str(tmp_path)}) as running:
        both = await Both(running).connect()
        await wrote(both, several([b"a", body]), counts={0: 2})
        await both.rocketmq.heartbeat("g", "c@1", 1, {"orders": "*"})
        second = (await both.rocketmq.messages("orders"))[1]
        asked = {"offset": second.physical_offset, "group": "g", "delayLevel": 1, "originTopic": "orders"}
        assert (await both.rocketmq.ask(RequestCode.CONSUMER_SEND_MSG_BACK, asked)).code == ResponseCode.SUCCESS
        clock.advance(2_000)
        await running.server.kept.tick()
        await both.broker.keeper.durable(both.broker.store.end_position)
        (again,) = await both.rocketmq.messages("%RETRY%g")
        assert (again.body, again.properties["RETRY_TOPIC"], again.reconsume_times) == (again_as, "orders", 1)
        assert again.properties.get("PULSAR_EMPTY") == (None if body else "true")
        await both.close()


@pytest.fixture
async def timed(tmp_path):
    clock = ManualClock()
    async with serving(clock=clock, server={"data": str(tmp_path)}) as running:
        both = await Both(running).connect()
        yield both, clock
        await both.close()


async def test_a_delayed_one_holds_the_queue_until_it_is_due(timed):
    both, clock = timed
    await wrote(both, one(b"now"), one(b"later", deliver_at_time=clock.now_ms() + 5_000), one(b"behind"))
    rocketmq: Client = both.rocketmq
    assert bodies(messages_in((await rocketmq.pull("g", "orders", 0, 0, **ALL)).body)) == [b"now"]
    held = await rocketmq.pull("g", "orders", 0, 1, **ALL)
    assert (held.code, held.ext["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "1")
    stored = await rocketmq.pull("g", "orders", 0, 1, **ALL, asStored="true")
    assert bodies(messages_in(stored.body)) == [b"later", b"behind"]
    clock.advance(5_000)
    due = await rocketmq.pull("g", "orders", 0, 1, **ALL)
    assert bodies(messages_in(due.body)) == [b"later", b"behind"]


async def test_a_pull_waits_for_what_becomes_due(both):
    due_ms = both.penstock.server.clock.now_ms() + 300
    await wrote(both, one(b"soon", deliver_at_time=due_ms))
    await both.rocketmq.heartbeat("g", "c@1", 1, {"orders": "*"})
    waiting = both.rocketmq.pull("g", "orders", 0, 0, version=1, wait_ms=20_000)
    await both.pulsar.send(one(b"another"), 1)  # wakes it, for nothing
    found = messages_in((await asyncio.wait_for(waiting, 10)).body)
    assert bodies(found) == [b"soon", b"another"]
    assert both.penstock.server.clock.now_ms() >= due_ms


async def test_where_delays_are_off_nothing_is_held_back(both):
    await wrote(both, one(b"later", deliver_at_time=both.penstock.server.clock.now_ms() + 3_600_000))
    assert await both.rocketmq.messages("orders") == []
    await both.broker.policies.set_topic("orders", {"delaying": Delaying(active=False)})
    assert bodies(await both.rocketmq.messages("orders")) == [b"later"]


async def test_a_pull_that_waits_hears_that_its_topic_is_gone(both):
    due_ms = both.penstock.server.clock.now_ms() + 500
    await wrote(both, one(b"later", deliver_at_time=due_ms))
    await both.rocketmq.heartbeat("g", "c@1", 1, {"orders": "*"})
    waiting = both.rocketmq.pull("g", "orders", 0, 0, version=1, wait_ms=20_000)
    await both.rocketmq.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    answer = await asyncio.wait_for(waiting, 10)
    assert answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND)


async def test_properties_come_over(both):
    await wrote(
        both, one(b"x", properties=[KeyValue(key="RETRY_TOPIC", value="elsewhere"), KeyValue(key="e", value="")])
    )
    (found,) = await both.rocketmq.messages("orders")
    assert "RETRY_TOPIC" not in found.properties
    assert found.properties[names.PROPERTIES] == '{"RETRY_TOPIC":"elsewhere","e":""}'


async def test_figures_count_messages_for_one_and_entries_for_the_other(both):
    await wrote(both, several([b"a", b"b", b"c"]), counts={0: 3})
    await both.rocketmq.send("orders", b"d")
    topic = both.broker.topics.get("orders")
    stats = await both.rocketmq.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})
    assert b'"maxOffset":4' in bytes(stats.body)
    assert both.broker.fetcher.rows(topic.queue(0)) == (0, 2)


async def test_a_name_too_long_for_a_record_is_refused(both):
    await wrote(both, one(b"x"), topic="x" * 150)
    answer = await both.rocketmq.pull("g", "x" * 150, 0, 0, **ALL)
    assert (answer.code, "too long" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
