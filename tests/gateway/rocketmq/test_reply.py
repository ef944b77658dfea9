"""Replies: passed on to the client that asked, frame by frame."""

import json

import pytest

from penstock.gateway.rocketmq.reply import REPLY_TOPIC
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import Flag, RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import JSON, pack

LONG = {"producerGroup": "repliers", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "sysFlag": 0, "flag": 7}
SHORT = {"a": "repliers", "c": "TBW102", "d": 4, "f": 0, "h": 7}


def to(client_id: str) -> str:
    return f"MSG_TYPE\x01reply\x02CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01{client_id}\x02"


def reply(client, properties: str, body: bytes = b"forty-two"):
    ext = {**SHORT, "b": REPLY_TOPIC, "e": 0, "g": 5, "i": properties}
    return client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, ext, body)


async def beat(client, client_id: str) -> None:
    body = json.dumps({"clientID": client_id, "producerDataSet": [{"groupName": "askers"}]}).encode()
    assert (await client.ask(RequestCode.HEART_BEAT, {}, body)).code == 0


def answer(client, asked, code: int = ResponseCode.SUCCESS) -> None:
    client.write(pack(code, asked.opaque, Flag.RESPONSE, 409, JSON, "no", {}, b""))


@pytest.fixture
async def asker(connect):
    client = await connect()
    await beat(client, "asker@1")
    return client


async def test_a_reply_is_passed_on_to_the_client_that_asked(client, asker):
    answered = reply(client, to("asker@1"))
    pushed = await asker.pushed.get()
    assert (pushed.code, pushed.oneway) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, False)
    assert bytes(pushed.body) == b"forty-two"
    ext = pushed.ext
    assert (ext["producerGroup"], ext["topic"], ext["flag"], ext["bornTimestamp"]) == (
        "repliers",
        REPLY_TOPIC,
        "7",
        "5",
    )
    for needed in (
        "defaultTopic",
        "defaultTopicQueueNums",
        "queueId",
        "sysFlag",
        "bornHost",
        "storeHost",
        "storeTimestamp",
    ):
        assert ext[needed]
    properties = props.parse(ext["properties"])
    assert (properties["CORRELATION_ID"], properties["MSG_TYPE"]) == ("c-1", "reply")
    assert properties["PUSH_REPLY_TIME"]
    assert not answered.done()  # not before it has got there
    answer(asker, pushed)
    told = await answered
    assert told.code == ResponseCode.SUCCESS
    assert (told.ext["msgId"], told.ext["queueId"], told.ext["queueOffset"]) == ("0", "0", "0")


async def test_the_long_names_are_understood(client, asker):
    ext = {**LONG, "topic": REPLY_TOPIC, "queueId": 0, "bornTimestamp": 5, "properties": to("asker@1")}
    answered = client.ask(RequestCode.SEND_REPLY_MESSAGE, ext, b"yes")
    pushed = await asker.pushed.get()
    answer(asker, pushed)
    assert (await answered).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("properties", "why"),
    [("MSG_TYPE\x01reply\x02", "REPLY_TO_CLIENT"), (to("nobody@1"), "nobody@1")],
    ids=["nobody named", "not connected"],
)
async def test_a_reply_for_nobody_is_refused(client, asker, properties, why):
    told = await reply(client, properties)
    assert told.code == ResponseCode.SYSTEM_ERROR
    assert why in told.remark
    assert asker.pushed.empty()


async def test_a_client_that_refuses_it_is_told_of(client, asker):
    answered = reply(client, to("asker@1"))
    answer(asker, await asker.pushed.get(), ResponseCode.SYSTEM_ERROR)
    told = await answered
    assert (told.code, "asker@1" in told.remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_client_that_goes_away_over_it_is_told_of(client, asker):
    answered = reply(client, to("asker@1"))
    await asker.pushed.get()
    await asker.close()
    assert (await answered).code == ResponseCode.SYSTEM_ERROR
    assert (await reply(client, to("asker@1"))).code == ResponseCode.SYSTEM_ERROR


async def test_whoever_was_heard_last_under_a_client_id_gets_it(client, asker, connect):
    second = await connect()
    await beat(second, "asker@1")
    await asker.close()
    answered = reply(client, to("asker@1"))
    answer(second, await second.pushed.get())
    assert (await answered).code == ResponseCode.SUCCESS
    await beat(second, "renamed@1")
    assert (await reply(client, to("asker@1"))).code == ResponseCode.SYSTEM_ERROR
