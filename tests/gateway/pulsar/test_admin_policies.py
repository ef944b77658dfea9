"""Policies by HTTP: in Pulsar's shapes, through a restart, and obeyed by producers and consumers on the wire."""

import asyncio

import pulsar
import pytest
from tests.gateway.pulsar.caller import Caller
from tests.gateway.pulsar.conftest import client_of, one
from tests.gateway.pulsar.test_consumers import TOPIC, Shared, publish
from tests.gateway.pulsar.test_python_client import connected

from penstock import configure
from penstock.clock import ManualClock
from penstock.gateway.pulsar.policies import SubscribeRates
from penstock.testing.server import PORTS, serving
from penstock.wire.pulsar.commands_pb2 import ServerError

NAMESPACE = "/admin/v2/namespaces/public/default"
RETENTION = {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}
HOLD = {"limit": 1, "limitSize": 1, "limitTime": -1, "policy": "producer_request_hold"}
AGE = {"limit": -1, "limitSize": -1, "limitTime": 60, "policy": "consumer_backlog_eviction"}

OF_BOTH = [
    ("retention", RETENTION),
    ("subscribeRate", {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 10}),
    ("delayedDelivery", {"tickTime": 1000, "active": False, "maxDeliveryDelayInMillis": 7}),
    ("maxConsumersPerSubscription", 3),
    ("maxSubscriptionsPerTopic", 4),
    ("autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False}),
]
OF_TOPIC = [
    *OF_BOTH,
    ("compactionThreshold", 1 << 40),
    ("deduplicationEnabled", True),
    ("maxUnackedMessagesOnConsumer", 5),
    ("maxUnackedMessagesOnSubscription", 6),
    ("maxProducers", 7),
    ("maxConsumers", 8),
    ("maxMessageSize", 9),
]
OF_NAMESPACE = [
    *OF_BOTH,
    ("messageTTL", 60),
    ("deduplication", True),
    ("maxUnackedMessagesPerConsumer", 5),
    ("maxUnackedMessagesPerSubscription", 6),
    ("maxProducersPerTopic", 7),
    ("maxConsumersPerTopic", 8),
    ("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}),
]


# --- told as they were set --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), OF_TOPIC, ids=lambda each: str(each))
async def test_a_policy_of_a_topic_comes_and_goes(http, name, value):
    await http.topic("PUT", "orders")
    assert (await http.topic("GET", "orders", f"/{name}")).status == 204
    assert (await http.topic("POST", "orders", f"/{name}", value)).status == 204
    assert await http.of("orders", f"/{name}") == await http.of("orders", f"/{name}?applied=true") == value
    assert (await http.topic("DELETE", "orders", f"/{name}")).status == 204
    assert (await http.topic("GET", "orders", f"/{name}")).status == 204


@pytest.mark.parametrize(("name", "value"), OF_NAMESPACE, ids=lambda each: str(each))
async def test_a_policy_of_a_namespace_comes_and_goes(http, name, value):
    assert (await http("GET", f"{NAMESPACE}/{name}")).status == 204
    assert (await http("POST", f"{NAMESPACE}/{name}", value)).status == 204
    assert (await http("GET", f"{NAMESPACE}/{name}")).json == value
    assert (await http("DELETE", f"{NAMESPACE}/{name}")).status == 204
    assert (await http("GET", f"{NAMESPACE}/{name}")).status == 204


async def test_a_topics_own_goes_before_its_namespaces(http):
    await http.topic("PUT", "orders", "/partitions", 2)
    assert await http.of("orders", "/retention?applied=true") == {
        "retentionTimeInMinutes": 72 * 60,
        "retentionSizeInMB": -1,
    }
    assert await http.of("orders", "/messageTTL?applied=true") == 0
    await http("POST", f"{NAMESPACE}/messageTTL", 60)
    assert await http.of("orders", "/messageTTL?applied=true") == 60
    assert (await http.topic("POST", "orders", "/messageTTL?messageTTL=30")).status == 204
    assert await http.of("orders-partition-1", "/messageTTL") == 30
    assert await http.of("orders", "/maxUnackedMessagesOnConsumer?applied=true") == 50_000
    assert (await http.topic("GET", "nothing", "/messageTTL")).status == 404
    assert (await http("GET", "/admin/v2/namespaces/public/nothing/messageTTL")).status == 404


async def test_quotas_are_a_map(http):
    await http.topic("PUT", "orders")
    assert await http.of("orders", "/backlogQuotaMap") == {}
    for path in ("/admin/v2/persistent/public/default/orders", NAMESPACE):
        size = {"limitSize": 1, "policy": "producer_request_hold"}
        assert (await http("POST", f"{path}/backlogQuota", size)).status == 204
        age = {"limitTime": 60, "policy": "consumer_backlog_eviction"}
        assert (await http("POST", f"{path}/backlogQuota?backlogQuotaType=message_age", age)).status == 204
        both = {"destination_storage": HOLD, "message_age": AGE}
        assert (await http("GET", f"{path}/backlogQuotaMap")).json == both
        assert (await http("DELETE", f"{path}/backlogQuota?backlogQuotaType=message_age")).status == 204
        assert (await http("GET", f"{path}/backlogQuotaMap")).json == {"destination_storage": HOLD}
        assert (await http("POST", f"{path}/backlogQuota?backlogQuotaType=other", size)).status == 412
        assert (await http("POST", f"{path}/backlogQuota", {"policy": "other"})).status == 412
    await http.topic("DELETE", "orders", "/backlogQuota")
    applied = await http.of("orders", "/backlogQuotaMap?applied=true")
    assert applied == {"destination_storage": HOLD}
    assert (await http.of("orders", "/stats"))["backlogQuotaLimitSize"] == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5}),
        ("retention", {"retentionTimeInMinutes": -2, "retentionSizeInMB": 5}),
        ("retention", 5),
        ("messageTTL", -1),
        ("messageTTL", "soon"),
        ("messageTTL", None),
        ("deduplicationEnabled", "yes"),
        ("maxProducers", 1 << 60),
        ("subscribeRate", {"ratePeriodInSecond": 0}),
        ("delayedDelivery", {"tickTime": "x"}),
    ],
)
async def test_what_is_no_policy_is_refused(http, name, value):
    await http.topic("PUT", "orders")
    refused = await http.topic("POST", "orders", f"/{name}", value)
    assert (refused.status, len(refused.reason) > 10) == (412, True)
    assert (await http.topic("GET", "orders", f"/{name}")).status == 204


@pytest.mark.parametrize("partitions", [None, 0, 2_000])
async def test_topics_cannot_be_made_with_such_numbers_of_partitions(http, partitions):
    creation = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": partitions}
    assert (await http("POST", f"{NAMESPACE}/autoTopicCreation", creation)).status == 412
    assert (await http("POST", f"{NAMESPACE}/autoTopicCreation", {"topicType": "other"})).status == 412


async def test_what_holds_here_is_told_and_cannot_be_set(http):
    await http.topic("PUT", "orders")
    assert (await http.of("orders", "/persistence?applied=true"))["bookkeeperEnsemble"] == 1
    assert (await http.topic("GET", "orders", "/persistence")).status == 204
    assert (await http("GET", f"{NAMESPACE}/subscriptionTypesEnabled")).json[1] == "Shared"
    assert (await http("GET", f"{NAMESPACE}/publishRate")).status == 204
    assert (await http("POST", f"{NAMESPACE}/publishRate", {})).status == 405


async def test_a_namespace_is_made_with_policies_and_tells_them(http):
    policies = {
        "message_ttl_in_seconds": 60,
        "retention_policies": RETENTION,
        "backlog_quota_map": {"destination_storage": HOLD},
        "deduplicationEnabled": None,
        "clusterSubscribeRate": {
            "standalone": {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 10},
        },
    }
    path = "/admin/v2/namespaces/public/n"
    assert (await http("PUT", path, {"message_ttl_in_seconds": -5})).status == 412
    assert (await http("GET", path)).status == 404
    assert (await http("PUT", path, policies)).status == 204
    told = (await http("GET", path)).json
    assert {name: told.get(name) for name in policies} == policies
    await http("DELETE", path)
    await http("PUT", path)
    assert (await http("GET", f"{path}/messageTTL")).status == 204


async def test_policies_survive_a_restart(tmp_path):
    config = configure.load(None, {}, {"server": {"data": str(tmp_path), **dict.fromkeys(PORTS, 0)}})
    async with serving(config) as penstock:
        http = Caller(penstock)
        await http.topic("PUT", "orders")
        await http.topic("POST", "orders", "/retention", RETENTION)
        await http("POST", f"{NAMESPACE}/messageTTL", 60)
    async with serving(config) as penstock:
        http = Caller(penstock)
        assert await http.of("orders", "/retention") == RETENTION
        assert await http.of("orders", "/messageTTL?applied=true") == 60


async def test_topics_of_rocketmqs_clients_have_their_own_and_none_of_a_namespace(http, penstock):
    policies = penstock.server.broker.policies
    await penstock.server.broker.topics.create("theirs")
    await policies.set_namespace("public/default", {"producers_max": 7, "ttl_s": 9})
    assert (policies.applied("theirs").producers_max, policies.applied("theirs").ttl_s) == (None, None)
    assert (await http.topic("POST", "theirs", "/maxProducers", 1)).status == 204
    assert policies.applied("theirs").producers_max == 1


# --- obeyed -----------------------------------------------------------------------------------------------------------


async def test_producers_above_the_quota_are_told_as_they_know_it(http, client, penstock):
    await client.consumer(TOPIC)
    await client.producer(TOPIC, 1)
    await client.send(one(b"x"), producer_id=1)
    await http.topic("POST", "orders", "/backlogQuota", {"limitSize": 1, "policy": "producer_exception"})
    penstock.server.broker.upkeep.tick()
    assert (await client.next("close_producer")).producer_id == 1
    assert (await client.refused(TOPIC, 2)).error == ServerError.ProducerBlockedQuotaExceededException
    await http.topic("POST", "orders", "/backlogQuota", {"limitSize": 1, "policy": "producer_request_hold"})
    assert (await client.refused(TOPIC, 2)).error == ServerError.ProducerBlockedQuotaExceededError
    queue = penstock.server.broker.topics.get("orders").queue(0)
    client.ack(queue, 0)
    await client.settled()
    await client.producer(TOPIC, 2)


async def test_pulsars_client_understands_the_quota(penstock, http, tmp_path):
    def produce():
        with connected(penstock, tmp_path) as client:
            client.subscribe("orders", "s")
            client.create_producer("orders").send(b"x")
            quota = {"limitSize": 1, "policy": "producer_exception"}
            asyncio.run_coroutine_threadsafe(http.topic("POST", "orders", "/backlogQuota", quota), loop).result()
            with pytest.raises(pulsar.ProducerBlockedQuotaExceededException):
                client.create_producer("orders")

    loop = asyncio.get_running_loop()
    await asyncio.to_thread(produce)


async def test_what_is_too_old_is_not_delivered(http, client, penstock):
    await client.consumer(TOPIC, subType=Shared)
    await publish(client, 3)
    await http("POST", f"{NAMESPACE}/messageTTL", 60)
    broker = penstock.server.broker
    broker.upkeep._clock = ManualClock(broker._clock.now_ms() + 61_000)
    broker.upkeep.tick()
    client.flow(10)
    await publish(client, 1)
    assert await client.entries(1) == [3]
    assert (await http.of("orders", "/stats"))["subscriptions"]["s"]["msgBacklog"] == 1


async def test_deduplication_is_switched_on_and_off_for_those_who_are_there(http, client):
    await client.producer(TOPIC, producer_name="p")
    for expected in (0, 1):
        assert (await client.send(one(b"x", 5, name="p"), 5)).message_id.entryId == expected
    await http.topic("POST", "orders", "/deduplicationEnabled", True)
    assert (await client.send(one(b"x", 5, name="p"), 5)).message_id.entryId == 2
    assert (await client.send(one(b"x", 5, name="p"), 5)).message_id.entryId == 2**64 - 1
    assert (await http.of("orders", "/stats"))["deduplicationStatus"] == "Enabled"
    await http.topic("POST", "orders", "/deduplicationEnabled", False)
    assert (await client.send(one(b"x", 5, name="p"), 5)).message_id.entryId == 3


async def test_s42_the_limits_of_unacknowledged_messages_are_a_policy(http, client):
    await publish(client, 9)
    await http("POST", f"{NAMESPACE}/maxUnackedMessagesPerConsumer", 3)
    await client.consumer(TOPIC, subType=Shared)
    client.flow(10)
    assert await client.entries(3) == [0, 1, 2]
    await client.settled()
    assert client.none_of("message")
    (consumer,) = (await http.of("orders", "/stats"))["subscriptions"]["s"]["consumers"]
    assert consumer["blockedConsumerOnUnackedMsgs"]
    assert "3 unacknowledged messages, the limit is 3" in consumer["heldBackBecause"]
    client.flow(7)
    await client.settled()
    (consumer,) = (await http.of("orders", "/stats"))["subscriptions"]["s"]["consumers"]
    assert (consumer["availablePermits"], consumer["keptPermits"]) == (7, 7)
    await http("POST", f"{NAMESPACE}/maxUnackedMessagesPerConsumer", 0)
    assert await client.entries(6) == [3, 4, 5, 6, 7, 8]


async def test_s42_so_is_that_of_a_whole_subscription(http, client):
    queue = await publish(client, 9)
    await http("POST", f"{NAMESPACE}/maxUnackedMessagesPerSubscription", 5)
    await client.consumer(TOPIC, subType=Shared)
    client.flow(20)
    assert await client.entries(5) == [0, 1, 2, 3, 4]
    await client.settled()
    assert client.none_of("message")
    subscription = (await http.of("orders", "/stats"))["subscriptions"]["s"]
    assert subscription["blockedSubscriptionOnUnackedMsgs"]
    assert subscription["consumers"][0]["availablePermits"] == 15
    assert "the limit is 5" in subscription["consumers"][0]["heldBackBecause"]
    client.ack(queue, 0, 1, 2, 3)
    assert await client.entries(4) == [5, 6, 7, 8]
    await http.topic("POST", "orders", "/maxUnackedMessagesOnSubscription", 0)
    await publish(client, 2)
    assert await client.entries(2) == [9, 10]


async def test_s37_a_consumer_may_not_subscribe_too_often(http, client):
    await http("POST", f"{NAMESPACE}/subscribeRate", {"subscribeThrottlingRatePerConsumer": 2})
    for _ in range(2):
        await client.consumer(TOPIC, consumer_name="c")
        await client.close_consumer()
    error = await client.not_a_consumer(TOPIC, consumer_name="c")
    assert (error.error, "subscribe rate" in error.message) == (ServerError.NotAllowedError, True)
    await client.consumer(TOPIC, consumer_name="another")


async def test_s37_with_the_next_period_it_may_come_again(penstock, http):
    await http("POST", f"{NAMESPACE}/subscribeRate", {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 5})
    clock = ManualClock()
    rates = SubscribeRates(penstock.server.broker.policies, clock)
    comer = ("orders", "127.0.0.1", "c", 0)
    rates.check(comer)
    for wait_ms in (0, 4_999):
        clock.advance(wait_ms)
        with pytest.raises(Exception, match="subscribe rate"):
            rates.check(comer)
    clock.advance(1)
    rates.check(comer)


async def test_there_is_an_end_to_consumers_and_subscriptions(http, client):
    await client.consumer(TOPIC, subType=Shared)
    await http.topic("POST", "orders", "/maxSubscriptionsPerTopic", 1)
    assert (await client.not_a_consumer(TOPIC, "t", 1)).error == ServerError.NotAllowedError
    await client.consumer(TOPIC, "reader", 2, durable=False)
    refused = await http.topic("PUT", "orders", "/subscription/t", "earliest")
    assert (refused.status, "maximum number of subscriptions" in refused.reason) == (405, True)
    assert (await client.refused(TOPIC, initial_subscription_name="t")).error == ServerError.NotAllowedError
    assert await http.of("orders", "/subscriptions") == ["reader", "s"]
    await http.topic("POST", "orders", "/maxConsumersPerSubscription", 1)
    error = await client.not_a_consumer(TOPIC, consumer_id=3, subType=Shared)
    assert (error.error, "Subscription reached max consumers" in error.message) == (ServerError.ConsumerBusy, True)
    await http.topic("POST", "orders", "/maxConsumersPerSubscription", 0)
    await http.topic("POST", "orders", "/maxConsumers", 2)
    error = await client.not_a_consumer(TOPIC, consumer_id=4, subType=Shared)
    assert (error.error, "Topic reached max consumers" in error.message) == (ServerError.ConsumerBusy, True)


async def test_messages_that_are_too_large_or_too_late_by_policy(http, client):
    await client.producer(TOPIC)
    await http.topic("POST", "orders", "/maxMessageSize", 200)
    await http.topic("POST", "orders", "/delayedDelivery", {"maxDeliveryDelayInMillis": 1_000})
    await client.send(one(b"x", deliver_at_time=1_700_000_001_000))
    client.send_later(one(b"x", deliver_at_time=1_700_000_001_001), 1)
    client.send_later(one(b"x" * 200), 2)
    errors = [await client.next("send_error"), await client.next("send_error")]
    assert {error.error for error in errors} == {ServerError.NotAllowedError}


async def test_delays_that_are_switched_off_are_passed_over(http, client):
    await http("POST", f"{NAMESPACE}/delayedDelivery", {"active": False})
    await client.consumer(TOPIC, subType=Shared)
    client.flow(10)
    await client.producer(TOPIC)
    await client.send(one(b"x", deliver_at_time=4_000_000_000_000))
    assert await client.entries(1) == [0]


async def test_whether_clients_make_topics_and_subscriptions_is_a_policy(http, client):
    creation = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
    await http("POST", f"{NAMESPACE}/autoTopicCreation", creation)
    assert (await client.partitions("persistent://public/default/parts")).partitions == 3
    await http("POST", f"{NAMESPACE}/autoTopicCreation", {"allowAutoTopicCreation": False})
    assert (await client.refused(TOPIC)).error == ServerError.TopicNotFound
    await http.topic("PUT", "orders")
    await http.topic("POST", "orders", "/autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    assert (await client.not_a_consumer(TOPIC)).error == ServerError.SubscriptionNotFound
    await http.topic("PUT", "other")
    await client.consumer("persistent://public/default/other", consumer_id=1)


async def test_policies_hold_on_a_connection_of_their_own(penstock, http):
    """What is set while nobody is there is found by whoever comes."""
    await http("POST", f"{NAMESPACE}/maxProducersPerTopic", 1)
    async with client_of(penstock) as client:
        await client.producer(TOPIC, 1)
        assert (await client.refused(TOPIC, 2)).error == ServerError.ProducerBusy
