"""Java's admin client, that pulsar-admin is made of, on the HTTP side."""

import time

import pytest
from tests.compat.pulsar.drivers import Told
from tests.compat.pulsar.stories import numbers, only, publish

JAVA = only("java")  # where messages are needed: one client is enough


def full(topic):
    return f"persistent://public/default/{topic}"


def refused(status):
    """With HTTP's status."""
    return pytest.raises(Told, check=lambda told: told.status == status)


# --- cluster, tenants, namespaces -------------------------------------------------------------------------------------


def test_the_cluster_and_its_broker(admin):
    assert admin("clusters.getClusters") == ["standalone"]
    assert admin("clusters.getCluster", "standalone")["brokerServiceUrl"].startswith("pulsar://")
    assert len(admin("brokers.getActiveBrokers", "standalone")) == 1
    assert admin("brokers.getLeaderBroker")["serviceUrl"].startswith("http://")
    admin("brokers.healthcheck")
    assert admin("brokers.getVersion")


def test_tenants_and_namespaces(admin, name):
    tenant = name("tenant")
    admin("tenants.createTenant", tenant, {"adminRoles": ["a"], "allowedClusters": ["standalone"]})
    assert tenant in admin("tenants.getTenants")
    assert admin("tenants.getTenantInfo", tenant)["adminRoles"] == ["a"]
    admin("tenants.updateTenant", tenant, {"adminRoles": ["b"], "allowedClusters": ["standalone"]})
    assert admin("tenants.getTenantInfo", tenant)["adminRoles"] == ["b"]
    admin("namespaces.createNamespace", f"{tenant}/n")
    assert admin("namespaces.getNamespaces", tenant) == [f"{tenant}/n"]
    assert admin("namespaces.getPolicies", f"{tenant}/n")["replication_clusters"] == ["standalone"]
    assert admin("namespaces.getBundles", f"{tenant}/n")["numBundles"] == 1
    with refused(409):
        admin("namespaces.createNamespace", f"{tenant}/n")
    with refused(409):
        admin("tenants.deleteTenant", tenant)  # it is not empty
    admin("namespaces.deleteNamespace", f"{tenant}/n")
    admin("tenants.deleteTenant", tenant)
    assert tenant not in admin("tenants.getTenants")
    with refused(404):
        admin("namespaces.getPolicies", f"{tenant}/n")


# --- topics -----------------------------------------------------------------------------------------------------------


def test_topics_are_made_listed_and_deleted(admin, topic):
    admin("topics.createNonPartitionedTopic", full(topic))
    assert full(topic) in admin("topics.getList", "public/default")
    assert admin("topics.getPartitionedTopicMetadata", full(topic))["partitions"] == 0
    with refused(409):
        admin("topics.createNonPartitionedTopic", full(topic))
    admin("topics.delete", full(topic))
    assert full(topic) not in admin("topics.getList", "public/default")
    with refused(404):
        admin("topics.getStats", full(topic))


def test_topics_with_partitions(admin, topic):
    admin("topics.createPartitionedTopic", full(topic), 2)
    assert full(topic) in admin("topics.getPartitionedTopicList", "public/default")
    admin("topics.updatePartitionedTopic", full(topic), 4)
    assert admin("topics.getPartitionedTopicMetadata", full(topic))["partitions"] == 4
    partitions = [f"{full(topic)}-partition-{index}" for index in range(4)]
    assert set(partitions) <= set(admin("topics.getList", "public/default"))
    assert sorted(admin("topics.getPartitionedStats", full(topic), True)["partitions"]) == partitions
    admin("topics.createMissedPartitions", full(topic))
    admin("topics.deletePartitionedTopic", full(topic))
    assert not set(partitions) & set(admin("topics.getList", "public/default"))


def test_where_a_topic_is(admin, penstock, topic):
    assert admin("lookups.lookupTopic", full(topic)) == f"pulsar://{penstock.addresses['pulsar']}"
    assert admin("lookups.getBundleRange", full(topic))


@JAVA
def test_figures_of_a_topic_in_use(admin, client, topic):
    producer = client.producer(topic, name="writer")
    consumer = client.subscribe(topic, "s", type="Shared", name="reader")
    producer.send(*numbers(5))
    consumer.ack(*consumer.receive(5)[:2])
    stats = admin("topics.getStats", full(topic))
    assert (stats["msgInCounter"], [each["producerName"] for each in stats["publishers"]]) == (5, ["writer"])
    of_one = stats["subscriptions"]["s"]
    assert (of_one["msgBacklog"], of_one["type"], of_one["unackedMessages"]) == (3, "Shared", 3)
    assert [each["consumerName"] for each in of_one["consumers"]] == ["reader"]
    inside = admin("topics.getInternalStats", full(topic))
    assert (inside["numberOfEntries"], len(inside["ledgers"])) == (5, 1)
    assert inside["cursors"]["s"]["markDeletePosition"] == f"{inside['ledgers'][0]['ledgerId']}:1"
    with refused(412):
        admin("topics.delete", full(topic))  # somebody uses it
    admin("topics.delete", full(topic), True)


@JAVA
def test_figures_of_partitions(admin, client, topic):
    admin("topics.createPartitionedTopic", full(topic), 2)
    client.subscribe(topic, "s")
    publish(client, topic, numbers(10))
    stats = admin("topics.getPartitionedStats", full(topic), True)
    assert (stats["msgInCounter"], stats["subscriptions"]["s"]["msgBacklog"]) == (10, 10)
    assert sum(each["msgInCounter"] for each in stats["partitions"].values()) == 10
    inside = admin("topics.getPartitionedInternalStats", full(topic))
    assert sum(each["numberOfEntries"] for each in inside["partitions"].values()) == 10


@JAVA
def test_a_topic_is_unloaded_and_its_consumers_come_back(admin, client, topic):
    consumer = client.subscribe(topic, "s")
    publish(client, topic, ["before"])
    assert consumer.bodies(1) == ["before"]
    admin("topics.unload", full(topic))
    publish(client, topic, ["after"])
    assert consumer.bodies(1) == ["after"]


@JAVA
def test_a_namespace_is_unloaded_and_its_consumers_come_back(admin, client, name, topic):
    namespace = f"public/{name('namespace')}"
    admin("namespaces.createNamespace", namespace)
    there = f"persistent://{namespace}/{topic}"
    consumer = client.subscribe(there, "s")
    producer = client.producer(there)
    producer.send("before")
    assert consumer.bodies(1) == ["before"]
    admin("namespaces.unload", namespace)
    first, second, *_ = admin("namespaces.getBundles", namespace)["boundaries"]
    admin("namespaces.unloadNamespaceBundle", namespace, f"{first}_{second}")
    producer.send("after")
    assert consumer.bodies(1) == ["after"]


@JAVA
def test_a_topic_is_terminated(admin, client, topic):
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbers(3))
    assert admin("topics.terminateTopic", full(topic))["entry"] == 2
    with pytest.raises(Told, match="Terminated"):
        client.producer(topic)
    assert consumer.bodies(3) == numbers(3)


# --- subscriptions ----------------------------------------------------------------------------------------------------


@JAVA
def test_subscriptions_are_made_and_deleted(admin, client, topic):
    ids = publish(client, topic, numbers(5))
    admin("topics.createSubscription", full(topic), "all", "earliest")
    admin("topics.createSubscription", full(topic), "none", "latest")
    admin("topics.createSubscription", full(topic), "some", ids[3])
    assert sorted(admin("topics.getSubscriptions", full(topic))) == ["all", "none", "some"]
    assert client.subscribe(topic, "all").bodies(5) == numbers(5)
    assert client.subscribe(topic, "none").nothing()
    some = client.subscribe(topic, "some")
    assert some.bodies(1) == ["3"]
    with refused(412):
        admin("topics.deleteSubscription", full(topic), "some")
    some.close()
    admin("topics.deleteSubscription", full(topic), "some")
    assert sorted(admin("topics.getSubscriptions", full(topic))) == ["all", "none"]
    with refused(404):
        admin("topics.skipAllMessages", full(topic), "some")


@pytest.fixture
def ten(admin, client, topic):
    """A topic with ten messages and a subscription that has seen none; its name, and the ids."""
    admin("topics.createNonPartitionedTopic", full(topic))
    admin("topics.createSubscription", full(topic), "s", "earliest")
    return publish(client, topic, numbers(10))


def backlog(admin, topic):
    return admin("topics.getStats", full(topic))["subscriptions"]["s"]["msgBacklog"]


@JAVA
def test_messages_are_passed_over(admin, client, topic, ten):
    admin("topics.skipMessages", full(topic), "s", 3)
    assert backlog(admin, topic) == 7
    assert [each["body"] for each in admin("topics.peekMessages", full(topic), "s", 2)] == ["3", "4"]
    admin("topics.skipAllMessages", full(topic), "s")
    assert backlog(admin, topic) == 0


@JAVA
def test_cursors_are_reset_by_id_and_by_time(admin, client, topic, ten):
    consumer = client.subscribe(topic, "s")
    assert consumer.bodies(10) == numbers(10)
    admin("topics.resetCursor", full(topic), "s", ten[6])
    assert consumer.bodies(4) == numbers(4, 6)
    admin("topics.resetCursor", full(topic), "s", ten[6], True)
    assert consumer.bodies(3) == numbers(3, 7)
    admin("topics.resetCursor", full(topic), "s", time.time_ns() // 1_000_000 - 3_600_000)
    assert consumer.bodies(10) == numbers(10)


@JAVA
def test_messages_expire_up_to_one(admin, client, topic, ten):
    admin("topics.expireMessages", full(topic), "s", ten[4], False)
    assert backlog(admin, topic) == 5
    admin("topics.expireMessagesForAllSubscriptions", full(topic), 3_600)
    assert backlog(admin, topic) == 5  # none is that old


@JAVA
def test_messages_are_looked_at(admin, client, topic, ten):
    peeked = admin("topics.peekMessages", full(topic), "s", 3)
    assert [(each["body"], each["key"], each["entry"]) for each in peeked] == [
        ("0", "k0", 0),
        ("1", "k1", 1),
        ("2", "k2", 2),
    ]
    assert admin("topics.getMessagesById", full(topic), ten[4]["ledger"], 4)[0]["body"] == "4"
    assert admin("topics.examineMessage", full(topic), "latest", 1)["body"] == "9"
    assert admin("topics.getLastMessageId", full(topic))["entry"] == 9
    assert admin("topics.getMessageIdByTimestamp", full(topic), 0)["entry"] == 0


@JAVA
def test_a_batch_is_looked_at_message_by_message(admin, client, topic):
    publish(client, topic, numbers(5), batch=True)
    admin("topics.createSubscription", full(topic), "s", "earliest")
    peeked = admin("topics.peekMessages", full(topic), "s", 5)
    assert [(each["body"], each["batch"]) for each in peeked] == [(str(at), at) for at in range(5)]
    assert admin("topics.getLastMessageId", full(topic))["batch"] == 4


# --- what is not served -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["bookies.getBookies", "functions.getFunctions", "transactions.listTransactionCoordinators"]
)
def test_what_is_not_served_is_refused_with_a_reason(admin, method):
    args = ["public", "default"] if method.startswith("functions") else []
    with pytest.raises(Told) as told:
        admin(method, *args)
    assert told.value.status in (404, 405)
    assert told.value.why
