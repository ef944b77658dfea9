"""Policies, termination and compaction, as Java's admin client asks for them and as real clients meet them."""

import pytest
from tests.compat.pulsar.drivers import Told, until
from tests.compat.pulsar.stories import only
from tests.gateway.pulsar.caller import ask

from penstock.testing.server import running

JAVA = only("java")  # where messages are needed
PERSISTENT = "/admin/v2/persistent/public/default"

QUOTA = {"limitSize": 1, "limitTime": -1, "policy": "producer_exception"}
OVERRIDE = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}

# What follows get, set and remove, and a value.
OF_NAMESPACE = [
    ("NamespaceMessageTTL", 60),
    ("Retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}),
    ("DeduplicationStatus", True),
    ("AutoTopicCreation", OVERRIDE),
    ("AutoSubscriptionCreation", {"allowAutoSubscriptionCreation": False}),
    ("SubscribeRate", {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 10}),
    ("MaxUnackedMessagesPerConsumer", 4),
    ("MaxUnackedMessagesPerSubscription", 5),
    ("MaxProducersPerTopic", 6),
    ("MaxConsumersPerTopic", 7),
    ("MaxConsumersPerSubscription", 8),
    ("MaxSubscriptionsPerTopic", 9),
    ("CompactionThreshold", 1 << 40),
]
OF_TOPIC = [
    ("MessageTTL", 60),
    ("Retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}),
    ("DeduplicationStatus", True),
    ("SubscribeRate", {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 10}),
    ("DelayedDeliveryPolicy", {"tickTime": 1000, "active": True, "maxDeliveryDelayInMillis": 7}),
    ("MaxUnackedMessagesOnConsumer", 4),
    ("MaxUnackedMessagesOnSubscription", 5),
    ("MaxProducers", 6),
    ("MaxConsumers", 7),
    ("MaxConsumersPerSubscription", 8),
    ("MaxSubscriptionsPerTopic", 9),
    ("MaxMessageSize", 10),
    ("CompactionThreshold", 1 << 40),
    ("AutoSubscriptionCreation", {"allowAutoSubscriptionCreation": False}),
]
OWN_ONLY = {"MaxConsumersPerSubscription", "MaxSubscriptionsPerTopic", "MaxMessageSize"}  # nobody asks for what holds


def full(topic):
    return f"persistent://public/default/{topic}"


@pytest.fixture
def namespace(admin, name):
    """One of its own: policies of `public/default` would be those of every other test."""
    made = f"public/{name('namespace')}"
    admin("namespaces.createNamespace", made)
    yield made
    admin("namespaces.deleteNamespace", made, True)


@pytest.mark.parametrize(("policy", "value"), OF_NAMESPACE, ids=[policy for policy, _ in OF_NAMESPACE])
def test_a_policy_of_a_namespace(admin, namespace, policy, value):
    assert admin(f"namespaces.get{policy}", namespace) is None
    admin(f"namespaces.set{policy}", namespace, value)
    assert admin(f"namespaces.get{policy}", namespace) == value
    admin(f"namespaces.remove{policy}", namespace)
    assert admin(f"namespaces.get{policy}", namespace) is None


@pytest.mark.parametrize(("policy", "value"), OF_TOPIC, ids=[policy for policy, _ in OF_TOPIC])
def test_a_policy_of_a_topic(admin, topic, policy, value):
    admin("topics.createNonPartitionedTopic", full(topic))
    own = [False] if policy not in OWN_ONLY else []
    assert admin(f"topicPolicies.get{policy}", full(topic), *own) is None
    admin(f"topicPolicies.set{policy}", full(topic), value)
    assert admin(f"topicPolicies.get{policy}", full(topic), *own) == value
    if own:
        assert admin(f"topicPolicies.get{policy}", full(topic), True) == value
    admin(f"topicPolicies.remove{policy}", full(topic))
    assert admin(f"topicPolicies.get{policy}", full(topic), *own) is None


def test_quotas_delays_and_all_policies_together(admin, namespace):
    admin("namespaces.setBacklogQuota", namespace, QUOTA, "destination_storage")
    quotas = admin("namespaces.getBacklogQuotaMap", namespace)
    assert (quotas["destination_storage"]["limitSize"], list(quotas)) == (1, ["destination_storage"])
    delays = {"tickTime": 1000, "active": False, "maxDeliveryDelayInMillis": 0}
    admin("namespaces.setDelayedDeliveryMessages", namespace, delays)
    assert admin("namespaces.getDelayedDelivery", namespace) == delays
    admin("namespaces.setNamespaceMessageTTL", namespace, 60)
    told = admin("namespaces.getPolicies", namespace)
    assert told["message_ttl_in_seconds"] == 60
    assert told["backlog_quota_map"]["destination_storage"]["policy"] == "producer_exception"
    assert told["delayed_delivery_policies"] == delays
    admin("namespaces.removeBacklogQuota", namespace, "destination_storage")
    assert admin("namespaces.getBacklogQuotaMap", namespace) == {}
    assert admin("namespaces.getNamespaceReplicationClusters", namespace) == ["standalone"]
    admin("namespaces.clearNamespaceBacklog", namespace)


def test_what_cannot_be_set_is_told(admin, namespace, topic):
    assert admin("namespaces.getPersistence", namespace)["bookkeeperAckQuorum"] == 1
    assert admin("namespaces.getPublishRate", namespace) is None
    admin("topics.createNonPartitionedTopic", full(topic))
    assert admin("topicPolicies.getPersistence", full(topic), True)["bookkeeperEnsemble"] == 1
    with pytest.raises(Told) as refused:
        admin("namespaces.setPublishRate", namespace, {"publishThrottlingRateInMsg": 1})
    assert refused.value.status == 405


# --- as clients meet them ---------------------------------------------------------------------------------------------


@JAVA
def test_above_its_quota_a_producer_is_refused(admin, open_client, topic):
    client = open_client(patience_s=2)  # it tries again and again
    consumer = client.subscribe(topic, "s")
    client.producer(topic).send("x")
    admin("topicPolicies.setBacklogQuota", full(topic), QUOTA, "destination_storage")
    with pytest.raises(Told) as refused:
        client.producer(topic)
    assert refused.value.error == "ProducerBlockedQuotaExceededException"
    consumer.ack(*consumer.receive(1))
    until(lambda: admin("topics.getStats", full(topic))["subscriptions"]["s"]["msgBacklog"] == 0)
    client.producer(topic).send("y")


@JAVA
def test_above_its_quota_a_producer_waits_until_there_is_room(admin, client, topic):
    consumer = client.subscribe(topic, "s")
    client.producer(topic).send("x")
    held = QUOTA | {"policy": "producer_request_hold"}
    admin("topicPolicies.setBacklogQuota", full(topic), held, "destination_storage")
    producer = client.producer(topic, later=True)
    (message,) = consumer.receive()
    assert not producer.there()
    consumer.ack(message)
    until(producer.there)
    producer.send("y")
    assert consumer.bodies(1) == ["y"]


@only("java", "go")
def test_what_is_older_than_it_may_be_does_not_come(penstock, open_client, topic):
    with running(store={"clean_interval_ms": 100}) as own:
        client = open_client(f"pulsar://{own.addresses['pulsar']}")
        client.subscribe(topic, "s").close()
        client.producer(topic).send("old")
        ask(own.addresses["http"], "POST", f"{PERSISTENT}/{topic}/messageTTL?messageTTL=1")
        stats = f"{PERSISTENT}/{topic}/stats"
        until(lambda: ask(own.addresses["http"], "GET", stats).json["subscriptions"]["s"]["msgBacklog"] == 0)
        client.producer(topic).send("new")
        assert client.subscribe(topic, "s").bodies(1) == ["new"]
        client.close()


@JAVA
def test_s42_who_has_too_many_in_hand_gets_no_more(admin, client, topic):
    client.producer(topic).close()
    admin("topicPolicies.setMaxUnackedMessagesOnConsumer", full(topic), 4)
    consumer = client.subscribe(topic, "s", type="Shared")
    client.producer(topic).send(*[str(number) for number in range(10)])
    got = consumer.receive(4)
    assert consumer.nothing()
    (told,) = admin("topics.getStats", full(topic))["subscriptions"]["s"]["consumers"]
    assert (told["unackedMessages"], told["blockedConsumerOnUnackedMsgs"]) == (4, True)
    consumer.ack(*got[:2])
    assert [message.body for message in consumer.receive(2)] == ["4", "5"]
    assert consumer.nothing()


@JAVA
def test_a_topic_is_terminated(admin, client, topic):
    producer = client.producer(topic)
    producer.send("a", "b")
    last = admin("topics.terminateTopic", full(topic))
    assert last["entry"] == 1
    with pytest.raises(Told) as refused:
        producer.send("c")
    assert "Terminated" in refused.value.error
    consumer = client.subscribe(topic, "s")
    assert consumer.bodies(2) == ["a", "b"]
    until(consumer.ended)


def test_partitions_are_terminated(admin, topic):
    admin("topics.createPartitionedTopic", full(topic), 2)
    assert sorted(admin("topics.terminatePartitionedTopic", full(topic))) == ["0", "1"]


def test_a_topic_is_compacted(admin, client, topic):
    producer = client.producer(topic, batch=True)
    sent = [{"body": f"{number}", "key": f"k{number % 3}"} for number in range(30)]
    producer.send_all(sent)
    assert admin("topics.compactionStatus", full(topic))["status"] == "NOT_RUN"
    admin("topics.triggerCompaction", full(topic))
    until(lambda: admin("topics.compactionStatus", full(topic))["status"] == "SUCCESS")
    producer.send("later", key="k1")
    consumer = client.subscribe(topic, "s", compacted=True)
    assert [message.body for message in consumer.receive(4)] == ["27", "28", "29", "later"]
    reader = client.reader(topic, compacted=True)
    assert reader.all() == ["27", "28", "29", "later"]
    admin("topics.triggerCompaction", full(topic))
    until(lambda: admin("topics.compactionStatus", full(topic))["status"] == "SUCCESS")
    assert client.reader(topic, compacted=True).all() == ["27", "29", "later"]
