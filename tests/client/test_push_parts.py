"""The parts of a push consumer that decide something, without a broker."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.figures import Figures
from penstock.client.consumer.rebalance import change
from penstock.client.consumer.reset import targets_in
from penstock.client.consumer.settings import ConsumerSettings
from penstock.client.consumer.start import start_offset
from penstock.client.consumer.subscription import SQL92, TAG, subscription, tags_in
from penstock.client.episodes import Episodes
from penstock.client.positions import FIRST, LAST, since
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.codes import RequestCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import Message

QUEUE = MessageQueue("orders", "broker-a", 0)
RETRY = MessageQueue("%RETRY%billing", "broker-a", 0)


# --- rebalance --------------------------------------------------------------------------------------------------------

queues = st.lists(st.builds(MessageQueue, st.just("t"), st.sampled_from("ab"), st.integers(0, 8)), unique=True)


@given(queues, queues)
def test_a_change_leads_from_what_is_owned_to_the_share(owned, share):
    found = change(owned, share)
    assert set(owned) - set(found.drop) | set(found.take) == set(share)
    assert not set(found.drop) & set(share)
    assert not set(found.take) & set(owned)


# --- a queue in hand --------------------------------------------------------------------------------------------------


def message(offset: int, body: bytes = b"x") -> Message:
    return Message("orders", 0, offset, 0, body, {}, 0, 0, 0, 0, b"", b"", 0, 0, 100, True)


def held(orderly: bool = False, **limits: int) -> Assigned:
    return Assigned(QUEUE, 10, ConsumerSettings(**limits), orderly, Figures(0))


@given(st.lists(st.integers(0, 50), unique=True, min_size=1), st.data())
def test_what_is_committed_is_the_lowest_that_is_not_finished(gaps, data):
    one, messages = held(), [message(10 + offset) for offset in sorted(gaps)]
    one.put(messages, 100)
    left = list(messages)
    for done in data.draw(st.permutations(messages)):
        assert one.commit_offset == min(other.offset for other in left)
        assert one.count == len(left)
        one.finish(done)
        left.remove(done)
    assert (one.commit_offset, one.count, one.bytes) == (100, 0, 0)


@pytest.mark.parametrize(
    ("limits", "offsets", "body", "orderly", "full"),
    [
        ({"queue_messages_max": 2}, [10, 11], b"x", False, False),
        ({"queue_messages_max": 2}, [10, 11, 12], b"x", False, True),
        ({"queue_bytes_max": 5}, [10], b"x" * 5, False, False),
        ({"queue_bytes_max": 5}, [10], b"x" * 6, False, True),
        ({"queue_span_max": 20}, [10, 30], b"x", False, False),
        ({"queue_span_max": 20}, [10, 31], b"x", False, True),
        ({"queue_span_max": 20}, [10, 31], b"x", True, False),
    ],
)
async def test_a_queue_is_full_by_count_size_or_span(limits, offsets, body, orderly, full):
    one = held(orderly, **limits)
    one.put([message(offset, body) for offset in offsets], 100)
    assert one.full == full
    room = asyncio.ensure_future(one.room())
    await asyncio.sleep(0)
    assert room.done() != full
    one.finish(message(offsets[0], body))
    await room


# --- subscriptions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "tags"),
    [("*", set()), ("", set()), (" * ", set()), ("a", {"a"}), ("a || b", {"a", "b"}), ("a||b|| ", {"a", "b"})],
)
def test_tags_in_an_expression(expression, tags):
    assert tags_in(expression) == tags


@pytest.mark.parametrize(
    ("topic", "expression", "kind", "told"),
    [
        ("t", "||", TAG, "names no tag"),
        ("", "*", TAG, "needs a topic"),
        ("t", "", SQL92, "such as"),
        ("t", "*", "REGEX", "TAG or SQL92"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(topic, expression, kind, told):
    with pytest.raises(ValueError, match=told):
        subscription(topic, expression, kind, 1)


def test_a_renewed_version_is_always_newer():
    one = subscription("t", "*", TAG, 1_000)
    versions = [one.version]
    for now_ms in (1_000, 999, 2_000):
        one.renew(now_ms)
        versions.append(one.version)
    assert versions == [1_000, 1_001, 1_002, 2_000]


def test_heartbeats_carry_the_tags_and_their_hashes():
    data = subscription("t", "TagA || TagB", TAG, 5).data()
    assert (data["tagsSet"], data["codeSet"], data["subVersion"]) == (["TagA", "TagB"], [2598919, 2598920], 5)


# --- where to begin ---------------------------------------------------------------------------------------------------


class Broker:
    """A queue from 5 to 9; 7 is what was stored at 1,000 ms."""

    ANSWERS = {
        RequestCode.GET_MIN_OFFSET: 5,
        RequestCode.GET_MAX_OFFSET: 9,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: 7,
    }

    async def of_queue(self, code, queue, **ext):
        assert ext in ({}, {"timestamp": 1_000})
        return Frame(0, 1, 1, 409, "JAVA", "", {"offset": str(self.ANSWERS[code])}, memoryview(b""), 0)


@pytest.mark.parametrize(
    ("queue", "start", "offset"),
    [
        (QUEUE, FIRST, 5),
        (QUEUE, LAST, 9),
        (QUEUE, since(1_000), 7),
        (RETRY, FIRST, 5),
        (RETRY, LAST, 0),
        (RETRY, since(1_000), 9),
    ],
)
async def test_where_a_group_begins(queue, start, offset):
    assert await start_offset(Broker(), queue, start) == offset


# --- episodes, resets -------------------------------------------------------------------------------------------------


def test_an_episode_begins_once_and_lasts_while_anybody_is_in_it():
    episodes, other = Episodes(), MessageQueue("orders", "broker-a", 1)
    assert episodes.enter(("25", "orders"), QUEUE)
    assert not episodes.enter(("25", "orders"), other)
    episodes.leave(QUEUE)
    assert not episodes.enter(("25", "orders"), QUEUE)
    episodes.leave(QUEUE)
    episodes.leave(other)
    assert episodes.enter(("25", "orders"), QUEUE)


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:7}}',
        b'{"offsetTable":{"{\\"brokerName\\":\\"broker-a\\",\\"queueId\\":0,\\"topic\\":\\"orders\\"}":7}}',
        b'{"offsetTable":[{"brokerName":"broker-a","offset":7,"queueId":0,"topic":"orders"}]}',
    ],
)
def test_the_targets_of_a_reset_in_each_shape(body):
    assert targets_in(body) == {QUEUE: 7}


@pytest.mark.parametrize("body", [b"", b"{", b'{"offsetTable":{"x":7}}', b'{"offsetTable":[7]}'])
def test_targets_that_cannot_be_read_are_an_error(body):
    with pytest.raises(ValueError):  # noqa: PT011  # whichever of the decoders' own
        targets_in(body)
