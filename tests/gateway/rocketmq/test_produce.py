"""Sends, as a client sees them."""

import json
import struct

import pytest

from penstock.wire.rocketmq.codes import Flag, RequestCode, ResponseCode
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


async def test_a_message_above_the_limit_is_refused(client):
    answer = await client.send("orders", bytes(5 << 20))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "limit" in answer.remark
    assert (await client.send("orders", b"fine")).ext["queueOffset"] == "0"


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
