"""What clients ask before they produce: partitions, the broker, the topics of a namespace."""

import pytest
from tests.gateway.pulsar.conftest import client_of

from penstock.core.topics import TopicSettings
from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.topics import topics_hash

Partitions, Lookup = pb.CommandPartitionedTopicMetadataResponse, pb.CommandLookupTopicResponse
PUBLIC = "persistent://public/default/"


async def partitioned(penstock, name: str, partitions: int) -> None:
    settings = TopicSettings(write_queues=partitions, permissions=0, attributes={"pulsar.partitioned": "yes"})
    await penstock.server.broker.topics.create(name, settings)


# --- partitions -------------------------------------------------------------------------------------------------------


async def test_a_topic_that_is_not_there_would_have_no_partitions_and_is_not_made(client, penstock):
    answer = await client.partitions("orders")
    assert (answer.response, answer.partitions) == (Partitions.Success, 0)
    assert penstock.server.broker.topics.find("orders") is None


async def test_a_topic_that_is_not_there_and_must_not_be_made(client):
    answer = await client.partitions("orders", metadata_auto_creation_enabled=False)
    assert (answer.response, answer.error) == (Partitions.Failed, pb.TopicNotFound)


async def test_partitions_are_counted(client, penstock):
    await partitioned(penstock, "orders", 3)
    await penstock.server.broker.topics.create("by_rocketmq", TopicSettings(write_queues=5))
    await client.producer("plain")
    assert (await client.partitions("orders")).partitions == 3
    assert (await client.partitions("orders-partition-2")).partitions == 0
    assert (await client.partitions("by_rocketmq")).partitions == 5
    assert (await client.partitions("plain")).partitions == 0
    assert (await client.partitions("orders-partition-3")).error == pb.TopicNotFound


async def test_topics_can_be_made_partitioned():
    async with serving(pulsar={"auto_create_partitions": 4}) as penstock, client_of(penstock) as client:
        assert (await client.partitions("orders")).partitions == 4
        assert (await client.partitions("orders-s-DLQ")).partitions == 0
        assert (await client.partitions("x-partition-1")).error == pb.TopicNotFound
        await client.producer("orders-partition-3")


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("no/such/topic", pb.TopicNotFound),
        ("a/b", pb.InvalidTopicName),
        ("other://a/b/c", pb.InvalidTopicName),
        ("%RETRY%group", pb.InvalidTopicName),
        ("non-persistent://public/default/x", pb.NotAllowedError),
    ],
)
async def test_names_that_lead_nowhere(client, topic, error):
    assert (await client.partitions(topic)).error == error
    assert (await client.lookup(topic)).error == error
    assert (await client.refused(topic)).error == error


async def test_a_name_that_is_no_text(client):
    asked = pb.CommandLookupTopic(topic="ab", request_id=5).SerializeToString().replace(b"ab", b"\xff\xfe")
    client.say(pb.CommandLookupTopic.FromString(asked))
    answer = await client.next("lookupTopicResponse")
    assert (answer.request_id, answer.error) == (5, pb.InvalidTopicName)


async def test_a_namespace_can_be_made(client, penstock):
    assert (await client.partitions("shop/eu/orders")).error == pb.TopicNotFound
    await penstock.server.broker.namespaces.create("shop/eu")
    assert (await client.partitions("shop/eu/orders")).response == Partitions.Success
    await client.producer("shop/eu/orders")
    assert penstock.server.broker.topics.find("shop%eu%orders") is not None


# --- lookup -----------------------------------------------------------------------------------------------------------


async def test_the_broker_of_a_topic_is_this_one(client, penstock):
    answer = await client.lookup("orders")
    assert answer.response == Lookup.Connect
    assert answer.brokerServiceUrl == f"pulsar://{penstock.addresses['pulsar']}"
    assert answer.authoritative
    assert answer.proxy_through_service_url  # whatever is between us: it may be another address there
    assert penstock.server.broker.topics.find("orders") is None


@pytest.mark.parametrize(
    ("advertise", "told"),
    [
        (["broker.example"], "pulsar://broker.example:{own}"),
        (["broker.example:10911"], "pulsar://broker.example:{own}"),
        (["broker.example:10911", "pulsar://other.example:16650"], "pulsar://other.example:16650"),
        (["pulsar://[fd00::1]:16650"], "pulsar://[fd00::1]:16650"),
    ],
)
async def test_what_is_advertised_is_told(advertise, told):
    async with serving(server={"advertise": advertise}) as penstock, client_of(penstock) as client:
        answer = await client.lookup("orders")
        assert answer.brokerServiceUrl == told.format(own=penstock.addresses["pulsar"].rpartition(":")[2])
        assert not answer.proxy_through_service_url


async def test_a_listener_that_is_not_known(client):
    """One client looks for this sentence."""
    answer = await client.lookup("orders", advertised_listener_name="test")
    assert (answer.response, answer.error) == (Lookup.Failed, pb.ServiceNotReady)
    assert answer.message == "the broker do not have test listener"


async def test_without_making_topics_one_that_is_not_there_is_not_found():
    async with serving(pulsar={"auto_create_topics": False}) as penstock, client_of(penstock) as client:
        assert (await client.lookup("orders")).error == pb.TopicNotFound
        assert (await client.partitions("orders")).error == pb.TopicNotFound
        assert (await client.refused("orders")).error == pb.TopicNotFound


# --- lists ------------------------------------------------------------------------------------------------------------


async def test_the_topics_of_a_namespace(client, penstock):
    await partitioned(penstock, "many", 2)
    await penstock.server.broker.namespaces.create("shop/eu")
    for number, topic in enumerate(["one", "__hidden", "shop/eu/other"]):
        await client.producer(topic, number)
    answer = await client.topics()
    expected = [f"{PUBLIC}many-partition-0", f"{PUBLIC}many-partition-1", f"{PUBLIC}one"]
    assert (sorted(answer.topics), answer.changed, answer.filtered) == (expected, True, False)
    assert answer.topics_hash == topics_hash(expected)
    assert list((await client.topics("shop/eu")).topics) == ["persistent://shop/eu/other"]


async def test_a_list_that_has_not_changed_is_not_sent_again(client):
    await client.producer("one")
    found = (await client.topics()).topics_hash
    answer = await client.topics(topics_hash=found)
    assert (list(answer.topics), answer.changed) == ([], False)


async def test_no_topic_is_not_persistent(client):
    await client.producer("one")
    answer = await client.topics(mode=pb.CommandGetTopicsOfNamespace.NON_PERSISTENT)
    assert list(answer.topics) == []


@pytest.mark.parametrize(("namespace", "error"), [("no/such", pb.TopicNotFound), ("public", pb.InvalidTopicName)])
async def test_a_namespace_that_is_not_there(client, namespace, error):
    client.say(pb.CommandGetTopicsOfNamespace(namespace=namespace, request_id=9))
    assert (await client.next("error")).error == error
