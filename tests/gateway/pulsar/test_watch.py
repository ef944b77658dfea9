"""Lists of topics that are watched."""

import pytest
from tests.gateway.pulsar.conftest import client_of

from penstock.core.topics import TopicSettings
from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.topics import topics_hash

PUBLIC = "persistent://public/default/"


def ask(client, pattern: str, watcher_id: int = 3, namespace: str = "public/default", **more: object) -> None:
    asked = pb.CommandWatchTopicList(
        request_id=9, watcher_id=watcher_id, namespace=namespace, topics_pattern=pattern, **more
    )
    client.say(asked)


async def watch(client, pattern: str, watcher_id: int = 3, **more: object):
    ask(client, pattern, watcher_id, **more)
    return await client.next("watchTopicListSuccess")


async def test_a_list_and_what_changes_in_it(client, penstock):
    topics = penstock.server.broker.topics
    await client.producer("orders-eu", 0)
    await client.producer("payments", 1)
    found = await watch(client, "persistent://public/default/orders-.*")
    assert (found.request_id, found.watcher_id, list(found.topic)) == (9, 3, [f"{PUBLIC}orders-eu"])
    assert found.topics_hash == topics_hash([f"{PUBLIC}orders-eu"])

    await client.producer("other", 2)
    await client.producer("orders-us", 3)
    update = await client.next("watchTopicUpdate")
    assert (list(update.new_topics), list(update.deleted_topics)) == ([f"{PUBLIC}orders-us"], [])
    assert update.topics_hash == topics_hash([f"{PUBLIC}orders-eu", f"{PUBLIC}orders-us"])

    await topics.delete("orders-eu")
    update = await client.next("watchTopicUpdate")
    assert (list(update.new_topics), list(update.deleted_topics)) == ([], [f"{PUBLIC}orders-eu"])


async def test_partitions_come_with_their_topic(client, penstock):
    topics, attributes = penstock.server.broker.topics, {"pulsar.partitioned": "yes"}
    await watch(client, "public/default/orders")
    await topics.create("orders", TopicSettings(write_queues=2, attributes=attributes))
    assert list((await client.next("watchTopicUpdate")).new_topics) == [f"{PUBLIC}orders-partition-{n}" for n in (0, 1)]
    await topics.alter("orders", TopicSettings(write_queues=3, read_queues=3))
    assert list((await client.next("watchTopicUpdate")).new_topics) == [f"{PUBLIC}orders-partition-2"]


async def test_a_list_that_is_known_is_not_sent_again(client):
    await client.producer("orders")
    found = await watch(client, ".*/orders")
    again = await watch(client, ".*/orders", topics_hash=found.topics_hash)
    assert (list(again.topic), again.topics_hash) == ([], found.topics_hash)


async def test_a_list_that_is_closed_is_silent(client):
    await watch(client, ".*", 3)
    await watch(client, ".*", 4)
    client.say(pb.CommandWatchTopicListClose(request_id=5, watcher_id=3))
    assert (await client.next("success")).request_id == 5
    await client.producer("orders")
    assert (await client.next("watchTopicUpdate")).watcher_id == 4
    assert client.none_of("watchTopicUpdate")


async def test_who_is_gone_is_not_told(client, connect):
    other = await connect()
    await watch(other, ".*")
    await other.close()
    await watch(client, ".*")
    await client.producer("orders")
    await client.next("watchTopicUpdate")


@pytest.mark.parametrize(
    ("pattern", "namespace", "error"),
    [
        ("(", "public/default", pb.NotAllowedError),
        ("(?!a).*", "public/default", pb.NotAllowedError),
        (".*", "no/such", pb.TopicNotFound),
        (".*", "public", pb.InvalidTopicName),
    ],
)
async def test_what_cannot_be_watched(client, pattern, namespace, error):
    ask(client, pattern, namespace=namespace)
    assert (await client.next("error")).error == error


async def test_a_connection_watches_so_many_lists():
    async with serving(pulsar={"watchers_per_connection_max": 1}) as penstock, client_of(penstock) as client:
        await watch(client, ".*", 1)
        ask(client, ".*", 2)
        assert (await client.next("error")).error == pb.NotAllowedError
        await watch(client, ".*", 1)
