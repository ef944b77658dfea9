"""Sends, as a client sees them."""

import asyncio
import json
import struct

import pytest
from tests.gateway.rocketmq.conftest import Client

from penstock.core.topics import READ, TopicSettings
from penstock.testing.server import serving
from penstock.wire.rocketmq.codes import Flag, RequestCode, ResponseCode, SysFlag
from penstock.wire.rocketmq.frame import BINARY, JSON, pack

ADDED = {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}  # what a broker of 5.x adds


async def test_a_message_comes_back_as_it_was_sent(client):
    sent = await client.send("orders", b"first", queue=2, properties="TAGS\x01red\x02KEYS\x01k1 k2\x02")
    assert (sent.code, sent.ext["queueId"], sent.ext["queueOffset"]) == (0, "2", "0")
    (message,) = await client.messages("orders", 2)
    assert (message.body, message.topic, message.queue_index, message.offset) == (b"first", "orders", 2, 0)
    assert message.properties == {"TAGS": "red", "KEYS": "k1 k2", **ADDED}
    assert message.sound
    assert message.born_ms == 1


async def test_the_message_id_names_the_place(client, penstock):
    sent = await client.send("orders", b"x", queue=1)
    (message,) = await client.messages("orders", 1)
    port = int(penstock.addresses["broker"].split(":")[1])
    assert sent.ext["msgId"] == f"7F000001{port:08X}{message.physical_offset:016X}"
    assert message.physical_offset < 1 << 53


@pytest.mark.parametrize("form", [JSON, BINARY])
async def test_both_forms_of_headers(client, form):
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}
    sent = await client.ask(RequestCode.SEND_MESSAGE_V2, ext, b"body", form)
    assert (sent.code, sent.form, sent.ext["queueOffset"]) == (0, form, "0")


async def test_the_long_names_of_code_10(client):
    ext = {"producerGroup": "p", "topic": "orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 1}
    ext |= {"sysFlag": 0, "bornTimestamp": 5, "flag": 7, "properties": "a\x01b"}
    assert (await client.ask(RequestCode.SEND_MESSAGE, ext, b"old")).code == 0
    (message,) = await client.messages("orders", 1)
    assert (message.body, message.flag, message.properties["a"]) == (b"old", 7, "b")


def in_batch(body: bytes, properties: str) -> bytes:
    props = properties.encode()
    length = 20 + len(body) + 2 + len(props)
    return struct.pack(">iiiii", length, 0, 0, 3, len(body)) + body + struct.pack(">h", len(props)) + props


async def test_a_batch_is_split_into_messages(client):
    bodies = [b"%d" % number for number in range(40)]
    body = b"".join(in_batch(each, f"UNIQ_KEY\x01id{each.decode()}\x02TAGS\x01t") for each in bodies)
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 3, "f": 0, "g": 1, "h": 0, "m": "true"}
    sent = await client.ask(RequestCode.SEND_BATCH_MESSAGE, {**ext, "i": "WAIT\x01true\x02UNIQ_KEY\x01batch"}, body)
    assert (sent.code, sent.ext["queueOffset"], len(sent.ext["msgId"].split(","))) == (0, "0", 40)
    found = await client.messages("orders", 3)
    assert [message.body for message in found] == bodies
    assert [message.properties["UNIQ_KEY"] for message in found] == [f"id{each.decode()}" for each in bodies]
    assert {message.flag for message in found} == {3}
    assert [message.body for message in await client.messages("orders", 3, tags="t")] == bodies


@pytest.mark.parametrize("damage", [b"", b"\x00", in_batch(b"x", "")[:-1], b"\xff" * 30])
async def test_a_batch_that_cannot_be_read_is_refused(client, damage):
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "m": "true"}
    sent = await client.ask(RequestCode.SEND_BATCH_MESSAGE, ext, damage)
    assert sent.code == ResponseCode.MESSAGE_ILLEGAL
    assert "batch" in sent.remark
    assert (await client.send("orders", b"the connection lives on")).ext["queueOffset"] == "0"


async def test_oneway_is_not_answered_but_stored(client):
    client.ask(
        RequestCode.SEND_MESSAGE_V2,
        {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 0},
        b"quiet",
        flag=Flag.ONEWAY,
    )
    assert (await client.send("orders", b"loud")).ext["queueOffset"] == "1"
    assert client.pushed.empty()


async def test_many_frames_in_one_write_are_answered_each(client):
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}
    answers = [client.ask(RequestCode.SEND_MESSAGE_V2, ext, b"%d" % number) for number in range(200)]
    assert [(await answer).ext["queueOffset"] for answer in answers] == [str(number) for number in range(200)]
    assert [message.body for message in await client.messages("orders")] == [b"%d" % number for number in range(200)]


async def test_a_frame_byte_by_byte(connect, client):
    await client.send("orders", b"creates it")
    frame = pack(RequestCode.GET_MAX_OFFSET, 1, 0, 409, JSON, "", {"topic": "orders", "queueId": "0"})
    for at in range(len(frame)):
        client.write(frame[at : at + 1])
        await client._writer.drain()
    answer = await client.pushed.get()
    assert answer.ext["offset"] == "1"


@pytest.mark.parametrize(
    ("ext", "code", "told"),
    [
        ({"b": "no such\ttopic"}, ResponseCode.SYSTEM_ERROR, "topic name"),
        ({"b": "x" * 200}, ResponseCode.SYSTEM_ERROR, "topic name"),
        ({"b": "orders", "e": 99}, ResponseCode.SYSTEM_ERROR, "queues 0 to 3"),
        ({"b": "orders", "e": "many"}, ResponseCode.SYSTEM_ERROR, "int"),
        ({"b": "orders", "i": "TIMER_DELAY_SEC\x01999999\x02"}, ResponseCode.MESSAGE_ILLEGAL, "timer_delay_ms_max"),
        ({"b": "orders", "i": "TIMER_DELIVER_MS\x01soon\x02"}, ResponseCode.MESSAGE_ILLEGAL, "not a number"),
        ({"b": "orders", "i": "TIMER_DELAY_MS\x01" + "9" * 5_000}, ResponseCode.MESSAGE_ILLEGAL, "not a number"),
        ({"b": "orders", "f": 4}, ResponseCode.MESSAGE_ILLEGAL, "transactional"),
        ({"b": "orders", "i": "a\x01" + "b" * 40_000}, ResponseCode.MESSAGE_ILLEGAL, "properties"),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "own"),
        ({}, ResponseCode.SYSTEM_ERROR, "b"),
    ],
)
async def test_what_cannot_be_taken_is_refused_in_plain_words(client, ext, code, told):
    fields = {"a": "p", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, **ext}
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"body")
    assert answer.code == code
    assert told in answer.remark
    assert (await client.send("orders", b"fine")).code == 0


SEND = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}
WAYS = pytest.mark.parametrize("form", [JSON, BINARY], ids=["with its neighbours", "one by one"])


@WAYS
@pytest.mark.parametrize("ext", [{}, {"i": "DELAY\x013\x02"}, {"i": "TRAN_MSG\x01true\x02PGROUP\x01p\x02", "f": 4}])
async def test_an_empty_body_is_refused(client, form, ext):
    """Java's consumers of 4.x break over one, and stand still for good."""
    await client.send("orders", b"makes the topic")
    fine, empty, too = await asyncio.gather(
        client.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"fine", form),
        client.ask(RequestCode.SEND_MESSAGE_V2, {**SEND, **ext}, b"", form),
        client.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"too", form),
    )
    assert (fine.code, too.code) == (0, 0)
    assert (empty.code, "the body is empty" in empty.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert [message.body for message in await client.messages("orders")] == [b"makes the topic", b"fine", b"too"]


@WAYS
async def test_a_batch_with_an_empty_message_is_refused(client, form):
    await client.send("orders", b"makes the topic")
    batch = in_batch(b"one", "") + in_batch(b"", "TAGS\x01t") + in_batch(b"three", "")
    refused = await client.ask(RequestCode.SEND_BATCH_MESSAGE, {**SEND, "m": "true"}, batch, form)
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert f"at byte {len(in_batch(b'one', ''))} of a batch is empty" in refused.remark
    assert [message.body for message in await client.messages("orders")] == [b"makes the topic"]


LIMIT_BYTES = 4 << 20


@WAYS
async def test_a_message_above_the_limit_is_refused(client, form):
    """The limit is on the body, whatever is stored beside it."""
    await client.send("orders", b"makes the topic")
    long = {**SEND, "i": f"KEYS\x01{'k' * 32_000}\x02"}
    codes = []
    for body_bytes in (LIMIT_BYTES - 200, LIMIT_BYTES, LIMIT_BYTES + 1):
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, long, bytes(body_bytes), form)
        codes.append(answer.code)
    assert codes == [0, 0, ResponseCode.MESSAGE_ILLEGAL]
    assert f"{LIMIT_BYTES + 1} bytes is above the limit of {LIMIT_BYTES}" in answer.remark
    assert (await client.send("orders", b"fine")).ext["queueOffset"] == "3"


def batch_of_bytes(size_bytes: int, messages: int) -> bytes:
    """A batch of so many messages that is so long."""
    each = in_batch(bytes(size_bytes // messages - 22), "")
    return each * (messages - 1) + in_batch(bytes(size_bytes - len(each) * (messages - 1) - 22), "")


@WAYS
@pytest.mark.parametrize("messages", [1, 1_000, 20_000])
async def test_a_batch_above_the_limit_is_refused(client, form, messages):
    """The limit is on the batch as it comes. What is stored of many small messages is much longer."""
    ext = {**SEND, "m": "true"}
    codes = []
    for size_bytes in (LIMIT_BYTES, LIMIT_BYTES + 1):
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, ext, batch_of_bytes(size_bytes, messages), form)
        codes.append(answer.code)
    assert codes == [0, ResponseCode.MESSAGE_ILLEGAL]
    assert f"above the limit of {LIMIT_BYTES}" in answer.remark
    assert (await client.send("orders", b"fine")).ext["queueOffset"] == str(messages)


@WAYS
async def test_a_batch_that_the_log_has_no_room_for_is_refused_alone(form):
    async with serving(store={"entry_bytes_max": 100_000}) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        await client.send("orders", b"makes the topic")
        ext = {**SEND, "m": "true"}
        batches = [batch_of_bytes(size_bytes, 500) for size_bytes in (20_000, 90_000, 20_001)]
        fine, large, too = await asyncio.gather(
            *(client.ask(RequestCode.SEND_BATCH_MESSAGE, ext, batch, form) for batch in batches)
        )
        assert (fine.code, too.code) == (0, 0)
        assert (large.code, "100000" in large.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
        await client.close()


async def test_one_that_is_too_large_only_as_it_is_kept_is_refused_alone():
    """And nothing waits for it then."""
    async with serving(store={"entry_bytes_max": 10_000}) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        await client.send("orders", b"makes the topic")
        half = {**SEND, "i": "PGROUP\x01p\x02", "f": SysFlag.PREPARED}
        fine, kept, large, too = await asyncio.gather(
            client.ask(RequestCode.SEND_MESSAGE_V2, SEND, bytes(9_800)),
            client.ask(RequestCode.SEND_MESSAGE_V2, half, bytes(9_000)),
            client.ask(RequestCode.SEND_MESSAGE_V2, half, bytes(9_800)),
            client.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"too"),
        )
        assert (fine.code, kept.code, too.code) == (0, 0, 0)
        assert (large.code, "10000" in large.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
        assert len(penstock.server.kept.halves) == 1
        await client.close()


@WAYS
async def test_a_topic_that_was_made_read_only_takes_what_still_comes(penstock, client, form):
    """As in RocketMQ: the route tells producers; who has not asked for it yet is not refused in between."""
    await client.send("orders", b"makes the topic")
    await penstock.server.broker.topics.alter("orders", TopicSettings(permissions=READ))
    assert (await client.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"late", form)).code == 0
    assert [message.body for message in await client.messages("orders")] == [b"makes the topic", b"late"]


async def test_any_queue_of_a_topic_that_has_none_to_write_to_is_refused_alone(penstock, client):
    await client.send("other", b"makes the topic")
    await penstock.server.broker.topics.create("orders", TopicSettings(read_queues=4, write_queues=0))
    fine, refused, too = await asyncio.gather(
        client.ask(RequestCode.SEND_MESSAGE_V2, {**SEND, "b": "other"}, b"fine", BINARY),
        client.ask(RequestCode.SEND_MESSAGE_V2, {**SEND, "e": -1}, b"x", BINARY),
        client.ask(RequestCode.SEND_MESSAGE_V2, {**SEND, "b": "other"}, b"too", BINARY),
    )
    assert (fine.code, too.code) == (0, 0)
    assert (refused.code, "no queues to write to" in refused.remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_large_message_comes_through(client):
    body = bytes(range(256)) * 12_000
    await client.send("orders", body)
    (message,) = await client.messages("orders")
    assert message.body == body


async def test_a_lying_length_loses_only_that_connection(connect):
    liar, other = await connect(), await connect()
    liar.write(struct.pack(">II", 0x7FFFFFFF, 10))
    await liar.closed.wait()
    assert (await other.send("orders", b"fine")).code == 0


async def test_a_header_that_is_none_loses_only_that_connection(connect):
    liar, other = await connect(), await connect()
    liar.write(struct.pack(">II", 10, 6) + b"{nope}")
    await liar.closed.wait()
    assert (await other.send("orders", b"fine")).code == 0


async def test_half_a_frame_keeps_nobody_waiting(connect):
    slow, other = await connect(), await connect()
    slow.write(pack(RequestCode.SEND_MESSAGE_V2, 1, 0, 409, JSON, "", {"b": "orders"}, b"body")[:-1])
    assert (await other.send("orders", b"fine")).code == 0


async def test_a_code_that_is_not_served_is_said_so(client):
    answer = await client.ask(9_999)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "9999" in answer.remark


async def test_the_route_names_this_broker(connect, penstock, client):
    await client.send("orders", b"x")
    names = await connect("namesrv")
    route = json.loads(bytes((await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})).body))
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": penstock.addresses["broker"]}
    assert (route["queueDatas"][0]["writeQueueNums"], route["queueDatas"][0]["perm"]) == (4, 6)
    unknown = await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "nothing"})
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


async def test_where_topics_are_not_created_by_sending_a_send_is_refused_and_says_what_to_do(open_world):
    world = await open_world(auto_create_topics=False)
    refused = await world.client.send("orders", b"one")
    assert (refused.code, "orders" in refused.remark) == (ResponseCode.TOPIC_NOT_EXIST, True)
    assert world.server.broker.topics.find("orders") is None
    await world.server.broker.topics.create("orders", TopicSettings(write_queues=1))
    assert (await world.client.send("orders", b"one")).code == 0
    topic = {"topic": "penstock_events", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    own = await world.client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
    assert (own.code, "cannot be changed" in own.remark) == (ResponseCode.SYSTEM_ERROR, True)
