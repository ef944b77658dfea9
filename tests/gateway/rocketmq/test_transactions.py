"""Transactions frame by frame: half messages, commit, rollback, questions to producers; on the test's own clock."""

import asyncio

import pytest
from tests.gateway.rocketmq.world import COMMIT, PROPERTIES, ROLLBACK, UNKNOWN

from penstock.core.events import HalfGivenUp
from penstock.gateway.rocketmq.produce import ADDED
from penstock.gateway.rocketmq.transactions import GIVEN_UP_TOPIC, HALF_TOPIC, NOTES_TOPIC
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import Flag, RequestCode, ResponseCode, SysFlag
from penstock.wire.rocketmq.record import message_in


async def test_a_half_message_is_seen_when_it_is_committed(world):
    sent = await world.prepare()
    assert (sent.code, sent.ext["queueId"]) == (0, "2")
    assert await world.bodies() == []
    assert (await world.end(sent, COMMIT)).code == ResponseCode.SUCCESS
    (message,) = await world.client.messages("orders", 2, tags="t")
    assert (message.body, message.topic, message.queue_index) == (b"paid", "orders", 2)
    assert message.sys_flag & SysFlag.TRANSACTION_BITS == SysFlag.COMMITTED
    assert message.prepared_offset == int(sent.ext["msgId"][16:], 16)
    assert message.properties["UNIQ_KEY"] == "key-1"
    assert not {"TRAN_MSG", "REAL_TOPIC", "REAL_QID"} & message.properties.keys()


async def test_what_is_rolled_back_is_not_seen_and_nobody_is_asked(world):
    await world.beat(world.client)
    sent = await world.prepare()
    assert (await world.end(sent, ROLLBACK)).code == ResponseCode.SUCCESS
    await world.after(3_600_000)
    assert await world.bodies() == []
    assert world.client.pushed.empty()


async def test_it_is_ended_once(world):
    sent = await world.prepare()
    await world.end(sent, COMMIT)
    for how in (COMMIT, ROLLBACK):
        answer = await world.end(sent, how)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "ended before" in answer.remark
    assert await world.bodies() == [b"paid"]


async def test_many_ended_at_once_from_two_sides_are_each_ended_once(world):
    sent = [await world.prepare(b"%d" % number) for number in range(20)]
    other = await world.connected()
    answers = await asyncio.gather(
        *(world.end(one, COMMIT, client=client) for one in sent for client in (world.client, other))
    )
    assert sum(answer.code == ResponseCode.SUCCESS for answer in answers) == 20
    assert sorted(await world.bodies()) == sorted(b"%d" % number for number in range(20))
    await other.close()


async def test_ends_that_want_no_answer_count(world):
    """As clients send them."""
    sent = await world.prepare()
    physical = int(sent.ext["msgId"][16:], 16)
    fields = {"producerGroup": "payers", "tranStateTableOffset": sent.ext["queueOffset"], "commitLogOffset": physical}
    world.client.ask(RequestCode.END_TRANSACTION, {**fields, "commitOrRollback": COMMIT}, flag=Flag.ONEWAY)
    pull = await world.client.pull("nobody", "orders", 2, 0, wait_ms=5_000, sysFlag=6, subscription="*")
    assert message_in(pull.body).body == b"paid"


@pytest.mark.parametrize(
    "wrong",
    [{"group": "others"}, {"commitLogOffset": 7}, {"tranStateTableOffset": 99}, {"tranStateTableOffset": -1}],
)
async def test_an_end_that_does_not_fit_is_refused(world, wrong):
    sent = await world.prepare()
    answer = await world.end(sent, COMMIT, **wrong)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark
    assert await world.bodies() == []
    assert (await world.end(sent, COMMIT)).code == ResponseCode.SUCCESS


async def test_a_producer_that_says_nothing_is_asked_and_its_answer_counts(world):
    await world.beat(world.client)
    sent = await world.prepare()
    assert (await world.end(sent, UNKNOWN)).code == ResponseCode.SUCCESS
    await world.after(5_999)
    assert world.client.pushed.empty()
    await world.after(1)
    asked = await world.client.pushed.get()
    assert (asked.code, asked.oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
    assert asked.ext["tranStateTableOffset"] == sent.ext["queueOffset"]
    assert int(asked.ext["commitLogOffset"]) == int(sent.ext["msgId"][16:], 16)
    assert (asked.ext["msgId"], asked.ext["transactionId"]) == ("key-1", "key-1")
    assert asked.ext["offsetMsgId"] == sent.ext["msgId"]
    shown = message_in(asked.body)
    assert (shown.topic, shown.queue_index, shown.body, shown.sound) == ("orders", 2, b"paid", True)
    assert shown.properties["PGROUP"] == "payers"
    assert shown.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert (await world.end(sent, COMMIT, fromTransactionCheck="true")).code == ResponseCode.SUCCESS
    assert await world.bodies() == [b"paid"]


async def test_the_producers_of_a_group_are_asked_in_turn_and_others_are_not(world):
    first, second, other = [await world.connected() for _ in range(3)]
    await world.beat(first, client_id="p@1")
    await world.beat(second, client_id="p@2")
    await world.beat(other, "others", "p@3")
    await world.prepare()
    await world.after(6_000)
    await world.after(30_000)
    codes = {(await client.pushed.get()).code for client in (first, second)}
    assert codes == {RequestCode.CHECK_TRANSACTION_STATE}
    assert other.pushed.empty()
    for client in (first, second, other):
        await client.close()


@pytest.mark.parametrize(("immunity", "asked_ms"), [("1", 1_000), ("100", 100_000), ("-1", 6_000), ("soon", 6_000)])
async def test_a_message_says_itself_when_to_ask_first(world, immunity, asked_ms):
    await world.beat(world.client)
    await world.prepare(properties=f"{PROPERTIES}CHECK_IMMUNITY_TIME_IN_SECONDS\x01{immunity}\x02")
    await world.after(asked_ms - 1)
    assert world.client.pushed.empty()
    await world.after(1)
    assert (await world.client.pushed.get()).code == RequestCode.CHECK_TRANSACTION_STATE


async def test_after_too_many_questions_it_is_given_up(open_world):
    world = await open_world(transaction_checks_max=3)
    told: list[HalfGivenUp] = []
    world.server.broker.bus.listen(lambda event: told.append(event) if isinstance(event, HalfGivenUp) else None)
    await world.beat(world.client)
    sent = await world.prepare()
    await world.after(6_000)
    for _ in range(2):
        await world.after(30_000)
    times = [message_in((await world.client.pushed.get()).body).properties["TRANSACTION_CHECK_TIMES"] for _ in range(3)]
    assert times == ["1", "2", "3"]
    assert await world.bodies(GIVEN_UP_TOPIC, 0) == []
    await world.after(30_000)
    (kept,) = await world.client.messages(GIVEN_UP_TOPIC)
    assert (kept.body, kept.properties["REAL_TOPIC"], kept.properties["REAL_QID"]) == (b"paid", "orders", "2")
    assert [(event.topic, event.producer_group, event.asks) for event in told] == [("orders", "payers", 3)]
    assert (await world.end(sent, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    assert await world.bodies() == []
    assert world.client.pushed.empty()


async def test_what_is_under_way_survives_a_restart(open_world):
    world = await open_world(transaction_checks_max=2)
    done, pending = await world.prepare(b"done"), await world.prepare(b"pending")
    await world.end(done, COMMIT)
    await world.after(6_000)  # asked once, with nobody there to hear it
    await world.again()
    assert (await world.end(done, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    await world.beat(world.client)
    await world.after(30_000)
    asked = await world.client.pushed.get()
    assert message_in(asked.body).properties["TRANSACTION_CHECK_TIMES"] == "2"
    await world.end(pending, COMMIT)
    assert await world.bodies() == [b"done", b"pending"]


async def test_half_messages_above_the_limit_are_refused_in_plain_words(open_world):
    world = await open_world(half_messages_max=2)
    first = await world.prepare()
    answers = await asyncio.gather(*(world.prepare() for _ in range(3)))
    assert sorted(answer.code for answer in answers) == [0, ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_BUSY]
    assert "rocketmq.half_messages_max" in next(answer.remark for answer in answers if answer.code)
    await world.end(first, ROLLBACK)
    assert (await world.prepare()).code == 0


async def test_full_properties_stay_readable_when_the_producer_is_asked(world):
    """Clients read their length as two bytes with a sign. How often it was asked gives way."""
    taken = len(PROPERTIES) + len(ADDED) + len("long\x01\x02REAL_TOPIC\x01orders\x02REAL_QID\x012\x02")
    own = f"{PROPERTIES}long\x01{'v' * (props.BYTES_MAX - taken)}\x02"
    await world.beat(world.client)
    sent = await world.prepare(properties=own)
    assert sent.code == 0
    await world.after(6_000)
    shown = message_in((await world.client.pushed.get()).body)
    assert props.parse(own).items() <= shown.properties.items()
    assert len(props.build(shown.properties).encode()) == props.BYTES_MAX
    assert (await world.end(sent, COMMIT)).code == ResponseCode.SUCCESS
    assert await world.bodies() == [b"paid"]


async def test_a_half_message_names_its_producer_group(world):
    answer = await world.prepare(properties="TRAN_MSG\x01true\x02")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "PGROUP" in answer.remark


async def test_a_committed_message_with_a_delay_waits(world):
    sent = await world.prepare(properties=f"{PROPERTIES}DELAY\x013\x02")
    await world.end(sent, COMMIT)
    await world.after(9_999)
    assert await world.bodies() == []
    await world.after(1)
    assert await world.bodies() == [b"paid"]


async def test_a_message_whose_topic_is_gone_is_kept(world):
    sent = await world.prepare()
    await world.server.broker.topics.delete("orders")
    assert (await world.end(sent, COMMIT)).code == ResponseCode.SUCCESS
    assert await world.bodies(GIVEN_UP_TOPIC, 0) == [b"paid"]


@pytest.mark.parametrize("topic", [HALF_TOPIC, NOTES_TOPIC])
async def test_nobody_reads_or_writes_where_half_messages_are_kept(world, topic):
    await world.prepare()
    pull = await world.client.pull("nobody", topic, 0, 0, sysFlag=4, subscription="*")
    assert pull.code == ResponseCode.NO_PERMISSION
    assert (await world.client.send(topic, b"x")).code == ResponseCode.NO_PERMISSION
