"""What a pull is refused for when several things are wrong: the first of them, in the order that clients know."""

import json

import pytest

from penstock.core.topics import READ, WRITE, TopicSettings
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode

GROUP = "readers"
UNKNOWN_GROUP, UNKNOWN_TOPIC = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.TOPIC_NOT_EXIST
FORBIDDEN, NO_QUEUE = ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR
NOT_THERE, NOT_LATEST = ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST
NO_FILTER, NOT_READ = ResponseCode.FILTER_DATA_NOT_EXIST, ResponseCode.SUBSCRIPTION_PARSE_FAILED


class Story:
    """A broker on which nothing of what a pull needs is there; each step mends one thing."""

    def __init__(self, world) -> None:
        self.client, self.topics = world.client, world.server.broker.topics

    async def set_group(self, **settings: object) -> None:
        body = json.dumps({"groupName": GROUP, **settings}).encode()
        assert (await self.client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)).code == 0

    async def make_topic(self) -> None:
        await self.topics.create("orders", TopicSettings(write_queues=1, permissions=WRITE))

    async def make_readable(self) -> None:
        await self.topics.alter("orders", TopicSettings(permissions=READ | WRITE))

    async def beat(self, topics: dict[str, str], version: int = 1, **more: object) -> None:
        assert (await self.client.heartbeat(GROUP, "a", version, topics, **more)).code == 0

    async def beat_sql(self, version: int) -> None:
        sql = {"topic": "orders", "subString": "a = = 1", "expressionType": "SQL92", "subVersion": version}
        consumer = {"groupName": GROUP, "subscriptionDataSet": [sql]}
        body = json.dumps({"clientID": "a", "consumerDataSet": [consumer]}).encode()
        assert (await self.client.ask(RequestCode.HEART_BEAT, {}, body)).code == 0

    async def pull(self, queue: int = 99, version: int = 9, **more: object) -> int:
        """With an offset outside the queue, too: that is looked at last."""
        return (await self.client.pull(GROUP, "orders", queue, 77, version, **more)).code


@pytest.fixture
async def story(open_world):
    return Story(await open_world(auto_create_groups=False))


async def until_the_queue(story, **pull):
    """What every pull has to get past first."""
    assert await story.pull(**pull) == UNKNOWN_GROUP
    await story.set_group(consumeEnable=False, consumeBroadcastEnable=False)
    assert await story.pull(**pull) == FORBIDDEN  # the group
    await story.set_group(consumeBroadcastEnable=False)
    assert await story.pull(**pull) == UNKNOWN_TOPIC
    await story.make_topic()
    assert await story.pull(**pull) == FORBIDDEN  # the topic
    await story.make_readable()
    for queue in (99, 1, -1):
        assert await story.pull(queue, **pull) == NO_QUEUE


async def test_group_then_topic_then_queue_then_membership_then_version_then_filter_then_offset(story):
    await until_the_queue(story)
    assert await story.pull(queue=0) == NOT_THERE  # nobody of the group
    await story.beat({"others": "*"}, messageModel="BROADCASTING")
    assert await story.pull(queue=0) == FORBIDDEN  # it may not broadcast
    await story.beat({"others": "*"})
    assert await story.pull(queue=0) == NOT_THERE  # the group subscribes to something else
    await story.beat_sql(version=1)
    assert await story.pull(queue=0) == NOT_LATEST
    await story.beat_sql(version=9)
    assert await story.pull(queue=0) == NO_FILTER
    await story.beat({"orders": "*"}, version=10)
    assert await story.pull(queue=0) == ResponseCode.PULL_OFFSET_MOVED


async def test_a_pull_that_says_what_it_wants_is_refused_in_the_same_order(story):
    wish = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "a = = 1", "expressionType": "SQL92"}
    await until_the_queue(story, **wish)
    assert await story.pull(queue=0, **wish) == NOT_READ
    assert await story.pull(queue=0, **{**wish, "subscription": "a = 1"}) == ResponseCode.PULL_OFFSET_MOVED
    assert await story.pull(queue=0) == NOT_THERE  # it needs no group; others do


async def test_also_where_the_membership_and_the_version_are_wrong_the_topic_comes_first(story):
    """A client that is in the group, and behind with its version."""
    await story.set_group()
    await story.beat({"orders": "*"})
    assert await story.pull() == UNKNOWN_TOPIC
    await story.make_topic()
    assert await story.pull() == FORBIDDEN
    await story.make_readable()
    assert await story.pull() == NO_QUEUE
    assert await story.pull(queue=0) == NOT_LATEST
