"""What operators ask, frame by frame. The tools themselves are in tests/compat."""

from penstock.wire.rocketmq.codes import RequestCode, ResponseCode

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
    missing = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": second.physical_offset + 9})
    assert missing.code == ResponseCode.SYSTEM_ERROR


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
