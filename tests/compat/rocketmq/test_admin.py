"""mqadmin, of both versions: what an operator types, and what it prints."""

import re

import pytest
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5
from tests.compat.rocketmq.toolchain import CLIENT_4, CLIENT_5

FAILED = "Exception"


def rows(printed: str) -> list[list[str]]:
    """The table that a command printed, without its heading."""
    return [line.split() for line in printed.splitlines() if line.strip() and not line.startswith("#")]


@pytest.fixture
def address(mqadmin, new_topic) -> str:
    """The broker's address, as the route says it."""
    return re.search(r'"(\d+\.\d+\.\d+\.\d+:\d+)"', mqadmin("topicRoute", "-t", new_topic()))[1]


def test_cluster_list(mqadmin, broker):
    if broker.kind != "penstock" and mqadmin.version == CLIENT_4:
        pytest.skip("RocketMQ 5.5.0 has renamed getTransferedTps: the older tool prints a stack trace")
    printed = mqadmin("clusterList")
    assert FAILED not in printed
    assert [row[0] for row in rows(printed)] == ["DefaultCluster"]
    assert rows(printed)[0][2] == "0"


def test_topic_list_and_route(mqadmin, new_topic):
    topic = new_topic(queues=3)
    assert topic in mqadmin("topicList").split()
    route = re.sub(r"\s", "", mqadmin("topicRoute", "-t", topic))
    assert '"readQueueNums":3' in route
    assert '"writeQueueNums":3' in route
    assert '"perm":6' in route
    assert "CODE: 17" in mqadmin("topicRoute", "-t", f"{topic}-not")


def test_a_topic_with_an_order_of_its_queues(mqadmin, address, name):
    topic = name("ordered")
    printed = mqadmin("updateTopic", "-b", address, "-t", topic, "-r", "2", "-w", "2", "-o", "true")
    assert "isOrder=true" in printed
    assert "CODE: 3" not in printed  # that there was none before, the tool prints as a failure
    assert FAILED not in mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", topic)


def test_topics_of_a_cluster_with_their_groups(mqadmin, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 4)
    with use(GO).push(topic, group) as consumer:
        consumer.take(4)
    assert ["DefaultCluster", topic, group] in rows(mqadmin("topicList", "-c"))


def test_topic_status_counts_messages(mqadmin, use, new_topic):
    topic = new_topic()
    use(GO).produce(topic, 12)
    table = [row for row in rows(mqadmin("topicStatus", "-t", topic)) if row[0] != "Topic"]
    assert [row[1] for row in table] == ["0", "1", "2", "3"]
    assert {row[2] for row in table} == {"0"}
    assert sum(int(row[3]) for row in table) == 12


def test_update_topic_changes_it(mqadmin, new_topic):
    topic = new_topic(queues=2)
    printed = mqadmin("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "6", "-w", "6", "-p", "4")
    assert "success" in printed
    route = re.sub(r"\s", "", mqadmin("topicRoute", "-t", topic))
    assert '"readQueueNums":6' in route
    assert '"perm":4' in route


def test_delete_topic(mqadmin, new_topic):
    topic = new_topic()
    printed = mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", topic)
    assert printed.count("success") == 2
    assert topic not in mqadmin("topicList").split()


def test_consumer_progress(mqadmin, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 8)
    with use(GO).push(topic, group) as consumer:
        consumer.take(8)
    use(GO).produce(topic, 4)
    printed = mqadmin("consumerProgress", "-g", group)
    table = [row for row in rows(printed) if row[0] == topic]
    assert [(row[2], row[3], row[4], row[5]) for row in table] == [(str(queue), "3", "2", "1") for queue in range(4)]
    assert re.search(r"Diff Total: 4\b", printed)
    assert next(row for row in rows(mqadmin("consumerProgress")) if row[0] == group)[1:3] == ["0", "OFFLINE"]


def test_consumer_connection_and_status(mqadmin, use, new_topic, group):
    topic = new_topic()
    with use(JAVA_5).push(topic, group, "--instance", "watched"):
        printed = mqadmin("consumerConnection", "-g", group)
        status = mqadmin("consumerStatus", "-g", group)
    assert [row[0].rsplit("@")[1] for row in rows(printed) if "@" in row[0]] == ["watched"]
    assert re.search(rf"^\S*: {topic} +(\S+: )?\*", printed, re.MULTILINE) or [topic, "*"] in rows(printed)
    assert "CONSUME_PASSIVELY" in printed
    assert "CLUSTERING" in printed
    assert "@watched" in status
    assert FAILED not in status


def test_a_group_that_is_not_online(mqadmin, use, new_topic, group):
    topic = new_topic()
    with use(GO).push(topic, group):
        pass
    assert "CODE: 206" in mqadmin("consumerConnection", "-g", group)


def test_producer_connection(mqadmin, use, new_topic, group, name):
    """A Java consumer has a producer inside, for retries: it is one that stays for as long as it is looked at."""
    topic = new_topic()
    with use(JAVA_5).push(topic, group, "--instance", name("watched")):
        printed = mqadmin("producerConnection", "-g", "CLIENT_INNER_PRODUCER", "-t", topic)
    assert name("watched") in printed
    assert re.search(r"JAVA +V5_5_0", printed)
    assert "CODE: 1 " in mqadmin("producerConnection", "-g", name("nobody"), "-t", topic)


def test_subscription_groups(mqadmin, group):
    assert "success" in mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", group)
    assert "success" in mqadmin("deleteSubGroup", "-c", "DefaultCluster", "-g", group)


def test_a_group_that_is_set_not_to_consume_waits_until_it_may(mqadmin, use, new_topic, group):
    topic, of_group = new_topic(), ("-c", "DefaultCluster", "-g", group)
    assert "success" in mqadmin("updateSubGroup", *of_group, "-s", "false")
    use(GO).produce(topic, 4)
    with use(JAVA_5).push(topic, group) as consumer:
        assert not consumer.waiting(within_s=2)
        assert "success" in mqadmin("updateSubGroup", *of_group, "-s", "true", "-q", "2")
        assert len(consumer.take(4)) == 4
    assert not consumer.rest


def test_broker_status_and_config(mqadmin, address):
    status = dict(re.findall(r"(\S+) *: (.*)", mqadmin("brokerStatus", "-b", address)))
    assert {"brokerVersionDesc", "bootTimestamp", "putTps", "commitLogDiskRatio"} <= status.keys()
    assert "brokerName" in mqadmin("getBrokerConfig", "-b", address)


def test_messages_are_found_again(mqadmin, use, new_topic):
    topic = new_topic()
    sent = use(JAVA_5).produce(topic, 5, "--keys", "--tags", "red", "--label", topic)[3]
    of_topic = ("-t", topic) if mqadmin.version == CLIENT_5 else ()  # the older tool does not know the option
    by_key = mqadmin("queryMsgByKey", "-t", topic, "-k", f"key-{topic}-3")
    assert [[sent["msgId"], str(sent["queueId"]), str(sent["queueOffset"])]] == [row[:3] for row in rows(by_key)]
    if mqadmin.version == CLIENT_5:
        by_tag = mqadmin("queryMsgByKey", "-t", topic, "-p", "T", "-k", "red")
        assert len(rows(by_tag)) == 5
    by_unique_key = mqadmin("queryMsgByUniqueKey", "-t", topic, "-i", sent["msgId"])
    by_id = mqadmin("queryMsgById", *of_topic, "-i", sent["offsetMsgId"])
    place = ("-i", str(sent["queueId"]), "-o", str(sent["queueOffset"]))
    by_offset = mqadmin("queryMsgByOffset", "-t", topic, "-b", broker_name(mqadmin, topic), *place)
    for printed in (by_id, by_offset, by_unique_key):
        assert f"Keys:                [key-{topic}-3]" in printed
        assert "Tags:                [red]" in printed
    assert f"OffsetID:            {sent['offsetMsgId']}" in by_id
    assert FAILED not in by_unique_key


def test_a_message_is_consumed_by_one_client_by_hand(mqadmin, use, new_topic, group, name):
    topic = new_topic()
    sent = use(JAVA_5).produce(topic, 3)[1]
    of_topic = ("-t", topic) if mqadmin.version == CLIENT_5 else ()
    with use(JAVA_5).push(topic, group, "--instance", name("by-hand")) as consumer:
        consumer.take(3)
        (client_id,) = re.findall(rf"\S+@{name('by-hand')}\S*", mqadmin("consumerConnection", "-g", group))
        printed = mqadmin("queryMsgById", *of_topic, "-i", sent["offsetMsgId"], "-g", group, "-d", client_id)
        assert "consumeResult=CR_SUCCESS" in printed
        assert consumer.take(1)[0]["msgId"] == sent["msgId"]
    assert not consumer.rest


def test_settings_of_a_running_broker_are_not_changed(mqadmin, address, broker):
    if broker.kind != "penstock":
        pytest.skip("RocketMQ changes them")
    printed = mqadmin("updateBrokerConfig", "-b", address, "-k", "fileReservedTime", "-v", "1")
    assert "configuration file" in printed


def test_how_far_all_groups_of_a_broker_are(mqadmin, use, new_topic, group, address):
    topic = new_topic()
    use(GO).produce(topic, 4)
    with use(GO).push(topic, group) as consumer:
        consumer.take(4)
    use(GO).produce(topic, 4)
    table = [row for row in rows(mqadmin("brokerConsumeStats", "-b", address)) if row[:2] == [topic, group]]
    assert [row[4:7] for row in table] == [["2", "1", "1"]] * 4


def broker_name(mqadmin, topic):
    return re.search(r'"brokerName":"([^"]+)"', mqadmin("topicRoute", "-t", topic))[1]


def test_messages_are_printed(mqadmin, use, new_topic):
    topic = new_topic()
    use(GO).produce(topic, 6, "--label", topic)
    printed = mqadmin("printMsg", "-t", topic)
    assert sorted(re.findall(rf"BODY: ({topic}-\d)", printed)) == [f"{topic}-{number}" for number in range(6)]


def test_send_and_consume_by_hand(mqadmin, new_topic):
    topic = new_topic()
    assert "SEND_OK" in mqadmin("sendMessage", "-t", topic, "-p", "by-hand", "-k", "key", "-c", "tag")
    printed = mqadmin("consumeMessage", "-t", topic)
    assert "Consume ok" in printed
    assert re.findall(r"BODY: (\S+)", printed) == ["by-hand"]


def test_stats_of_all(mqadmin, use, new_topic, group, broker):
    topic = new_topic()
    use(GO).produce(topic, 4)
    with use(GO).push(topic, group) as consumer:
        consumer.take(4)
    (row,) = [row for row in rows(mqadmin("statsAll", "-t", topic)) if row[0] == topic]
    assert row[1:3] == [group, "0"]
    if broker.kind == "penstock":  # the real one counts some seconds later
        (active,) = [row for row in rows(mqadmin("statsAll", "-a", "-t", topic)) if row[0] == topic]
        assert row[-2:] == active[-2:] == ["4", "4"]


def test_reset_to_the_beginning_delivers_again(mqadmin, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 8)
    with use(GO).push(topic, group) as consumer:
        consumer.take(8)
    printed = mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert [row[2] for row in rows(printed) if len(row) == 3] == ["0"] * 4
    with use(GO).push(topic, group) as consumer:
        assert len({line["body"] for line in consumer.take(8)}) == 8


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)
def test_resets_in_a_row_reach_a_consumer_that_is_there(admin, use, new_topic, group, client):
    """Java's newer client gave up its connection over the second one, and half of the queues stood still."""
    topic = new_topic()
    use(GO).produce(topic, 8)
    with use(client).push(topic, group) as consumer:
        first = {line["body"] for line in consumer.take(8)}
        for when in ("0", "now", "0"):
            while "not exist" in admin("resetOffsetByTime", "-g", group, "-t", topic, "-s", when):
                pass  # until it has told its first offset: that takes a client some seconds
        again: set[str] = set()
        while len(again) < 8:  # a copy that was on its way before the last reset may come too
            again |= {line["body"] for line in consumer.take(1)}
        assert again == first


def test_skip_what_has_piled_up(mqadmin, use, new_topic, group):
    topic = new_topic()
    with use(GO).push(topic, group):
        pass
    use(GO).produce(topic, 8)
    printed = mqadmin("skipAccumulatedMessage", "-g", group, "-t", topic)
    assert [row[2] for row in rows(printed) if len(row) == 3] == ["2"] * 4
    use(GO).produce(topic, 4, "--label", "after")
    with use(GO).push(topic, group) as consumer:
        assert {line["body"].split("-")[0] for line in consumer.take(4)} == {"after"}
    assert not consumer.rest


def test_offsets_are_cloned_to_another_group(mqadmin, use, new_topic, group):
    topic, other = new_topic(), f"{group}-other"
    use(GO).produce(topic, 8)
    with use(GO).push(topic, group) as consumer:
        consumer.take(8)
    mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", other)
    assert "success" in mqadmin("cloneGroupOffset", "-s", group, "-d", other, "-t", topic, "-o", "true")
    use(GO).produce(topic, 4, "--label", "after")
    with use(GO).push(topic, other) as consumer:
        assert {line["body"].split("-")[0] for line in consumer.take(4)} == {"after"}
    assert not consumer.rest


def test_an_unknown_command_of_the_broker_is_answered(mqadmin, address):
    """Whether it serves that request or not, it answers, and the next command goes on."""
    assert mqadmin("brokerConsumeStats", "-b", address)
    assert mqadmin("topicList")
