"""What operators ask, frame by frame. The tools themselves are in tests/compat."""

import json

import pytest

from penstock.core.notes import VALUE_CHARS_MAX
from penstock.wire.rocketmq.codes import Flag, PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import pack
from penstock.wire.rocketmq.record import message_in

GROUP = "readers"


async def test_what_a_consumer_says_of_itself_is_passed_on(connect):
    operator, consumer = await connect(), await connect()
    await consumer.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    await consumer.pushed.get()  # the notice that the group has changed
    asked = {"consumerGroup": GROUP, "clientId": "a@1", "jstackEnable": "false"}
    waiting = operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
    question = await consumer.pushed.get()
    assert (question.code, question.ext) == (RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
    consumer.answer(question, b"{{odd}:but its own}")
    answer = await waiting
    assert (answer.code, bytes(answer.body)) == (0, b"{{odd}:but its own}")


async def test_the_consumers_own_code_and_remark_are_passed_on(connect):
    """The Go client says in a remark why it has nothing to say."""
    operator, consumer = await connect(), await connect()
    await consumer.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    await consumer.pushed.get()
    waiting = operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": GROUP, "clientId": "a@1"})
    question = await consumer.pushed.get()
    consumer.write(pack(0, question.opaque, Flag.RESPONSE, 409, remark="not a number"))
    answer = await waiting
    assert (answer.code, answer.remark, bytes(answer.body)) == (0, "not a number", b"")


async def test_a_message_is_consumed_by_hand(connect):
    operator, consumer = await connect(), await connect()
    await operator.send("orders", b"first")
    sent = await operator.send("orders", b"second")
    await consumer.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    await consumer.pushed.get()
    asked = {"consumerGroup": GROUP, "clientId": "a@1", "msgId": sent.ext["msgId"], "topic": "orders"}
    waiting = operator.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, asked)
    question = await consumer.pushed.get()
    assert question.code == RequestCode.CONSUME_MESSAGE_DIRECTLY
    assert question.ext == {**asked, "brokerName": "penstock"}
    assert message_in(question.body).body == b"second"
    consumer.answer(question, b'{"consumeResult":"CR_SUCCESS"}')
    assert bytes((await waiting).body) == b'{"consumeResult":"CR_SUCCESS"}'


@pytest.mark.parametrize("number", ["", "7F", "Z" * 32, "F" * 32, "0" * 32])
async def test_an_id_that_is_none_cannot_be_consumed(connect, number):
    operator, consumer = await connect(), await connect()
    await consumer.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    answer = await operator.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": GROUP, "msgId": number})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark


async def test_a_consumer_too_old_to_be_asked(connect):
    operator, consumer = await connect(), await connect()
    body = json.dumps({"clientID": "a@1", "consumerDataSet": [{"groupName": GROUP}]}).encode()
    await consumer.ask(RequestCode.HEART_BEAT, {}, body, version=61)
    answer = await operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": GROUP, "clientId": "a@1"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "too old" in answer.remark


async def test_a_consumer_that_is_gone_before_it_answers(connect):
    operator, consumer = await connect(), await connect()
    await consumer.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    await consumer.pushed.get()
    waiting = operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": GROUP, "clientId": "a@1"})
    await consumer.pushed.get()
    await consumer.close()
    assert (await waiting).code == ResponseCode.CONSUME_MSG_TIMEOUT


async def test_a_consumer_that_is_not_there_is_named(client):
    answer = await client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": GROUP, "clientId": "a@1"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert "a@1" in answer.remark


async def test_a_message_by_its_id(client):
    await client.send("orders", b"first")
    await client.send("orders", b"second")
    second = (await client.messages("orders"))[1]
    answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": second.physical_offset})
    assert b"second" in bytes(answer.body)
    for offset in (second.physical_offset + 9, 0, -1, 1 << 60):  # 0 is the first of the store's own facts
        missing = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
        assert missing.code == ResponseCode.SYSTEM_ERROR
        assert not missing.body


async def test_how_full_and_how_far(client):
    for number in range(3):
        await client.send("orders", b"%d" % number)
    asked = {"consumerGroup": GROUP, "topic": "orders", "queueId": 0, "commitOffset": 2}
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, asked)
    full = bytes((await client.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})).body)
    assert b'{"brokerName":"penstock","queueId":0,"topic":"orders"}:{"lastUpdateTimestamp":' in full
    assert b'"maxOffset":3,"minOffset":0}' in full
    far = bytes((await client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": GROUP})).body)
    assert b'"brokerOffset":3,"consumerOffset":2' in far


async def test_what_was_handed_out_is_told_beside_what_was_consumed(client):
    """Tools show the difference as what is in flight."""
    for _ in range(3):
        await client.send("orders", b"x")
    await client.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    for offset in (0, 3):
        await client.pull(GROUP, "orders", 0, offset, 1, sysFlag=PullFlag.COMMIT, commitOffset=1)
        far = bytes((await client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": GROUP})).body)
        assert b'"brokerOffset":3,"consumerOffset":1' in far
        assert b'"pullOffset":%d' % max(offset, 1) in far


async def test_where_nothing_was_consumed_there_is_no_time(client):
    await client.send("orders", b"x")
    far = await client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": GROUP, "topic": "orders"})
    assert b'"lastTimestamp":0' in bytes(far.body)
    assert b"-1" not in bytes(far.body)


async def test_a_group_that_is_online_is_shown_with_what_it_subscribes_to(client):
    for topic in ("orders", "bills"):
        await client.send(topic, b"x")
        asked = {"consumerGroup": GROUP, "topic": topic, "queueId": 0, "commitOffset": 1}
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, asked)
    await client.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    online = bytes((await client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": GROUP})).body)
    await client.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "a@1", "consumerGroup": GROUP})
    offline = bytes((await client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": GROUP})).body)
    assert (b"orders" in online, b"bills" in online) == (True, False)
    assert (b"orders" in offline, b"bills" in offline) == (True, True)


async def test_how_far_all_groups_are(client):
    for number in range(3):
        await client.send("orders", b"%d" % number)
    for group, offset in (("far", 3), ("behind", 1)):
        asked = {"consumerGroup": group, "topic": "orders", "queueId": 0, "commitOffset": offset}
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, asked)
    body = bytes((await client.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})).body)
    assert b'"totalDiff":2' in body
    assert b'{"behind":[{"offsetTable":{{"brokerName":"penstock","queueId":0,"topic":"orders"}:' in body


async def test_offsets_are_cloned(client):
    await client.send("orders", b"x")
    place = {"topic": "orders", "queueId": 0}
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**place, "consumerGroup": GROUP, "commitOffset": 1})
    await client.ask(RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": GROUP, "destGroup": "copy"})
    assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**place, "consumerGroup": "copy"})).ext[
        "offset"
    ] == "1"


async def test_producers_are_shown_with_language_and_version(client):
    body = json.dumps({"clientID": "p@1", "producerDataSet": [{"groupName": "makers"}]}).encode()
    await client.ask(RequestCode.HEART_BEAT, {}, body, version=317)
    found = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "makers"})
    (shown,) = json.loads(bytes(found.body))["connectionSet"]
    assert (shown["clientId"], shown["language"], shown["version"]) == ("p@1", "JAVA", 317)
    everybody = json.loads(bytes((await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)).body))["data"]
    assert [(one["clientId"], one["version"]) for one in everybody["makers"]] == [("p@1", 317)]


# --- figures ----------------------------------------------------------------------------------------------------------


async def sums(client, name: str, key: str) -> list[int]:
    answer = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    data = json.loads(bytes(answer.body))
    return [data[part]["sum"] for part in ("statsMinute", "statsHour", "statsDay")]


async def test_statistics_of_a_topic_and_a_group(client, penstock):
    for number in range(3):
        await client.send("orders", b"%d" % number)
    messages = await client.messages("orders")  # by nobody: that is a group too
    size = sum(message.length for message in messages)
    assert await sums(client, "TOPIC_PUT_NUMS", "orders") == [3, 3, 3]
    assert await sums(client, "TOPIC_PUT_SIZE", "orders") == [size_bytes(penstock, "orders")] * 3
    assert await sums(client, "GROUP_GET_NUMS", "orders@nobody") == [3, 3, 3]
    assert await sums(client, "GROUP_GET_SIZE", "orders@nobody") == [size] * 3
    assert await sums(client, "GROUP_GET_NUMS", "orders@others") == [0, 0, 0]
    assert await sums(client, "BROKER_PUT_NUMS", "DefaultCluster") == [3, 3, 3]
    back = {"offset": messages[0].physical_offset, "group": GROUP, "delayLevel": 0}
    await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
    assert await sums(client, "SNDBCK_PUT_NUMS", f"orders@{GROUP}") == [1, 1, 1]
    unknown = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": "X", "statsKey": "x"})
    assert unknown.code == ResponseCode.SYSTEM_ERROR


def size_bytes(penstock, topic: str) -> int:
    broker = penstock.server.broker
    return sum(broker.store.table(queue).live_bytes for queue in broker.topics.get(topic).queues)


async def test_who_produces_is_counted_for_each_producer_of_a_connection(client, penstock):
    """In one read: several producers and topics, both forms of a send, and a batch."""
    traffic = penstock.server.broker.traffic
    sends = [client.send("orders", b"x", a=producer) for producer in ("p", "q", "q")]
    sends.append(client.send("bills", b"x", a="q"))
    sends.append(client.send("bills", b"x", a="q", j=0))
    for answer in [await send for send in sends]:
        assert answer.code == 0
    long_names = {"producerGroup": "r", "topic": "orders", "defaultTopic": "TBW102", "queueId": 0}
    await client.ask(RequestCode.SEND_MESSAGE, long_names, b"x")
    found = {pair: traffic.produced.sums(0, lambda key, pair=pair: key == pair).day.messages for pair in PAIRS}
    assert found == PAIRS


PAIRS = {("p", "orders"): 1, ("q", "orders"): 2, ("q", "bills"): 2, ("r", "orders"): 1}


async def test_the_state_of_the_broker(client):
    for number in range(3):
        await client.send("orders", b"%d" % number)
    await client.messages("orders")
    table = json.loads(bytes((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body))["table"]
    assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("3", "3")
    assert 0 < float(table["commitLogDiskRatio"]) < 1
    assert table["earliestMessageTimeStamp"] == str((await client.messages("orders"))[0].store_ms)
    assert float(table["putTps"].split()[0]) > 0
    assert all(isinstance(value, str) for value in table.values())


async def test_settings_are_shown_and_not_changed(client):
    shown = bytes((await client.ask(RequestCode.GET_BROKER_CONFIG)).body).decode()
    settings = dict(line.split("=", 1) for line in shown.splitlines())
    assert settings["flushDiskType"] == "SYNC_FLUSH"
    assert settings["autoCreateTopicEnable"] == "true"
    answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"flushDiskType=ASYNC_FLUSH\n")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "configuration file" in answer.remark


@pytest.mark.parametrize("code", [0, 99, 306, 999, 32_000])
async def test_what_is_not_served_is_said(client, code):
    assert (await client.ask(code)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


# --- the name server's settings ---------------------------------------------------------------------------------------


async def test_settings_of_the_name_server_are_kept_for_tools(client):
    """mqadmin writes the order of a topic's queues there (updateTopic -o true)."""
    place = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders"}
    assert (await client.ask(RequestCode.GET_KV_CONFIG, place)).code == ResponseCode.QUERY_NOT_FOUND
    assert (await client.ask(RequestCode.PUT_KV_CONFIG, {**place, "value": "penstock:4"})).code == ResponseCode.SUCCESS
    assert (await client.ask(RequestCode.GET_KV_CONFIG, place)).ext == {"value": "penstock:4"}
    table = await client.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ORDER_TOPIC_CONFIG"})
    assert json.loads(bytes(table.body)) == {"table": {"orders": "penstock:4"}}
    for _ in range(2):  # also where there is none
        assert (await client.ask(RequestCode.DELETE_KV_CONFIG, place)).code == ResponseCode.SUCCESS
    gone = await client.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ORDER_TOPIC_CONFIG"})
    assert gone.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_setting_that_is_too_much_is_refused(client):
    put = {"namespace": "space", "key": "key", "value": "x" * (VALUE_CHARS_MAX + 1)}
    refused = await client.ask(RequestCode.PUT_KV_CONFIG, put)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert str(VALUE_CHARS_MAX) in refused.remark
    assert (await client.ask(RequestCode.PUT_KV_CONFIG, {**put, "key": "", "value": "x"})).code != ResponseCode.SUCCESS
