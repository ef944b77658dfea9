"""SQL filters, frame by frame: checked before a consumer starts, known from heartbeats, or carried by the pull."""

import asyncio
import json

import pytest

from penstock.core.fetch import narrowed
from penstock.gateway.rocketmq.filters import STRETCH_MESSAGES, STRETCH_MESSAGES_MIN, TAGS_CHARS_MAX, stretch_of
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.record import messages_in

GROUP = "readers"


@pytest.fixture
async def orders(client):
    """Forty messages with a price from 0 to 39, in one queue."""
    for price in range(40):
        properties = {"price": str(price), "color": ("red", "blue")[price % 2]}
        await client.send("orders", b"%d" % price, properties=props.build(properties))
    return "orders"


async def subscribe(client, expression, version=1):
    subscription = {"topic": "orders", "subString": expression, "expressionType": "SQL92", "subVersion": version}
    consumer = {"groupName": GROUP, "subscriptionDataSet": [subscription]}
    body = json.dumps({"clientID": "a", "consumerDataSet": [consumer]}).encode()
    return await client.ask(RequestCode.HEART_BEAT, {}, body)


async def check(client, expression, kind="SQL92"):
    subscription = {"topic": "orders", "subString": expression, "expressionType": kind}
    body = json.dumps({"clientId": "a", "group": GROUP, "subscriptionData": subscription}).encode()
    return await client.ask(RequestCode.CHECK_CLIENT_CONFIG, {}, body)


def prices(answer):
    return [int(message.properties["price"]) for message in messages_in(answer.body)]


async def test_a_pull_brings_what_the_heartbeat_s_expression_selects(client, orders):
    await subscribe(client, "price BETWEEN 10 AND 19 AND color = 'red'")
    answer = await client.pull(GROUP, "orders", 0, 0, version=1)
    assert (answer.code, prices(answer)) == (ResponseCode.SUCCESS, [10, 12, 14, 16, 18])
    assert answer.ext["nextBeginOffset"] == "40"


async def test_a_pull_that_carries_its_expression(client, orders):
    ext = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "price > 37", "expressionType": "SQL92"}
    answer = await client.pull("nobody", "orders", 0, 0, **ext)
    assert prices(answer) == [38, 39]


async def test_limits_count_what_is_selected_and_the_next_pull_goes_on_behind_it(client, orders):
    await subscribe(client, "color = 'red'")
    first = await client.pull(GROUP, "orders", 0, 0, version=1, maxMsgNums=3)
    assert (prices(first), first.ext["nextBeginOffset"]) == ([0, 2, 4], "6")
    second = await client.pull(GROUP, "orders", 0, 6, version=1, maxMsgNums=3)
    assert prices(second) == [6, 8, 10]


async def test_a_pull_that_selects_nothing_advances_by_a_bounded_stretch(client):
    for start in range(0, STRETCH_MESSAGES + 10, 50):
        for number in range(start, start + 50):
            last = client.send("orders", b"x", properties=props.build({"n": str(number)}))
            await last
    await subscribe(client, f"n = {STRETCH_MESSAGES + 5}")
    nothing = await client.pull(GROUP, "orders", 0, 0, version=1)
    assert (nothing.code, nothing.ext["nextBeginOffset"]) == (
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        str(STRETCH_MESSAGES),
    )
    found = await client.pull(GROUP, "orders", 0, STRETCH_MESSAGES, version=1)
    assert [message.offset for message in messages_in(found.body)] == [STRETCH_MESSAGES + 5]


async def test_a_waiting_pull_gets_what_matches(client, orders):
    await subscribe(client, "price = 99")
    waiting = client.pull(GROUP, "orders", 0, 40, version=1, wait_ms=60_000)
    await client.send("orders", b"x", properties=props.build({"price": "99"}))
    assert prices(await waiting) == [99]


async def test_a_waiting_pull_is_not_disturbed_by_what_does_not_match(client, orders, penstock):
    await subscribe(client, "price = 99")
    waiting = client.pull(GROUP, "orders", 0, 40, version=1, wait_ms=60_000)
    for price in ("41", "42", "99"):
        await client.send("orders", b"x", properties=props.build({"price": price}))
    answer = await waiting
    assert (answer.code, prices(answer), answer.ext["nextBeginOffset"]) == (ResponseCode.SUCCESS, [99], "43")
    assert len(penstock.server.broker.waits) == 0


async def test_a_pull_that_waited_in_vain_goes_on_behind_what_it_saw(client, orders):
    await subscribe(client, "price = 99")
    waiting = client.pull(GROUP, "orders", 0, 40, version=1, wait_ms=500)
    await client.send("orders", b"x", properties=props.build({"price": "41"}))
    answer = await waiting
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "41")


async def test_a_waiting_pull_of_tags_is_not_disturbed_either(client):
    await client.send("orders", b"first")
    await client.heartbeat(GROUP, "a", 1, {"orders": "red"})
    waiting = client.pull(GROUP, "orders", 0, 1, version=1, wait_ms=60_000)
    for tag in ("blue", "red"):
        await client.send("orders", tag.encode(), properties=props.build({"TAGS": tag}))
    assert [message.body for message in messages_in((await waiting).body)] == [b"red"]


async def test_an_expression_is_checked(client):
    assert (await check(client, "a = 1 AND b IS NULL")).code == ResponseCode.SUCCESS
    assert (await check(client, "red || blue", "TAG")).code == ResponseCode.SUCCESS
    refused = await check(client, "a LIKE 'x'")
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "at character 3: 'LIKE'" in refused.remark
    assert (await check(client, "a = 1", "XPATH")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert (await check(client, "")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_bad_expression_in_a_heartbeat_is_told_at_the_pull(client, orders):
    assert (await subscribe(client, "price >")).code == ResponseCode.SUCCESS
    newer = await client.pull(GROUP, "orders", 0, 0, version=2)
    assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST  # that is looked at first
    answer = await client.pull(GROUP, "orders", 0, 0, version=1)
    assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert "price >" in answer.remark
    await subscribe(client, "price > 38", version=2)
    assert prices(await client.pull(GROUP, "orders", 0, 0, version=2)) == [39]


async def test_a_bad_expression_in_a_pull_is_refused(client, orders):
    ext = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "((((", "expressionType": "SQL92"}
    assert (await client.pull("nobody", "orders", 0, 0, **ext)).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_messages_without_properties_of_their_own(client):
    await client.send("orders", b"bare")
    await subscribe(client, "color IS NULL")
    answer = await client.pull(GROUP, "orders", 0, 0, version=1)
    assert [message.body for message in messages_in(answer.body)] == [b"bare"]


async def test_bytes_bound_what_is_selected(client, penstock, orders):
    topic = penstock.server.broker.topics.get("orders")
    batch = penstock.server.broker.fetcher.fetch_now(topic.queue(0), 0, 40, 1 << 20)
    three = sum(map(len, batch.payloads[:3]))
    few = narrowed(batch, lambda payload: True, 32, three)
    assert (len(few.payloads), few.next_offset, len(few.rows)) == (3, 3, 3)
    one = narrowed(batch, lambda payload: True, 32, 1)
    assert (len(one.payloads), one.next_offset) == (1, 1)


def pull_with(client, expression, kind="SQL92", offset=0):
    ext = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": expression, "expressionType": kind}
    return client.pull("nobody", "orders", 0, offset, **ext)


async def test_a_long_expression_looks_at_fewer_messages(client, orders):
    expression = " OR ".join(f"price = {1_000 + number}" for number in range(150))
    answer = await pull_with(client, expression)
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert STRETCH_MESSAGES_MIN <= stretch_of(expression) < 40
    assert answer.ext["nextBeginOffset"] == str(stretch_of(expression))


async def test_many_pulls_with_expressions_do_not_hold_up_others(client, connect, orders):
    """They come in one read, and take some milliseconds each."""
    other = await connect()
    await other.send("elsewhere", b"first")  # the topic is there
    expression = " OR ".join(f"price = {1_000 + number}" for number in range(100))
    pulls = [asyncio.ensure_future(pull_with(client, expression)) for _ in range(200)]
    await asyncio.sleep(0)
    await other.send("elsewhere", b"second")
    assert not all(pull.done() for pull in pulls)
    assert {(await pull).code for pull in pulls} == {ResponseCode.PULL_RETRY_IMMEDIATELY}


@pytest.mark.parametrize("expression", ["||", " || ", "t||" * (TAGS_CHARS_MAX // 3 + 1)])
async def test_what_is_no_list_of_tags_is_refused(client, orders, expression):
    for _ in range(2):
        answer = await pull_with(client, expression, "TAG")
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert "tag" in answer.remark


async def test_a_list_of_tags_may_be_long(client, orders):
    await client.send("orders", b"tagged", properties=props.build({"TAGS": "t777"}))
    answer = await pull_with(client, "||".join(f"t{number}" for number in range(8_000)), "TAG", offset=40)
    assert [message.body for message in messages_in(answer.body)] == [b"tagged"]


async def test_what_is_wrong_with_an_expression_is_said_each_time(client, orders):
    assert {(await pull_with(client, "price >")).remark for _ in range(3)} == {(await check(client, "price >")).remark}
