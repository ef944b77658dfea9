"""Staging over the wire: what is staged is seen after the commit, once, and hostile requests change nothing."""

import json
import struct

import pytest
from tests.gateway.rocketmq.staged_records import packed, record

from penstock.core.events import StageCommitted
from penstock.errors import NotAuthorized
from penstock.testing.server import serving
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode


class Writer:
    """A client that stages and commits."""

    def __init__(self, client) -> None:
        self.client = client

    @classmethod
    async def of(cls, client) -> "Writer":
        answer = await client.ask(RequestCode.GET_STAGING)
        assert (answer.code, answer.ext["version"]) == (ResponseCode.SUCCESS, "2")
        return cls(client)

    async def stage(self, stage: str, part: int, bodies: list[bytes], topic: str = "orders", queue: int = 0, **ext):
        return await self.send(stage, part, packed([record(topic, queue, body) for body in bodies]), **ext)

    async def send(self, stage: str, part: int, body: bytes, topic: str = "orders", **ext):
        return await self.client.ask(
            RequestCode.STAGE_MESSAGES, {"topic": topic, "stage": stage, "part": part, **ext}, body
        )

    async def commit(self, key: str, *stages: str, others: str = ""):
        body = json.dumps({"key": key, "stages": stages, "others": others}).encode()
        return await self.client.ask(RequestCode.COMMIT_STAGES, {}, body)

    async def drop(self, stages: str):
        return await self.client.ask(RequestCode.DROP_STAGES, {"stages": stages})

    async def bodies(self, queue: int = 0, topic: str = "orders") -> list[bytes]:
        return [message.body for message in await self.client.messages(topic, queue)]


@pytest.fixture
async def writer(client) -> Writer:
    return await Writer.of(client)


# --- the story --------------------------------------------------------------------------------------------------------


async def test_what_is_staged_is_seen_after_the_commit_and_once(writer, told):
    assert (await writer.stage("q/0/0", 0, [b"a", b"b"])).code == ResponseCode.SUCCESS
    assert (await writer.stage("q/0/1", 0, [b"c"])).code == ResponseCode.SUCCESS
    assert await writer.bodies() == []
    answer = await writer.commit("q/0", "q/0/1", "q/0/0")
    assert (answer.code, answer.ext["published"]) == (ResponseCode.SUCCESS, "true")
    assert await writer.bodies() == [b"c", b"a", b"b"]
    await writer.stage("q/0/again", 0, [b"a", b"b"])
    answer = await writer.commit("q/0", "q/0/again")
    assert (answer.code, answer.ext["published"]) == (ResponseCode.SUCCESS, "false")
    assert await writer.bodies() == [b"c", b"a", b"b"]
    assert [event.messages for event in told if isinstance(event, StageCommitted)] == [3]


async def test_records_get_what_only_the_broker_knows(writer, client):
    records = [
        record("orders", 0, b"x", {"KEYS": "k1", "TAGS": "red"}),
        record("orders", 2, b"y", {"TAGS": "blué"}),
        record("orders", 2, b"z"),
    ]
    assert (await writer.send("s", 0, packed(records))).code == ResponseCode.SUCCESS
    await client.send("orders", b"before", queue=2)
    await writer.commit("k", "s")
    (first,) = await client.messages("orders", 0)
    _, second, third = await client.messages("orders", 2)
    (sent,) = [message for message in await client.messages("orders", 2) if message.body == b"before"]
    assert [message.offset for message in (first, second, third)] == [0, 1, 2]
    assert all(message.sound for message in (first, second, third))
    assert (first.properties["KEYS"], first.properties["TAGS"], second.properties["TAGS"]) == ("k1", "red", "blué")
    assert first.properties["MSG_REGION"] == sent.properties["MSG_REGION"]
    assert (first.born_host, first.store_host) == (sent.born_host, sent.store_host)
    assert third.physical_offset == sent.physical_offset + 2
    assert first.store_ms >= sent.store_ms
    assert [message.body for message in await client.messages("orders", 0, tags="red")] == [b"x"]
    assert await client.messages("orders", 0, tags="green") == []


async def test_a_part_that_comes_again_is_known_and_one_too_early_is_refused(writer):
    await writer.stage("s", 0, [b"a"])
    await writer.stage("s", 1, [b"b"])
    assert (await writer.stage("s", 1, [b"b"])).code == ResponseCode.SUCCESS
    answer = await writer.stage("s", 3, [b"d"])
    assert "does not exist" in answer.remark
    await writer.commit("k", "s")
    assert await writer.bodies() == [b"a", b"b"]


async def test_a_commit_names_the_attempts_that_count_and_the_others_go(writer, penstock):
    await writer.stage("job/0/first", 0, [b"a"])
    await writer.stage("job/0/second", 0, [b"a"])
    await writer.stage("other/0", 0, [b"b"])
    await writer.commit("job", "job/0/second", others="job/")
    assert await writer.bodies() == [b"a"]
    assert len(penstock.server.broker.staging) == 1
    assert (await writer.drop("other/")).code == ResponseCode.SUCCESS
    assert len(penstock.server.broker.staging) == 0
    assert "does not exist" in (await writer.commit("other", "other/0")).remark


async def test_a_commit_of_many_topics_and_an_empty_one(writer):
    await writer.send("s", 0, packed([record("one", 0, b"1")]), topic="one")
    await writer.send("s", 1, packed([record("two", 7, b"2")]), topic="two")
    await writer.commit("k", "s")
    assert (await writer.bodies(0, "one"), await writer.bodies(7, "two")) == ([b"1"], [b"2"])
    assert (await writer.commit("empty")).ext["published"] == "true"


# --- delays -----------------------------------------------------------------------------------------------------------


async def test_a_delay_counts_from_the_commit(world):
    writer = await Writer.of(world.client)
    records = [record("orders", queue, b"%d" % queue, {"TAGS": "t"}) for queue in (1, 2)]
    answer = await writer.send("s", 0, packed(records, [5_000, 1_000]), delayed="true")
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await world.after(10_000)
    await writer.commit("k", "s")
    await world.after(1_100)
    assert (await world.bodies(queue=1), await world.bodies(queue=2)) == ([], [b"2"])
    await world.after(4_000)
    await writer.stage("s", 0, [b"again"])
    await writer.commit("k", "s")
    await world.after(10_000)
    assert (await world.bodies(queue=1), await world.bodies(queue=2)) == ([b"1"], [b"2"])


@pytest.mark.parametrize("delay_ms", [0, -5, 4 * 24 * 3_600_000])
async def test_a_delay_that_cannot_be_is_refused_when_it_is_staged(writer, delay_ms):
    body = packed([record("orders", 0, b"x")], [delay_ms])
    answer = await writer.send("s", 0, body, delayed="true")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "delay" in answer.remark


# --- hostile ----------------------------------------------------------------------------------------------------------


def changed(body: bytes, at: int, data: bytes) -> bytes:
    return body[:at] + data + body[at + len(data) :]


async def test_what_is_wrong_with_a_message_is_told_and_nothing_is_staged(writer, penstock):
    """Two messages; what is changed, and what is said. A column of them has 8 bytes, the first begins at byte 12."""
    body = packed([record("orders", 0, b"body", {"KEYS": "key"}), record("orders", 0, b"other")])
    queue_at, body_at, properties_at, data_at = 12, 20, 28, 52
    huge = struct.pack(">i", (1 << 31) - 1)
    cases = {
        b"": "at least one",
        body[:11]: "at least one",
        struct.pack(">iq", 0, 1): "at least one",
        struct.pack(">iq", -1, 1) + bytes(100): "at least one",
        struct.pack(">iq", (1 << 31) - 1, 1): "cannot hold",
        body[:51]: "cannot hold",
        body[:-1]: "add up to",
        body + b"x": "add up to",
        changed(body, body_at, struct.pack(">i", 20)): "add up to",
        changed(body, body_at, huge): "above the limit",
        changed(body, body_at, struct.pack(">ii", -1, 10)): "less than 0",
        changed(body, properties_at, struct.pack(">i", -1)): "less than 0",
        changed(body, body_at, struct.pack(">ii", 9, 0)): "body of a message is empty",
        changed(body, properties_at, struct.pack(">i", 32_767)): "above 32767 bytes",
        changed(body, properties_at, huge): "above 32767 bytes",
        changed(body, queue_at + 4, struct.pack(">i", 8)): "has queues 0 to 7, not 8",
        changed(body, queue_at, struct.pack(">i", -1)): "not -1",
        changed(body, data_at + 9, b"\xff"): "not UTF-8",
        changed(body, len(body) - 1, b"x"): "has no end",
    }
    for number, (bad, why) in enumerate(cases.items()):
        answer = await writer.send("s", 0, bad)
        assert (answer.code, why in answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, True), (number, answer.remark)
    assert len(penstock.server.broker.staging) == 0
    assert (await writer.send("s", 0, body)).code == ResponseCode.SUCCESS


async def test_messages_that_are_not_sorted_by_queue_are_refused(writer):
    records = [record("orders", queue, b"x") for queue in (1, 0)]
    assert "sorted by queue" in (await writer.send("s", 0, packed(records))).remark


@pytest.mark.parametrize("name", ["", "x" * 256])
async def test_names_are_bounded(writer, name):
    assert "1 to 255 characters" in (await writer.stage(name, 0, [b"x"])).remark
    assert "1 to 255 characters" in (await writer.commit(name)).remark
    assert "1 to 255 characters" in (await writer.drop(name)).remark


async def test_a_commit_that_is_no_json_is_refused(client):
    assert (await client.ask(RequestCode.COMMIT_STAGES, {}, b"{")).code == ResponseCode.SYSTEM_ERROR


async def test_a_message_that_is_too_large_is_refused(connect):
    async with serving(broker={"message_bytes_max": 1_000}) as penstock:
        from tests.gateway.rocketmq.conftest import Client

        client = await Client.to(penstock.addresses["broker"])
        writer = await Writer.of(client)
        answer = await writer.stage("s", 0, [b"x", bytes(1_000)])
        assert (answer.code, "limit of 1000" in answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
        await client.close()


async def test_a_topic_that_may_not_be_created_is_missing(connect):
    async with serving(rocketmq={"auto_create_topics": False}) as penstock:
        from tests.gateway.rocketmq.conftest import Client

        client = await Client.to(penstock.addresses["broker"])
        writer = await Writer.of(client)
        assert (await writer.stage("s", 0, [b"x"])).code == ResponseCode.TOPIC_NOT_EXIST
        await client.close()


async def test_everybody_is_asked_for_every_topic(writer, penstock, monkeypatch):
    """Also by a commit and a drop, for the topics of the stages that they name."""
    await writer.stage("s", 0, [b"x"])

    def check(self, who, action, resource):
        if resource == "orders":
            raise NotAuthorized(who, action, resource)

    monkeypatch.setattr(type(penstock.server.broker.authorizer), "check", check)
    assert (await writer.stage("t", 0, [b"x"])).code == ResponseCode.NO_PERMISSION
    assert (await writer.commit("k", "s")).code == ResponseCode.NO_PERMISSION
    assert (await writer.commit("k", others="s")).code == ResponseCode.NO_PERMISSION
    assert (await writer.drop("s")).code == ResponseCode.NO_PERMISSION
    assert len(penstock.server.broker.staging) == 1
