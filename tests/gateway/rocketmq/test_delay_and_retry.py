"""Delay levels, messages that are sent back, and dead letters: frame by frame, on a clock that the test owns."""

import contextlib
import json

import pytest
from tests.gateway.rocketmq.conftest import Client

from penstock.clock import ManualClock
from penstock.config import BrokerConfig, Config, ServerConfig
from penstock.core.events import DeadLetter
from penstock.gateway.rocketmq.delay import LEVELS_MS, SCHEDULE_TOPIC
from penstock.gateway.rocketmq.produce import ADDED
from penstock.server import Server
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode

DELAY = "DELAY\x01{}\x02TAGS\x01t\x02"


class World:
    """A server whose clock stands still until `after`."""

    def __init__(self, server: Server, clock: ManualClock, client: Client) -> None:
        self.server, self.clock, self.client = server, clock, client

    async def after(self, passed_ms: int) -> None:
        self.clock.advance(passed_ms)
        await self.server.kept.tick()
        await self.server.broker.keeper.durable(self.server.broker.store.end_position)

    async def bodies(self, topic: str, queue: int = 0) -> list[bytes]:
        return [message.body for message in await self.client.messages(topic, queue)]

    async def set_group(self, group: str = "readers", **settings: object) -> None:
        body = json.dumps({"groupName": group, **settings}).encode()
        answer = await self.client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def send_back(self, message, group: str = "readers", **ext: object):
        fields = {"offset": message.physical_offset, "group": group, "delayLevel": 0, **ext}
        return await self.client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)


@contextlib.asynccontextmanager
async def world_in(folder, **broker: int):
    clock = ManualClock()
    ports = {"namesrv_port": 0, "broker_port": 0, "pulsar_port": 0, "http_port": 0}
    server = Server(Config(server=ServerConfig(data=str(folder), **ports), broker=BrokerConfig(**broker)), clock)
    await server.start()
    client = await Client.to(server.addresses["broker"])
    try:
        yield World(server, clock, client)
    finally:
        await client.close()
        await server.stop()


@pytest.fixture
async def world(tmp_path):
    async with world_in(tmp_path) as world:
        yield world


async def test_a_delayed_message_comes_after_its_level(world):
    sent = await world.client.send("orders", b"later", queue=2, properties=DELAY.format(3))
    assert (sent.code, sent.ext["queueId"]) == (0, "2")
    await world.after(9_999)
    assert await world.bodies("orders", 2) == []
    await world.after(1)
    (message,) = await world.client.messages("orders", 2, tags="t")
    assert (message.body, message.topic, message.queue_index) == (b"later", "orders", 2)
    assert "DELAY" not in message.properties
    assert message.properties["REAL_TOPIC"] == "orders"


@pytest.mark.parametrize(("level", "held_ms"), [(1, 1_000), (18, 7_200_000), (99, 7_200_000)])
async def test_levels(world, level, held_ms):
    await world.client.send("orders", b"x", properties=DELAY.format(level))
    await world.after(held_ms - 1)
    assert await world.bodies("orders") == []
    await world.after(1)
    assert await world.bodies("orders") == [b"x"]


async def test_there_are_eighteen_levels(world):
    assert len(LEVELS_MS) == 18
    assert world.server.broker.topics.get(SCHEDULE_TOPIC).queue_count == 18


async def test_a_message_sent_back_comes_again_through_the_retry_topic(world):
    await world.client.send("orders", b"hard", properties="KEYS\x01k\x02")
    (message,) = await world.client.messages("orders")
    assert (await world.send_back(message)).code == ResponseCode.SUCCESS
    await world.after(9_999)
    assert await world.bodies("%RETRY%readers") == []
    await world.after(1)
    (again,) = await world.client.messages("%RETRY%readers")
    assert (again.body, again.reconsume_times, again.properties["RETRY_TOPIC"]) == (b"hard", 1, "orders")
    assert again.properties["ORIGIN_MESSAGE_ID"] == message.message_id
    assert again.properties["KEYS"] == "k"


async def test_every_retry_waits_longer(world):
    await world.client.send("orders", b"hard")
    (message,) = await world.client.messages("orders")
    await world.send_back(message)
    await world.after(10_000)
    (again,) = await world.client.messages("%RETRY%readers")
    await world.send_back(again)
    await world.after(29_999)
    assert len(await world.bodies("%RETRY%readers")) == 1
    await world.after(1)
    twice = (await world.client.messages("%RETRY%readers"))[1]
    assert (twice.reconsume_times, twice.properties["RETRY_TOPIC"]) == (2, "orders")
    assert twice.properties["ORIGIN_MESSAGE_ID"] == message.message_id


async def test_after_too_many_tries_it_is_a_dead_letter(world):
    await world.client.send("orders", b"hopeless")
    (message,) = await world.client.messages("orders")
    await world.send_back(message, maxReconsumeTimes=0)
    assert await world.bodies("%DLQ%readers") == [b"hopeless"]
    await world.after(LEVELS_MS[-1])
    assert await world.bodies("%DLQ%readers") == [b"hopeless"]


async def test_a_dead_letter_is_told_of_once_and_a_retry_is_not(world):
    told = []
    world.server.broker.bus.listen(lambda event: told.append(event) if isinstance(event, DeadLetter) else None)
    await world.client.send("orders", b"hopeless", properties="UNIQ_KEY\x01key-7\x02")
    (message,) = await world.client.messages("orders")
    await world.send_back(message, maxReconsumeTimes=1)
    assert told == []
    await world.after(10_000)
    (again,) = await world.client.messages("%RETRY%readers")
    await world.send_back(again, maxReconsumeTimes=1)
    tried = {"properties": "UNIQ_KEY\x01key-8\x02RETRY_TOPIC\x01bills\x02", "j": 2, "l": 2}
    assert (await world.client.send("%RETRY%readers", b"hopeless", **tried)).code == 0
    assert [(one.group, one.topic, one.message_id, one.tries, one.dead_letter_topic) for one in told] == [
        ("readers", "orders", "key-7", 1, "%DLQ%readers"), ("readers", "bills", "key-8", 2, "%DLQ%readers"),
    ]  # fmt: skip


async def test_a_client_that_retries_by_itself_too_often_fills_the_dead_letters(world):
    """What orderly consumers do: a plain send to the retry topic, with a delay."""
    tried = {"properties": DELAY.format(4), "j": 2, "l": 2}
    assert (await world.client.send("%RETRY%readers", b"hopeless", **tried)).code == 0
    assert await world.bodies("%DLQ%readers") == [b"hopeless"]
    await world.client.send("%RETRY%readers", b"hopeful", properties=DELAY.format(4), j=1, l=2)
    assert await world.bodies("%DLQ%readers") == [b"hopeless"]
    await world.after(30_000)
    assert await world.bodies("%RETRY%readers") == [b"hopeful"]


async def test_a_negative_level_is_a_dead_letter_at_once(world):
    await world.client.send("orders", b"hopeless")
    (message,) = await world.client.messages("orders")
    await world.send_back(message, delayLevel=-1)
    assert await world.bodies("%DLQ%readers") == [b"hopeless"]


# --- as large as they come --------------------------------------------------------------------------------------------

LIMIT_BYTES = 4 << 20
ROOM_BYTES = props.BYTES_MAX - len(ADDED)  # of a message's own properties


def is_readable(message) -> bool:
    """Clients read the length of properties as two bytes with a sign."""
    return len(props.build(message.properties).encode()) <= props.BYTES_MAX


async def test_a_message_of_the_limit_can_be_delayed_and_sent_back(world):
    """What the broker adds does not count, and what is stored already is taken again."""
    own = f"DELAY\x011\x02KEYS\x01{'k' * 30_000}\x02"
    assert (await world.client.send("orders", bytes(LIMIT_BYTES), properties=own)).code == 0
    await world.after(1_000)
    (message,) = await world.client.messages("orders")
    assert (await world.send_back(message)).code == ResponseCode.SUCCESS
    await world.after(10_000)
    (again,) = await world.client.messages("%RETRY%readers")
    assert (await world.send_back(again, delayLevel=-1)).code == ResponseCode.SUCCESS
    assert await world.bodies("%DLQ%readers") == [bytes(LIMIT_BYTES)]


async def test_a_message_from_before_the_limit_was_lowered_can_be_sent_back(tmp_path):
    async with world_in(tmp_path) as world:
        await world.client.send("orders", bytes(100_000))
    async with world_in(tmp_path, message_bytes_max=1_000) as world:
        (message,) = await world.client.messages("orders")
        assert (await world.send_back(message, delayLevel=-1)).code == ResponseCode.SUCCESS
        assert await world.bodies("%DLQ%readers") == [bytes(100_000)]


@pytest.mark.parametrize("spare_bytes", [0, 1, 30, 60, 100, 200])
async def test_full_properties_stay_readable_when_a_message_is_sent_back(world, spare_bytes):
    """What the broker has added gives way; what the sender said does not."""
    own = f"KEYS\x01k\x02long\x01{'v' * (ROOM_BYTES - spare_bytes - 13)}\x02"
    assert len(own) == ROOM_BYTES - spare_bytes
    assert (await world.client.send("orders", b"full", properties=own)).code == 0
    (message,) = await world.client.messages("orders")
    assert (await world.send_back(message)).code == ResponseCode.SUCCESS
    await world.after(10_000)
    (again,) = await world.client.messages("%RETRY%readers")
    assert (await world.send_back(again, delayLevel=-1)).code == ResponseCode.SUCCESS
    (dead,) = await world.client.messages("%DLQ%readers")
    for found in (again, dead):
        assert is_readable(found)
        assert found.body == b"full"
        assert props.parse(own).items() <= found.properties.items()
        assert found.properties["RETRY_TOPIC"] == "orders"


async def test_full_properties_that_have_no_room_for_a_delay_come_again_at_once(world):
    group = "g" * 120
    own = f"long\x01{'v' * (ROOM_BYTES - 6)}\x02"
    await world.client.send("orders", b"full", properties=own)
    (message,) = await world.client.messages("orders")
    assert (await world.send_back(message, group)).code == ResponseCode.SUCCESS
    (again,) = await world.client.messages(f"%RETRY%{group}")
    assert is_readable(again)
    assert (again.body, again.reconsume_times, again.properties["long"]) == (b"full", 1, props.parse(own)["long"])


async def test_a_delay_with_full_properties_is_taken(world):
    own = f"DELAY\x011\x02long\x01{'v' * (ROOM_BYTES - 14)}\x02"
    assert (await world.client.send("orders", b"full", properties=own)).code == 0
    await world.after(1_000)
    (message,) = await world.client.messages("orders")
    assert is_readable(message)
    assert (message.body, message.properties["long"]) == (b"full", props.parse(own)["long"])


async def test_what_is_not_there_cannot_be_sent_back(world):
    await world.client.send("orders", b"x")
    (message,) = await world.client.messages("orders")
    for physical in (message.physical_offset + 5, 1 << 50):
        message.physical_offset = physical
        answer = await world.send_back(message)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark


# --- what an operator has set for the group ---------------------------------------------------------------------------


async def test_after_as_many_tries_as_the_group_is_set_to_it_is_a_dead_letter(world):
    await world.set_group(retryMaxTimes=1)
    await world.client.send("orders", b"hopeless")
    (message,) = await world.client.messages("orders")
    await world.send_back(message)
    await world.after(10_000)
    (again,) = await world.client.messages("%RETRY%readers")
    await world.send_back(again)
    assert await world.bodies("%DLQ%readers") == [b"hopeless"]


async def test_the_clients_own_limit_counts_before_the_groups(world):
    """From version 121 on: an older client cannot know the field."""
    await world.set_group(retryMaxTimes=0)
    await world.client.send("orders", b"hard")
    (message,) = await world.client.messages("orders")
    await world.send_back(message, maxReconsumeTimes=5)
    await world.after(10_000)
    assert await world.bodies("%RETRY%readers") == [b"hard"]
    fields = {"offset": message.physical_offset, "group": "readers", "delayLevel": 0, "maxReconsumeTimes": 5}
    await world.client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields, version=120)
    assert await world.bodies("%DLQ%readers") == [b"hard"]


async def test_the_groups_limit_counts_for_what_clients_send_by_themselves(world):
    await world.set_group(retryMaxTimes=2)
    await world.client.send("%RETRY%readers", b"hopeless", properties=DELAY.format(4), j=2)
    assert await world.bodies("%DLQ%readers") == [b"hopeless"]
    await world.client.send("%RETRY%readers", b"hopeful", properties=DELAY.format(4), j=2, l=9)
    assert await world.bodies("%DLQ%readers") == [b"hopeless"]


async def test_a_group_without_retry_queues_does_not_see_it_again(world):
    await world.set_group(retryQueueNums=0)
    await world.client.heartbeat("readers", "a@1", 1, {"orders": "*"})
    await world.client.send("orders", b"hard")
    (message,) = await world.client.messages("orders")
    assert (await world.send_back(message)).code == ResponseCode.SUCCESS
    assert world.server.broker.topics.find("%RETRY%readers") is None
    assert world.server.broker.topics.find("%DLQ%readers") is None


async def test_a_retry_topic_has_as_many_queues_as_the_group_is_set_to(world):
    topics = world.server.broker.topics
    await world.set_group(retryQueueNums=3)
    await world.client.heartbeat("readers", "a@1", 1, {"orders": "*"})
    assert topics.get("%RETRY%readers").read_queues == 3
    await world.set_group(retryQueueNums=5)
    assert topics.get("%RETRY%readers").read_queues == 5
    await world.set_group(retryQueueNums=2)
    assert topics.get("%RETRY%readers").read_queues == 5  # messages may wait in the others
    await world.client.send("orders", b"hard")
    (message,) = await world.client.messages("orders")
    for _ in range(12):
        await world.send_back(message)
    await world.after(10_000)
    filled = [queue for queue in range(5) if await world.bodies("%RETRY%readers", queue)]
    assert filled in ([0], [1], [0, 1])
