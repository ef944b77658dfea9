"""What comes later: delayed messages, messages that a listener refused, dead letters."""

import time

import pytest
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, JAVA_5_BINARY, NODE, WAIT_S, bodies

SECOND_MS = 1_000
CLOCK_MS = 50  # how far the times of two processes may be apart

RETRYING = pytest.mark.parametrize("client", [JAVA_4, JAVA_5_BINARY, GO], ids=lambda client: client.name)


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO, NODE], ids=lambda client: client.name)
def test_a_delayed_message_comes_when_it_is_due(client, use, new_topic, group):
    """Level 1 is a second: not sooner, once, under its own topic."""
    topic = new_topic()
    with use(GO).push(topic, group) as consumer:
        use(client).produce(topic, 4, "--delay-level", "1", "--keys")
        got = consumer.take(4)
    assert sorted(line["body"] for line in got) == bodies("m", 4)
    assert {line["topic"] for line in got} == {topic}
    assert all(line["storeTimestamp"] - line["bornTimestamp"] >= SECOND_MS - CLOCK_MS for line in got)
    assert not consumer.rest


TIMERS = {"--delay-ms": "2500", "--delay-sec": "2", "--deliver-in-ms": "2500"}


@pytest.mark.parametrize(
    ("client", "timer"),
    [*((client, timer) for client in (JAVA_4, JAVA_5) for timer in TIMERS), (NODE, "--deliver-in-ms")],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_message_with_a_timer_comes_when_it_is_due(client, timer, use, new_topic, group, broker):
    """Not sooner, once, under its own topic. RocketMQ counts in whole seconds, and does not know the timer of Node."""
    if client is NODE and broker.kind == "rocketmq":
        pytest.skip("RocketMQ delivers it at once")
    topic = new_topic()
    with use(GO).push(topic, group) as consumer:
        sent = use(client).produce(topic, 4, timer, TIMERS[timer], "--keys", "--tags", "red")
        got = consumer.take(4)
    assert {line["status"] for line in sent} == {"SEND_OK"}
    assert sorted(line["body"] for line in got) == bodies("m", 4)
    assert {(line["topic"], line["tags"]) for line in got} == {(topic, "red")}
    for line in got:
        due_ms = int(line["properties"]["TIMER_OUT_MS"])
        assert line["storeTimestamp"] >= due_ms
        if timer != "--deliver-in-ms":
            assert due_ms - line["bornTimestamp"] >= (2 - (broker.kind == "rocketmq")) * SECOND_MS - CLOCK_MS
    assert not consumer.rest


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
def test_a_timer_too_far_ahead_is_refused(client, use, new_topic):
    (sent,) = use(client).produce(new_topic(), 1, "--delay-sec", str(4 * 24 * 3600))
    assert (sent["status"], sent["code"]) == ("REFUSED", 13)


def make_known(use, admin, topic, group):
    """The first heartbeat of a group makes its retry topic; the client that sent it may see that only 30 s later."""
    with use(GO).push(topic, group):
        wait_for_route(admin, f"%RETRY%{group}")


def wait_for_route(admin, topic):
    deadline = time.monotonic() + WAIT_S
    while "CODE: 17" in admin("topicRoute", "-t", topic):
        assert time.monotonic() < deadline, f"there is no {topic}"


@RETRYING
def test_a_refused_message_comes_again(client, use, new_topic, group, admin):
    topic = new_topic()
    make_known(use, admin, topic, group)
    use(GO).produce(topic, 3, "--keys", "--tags", "red")
    with use(client).push(topic, group, "--fail-times", "1", "--retry-level", "1") as consumer:
        got = consumer.take(6)
    assert not consumer.rest
    first, again = ([line for line in got if line["reconsumeTimes"] == times] for times in (0, 1))
    for lines in (first, again):
        assert sorted(line["body"] for line in lines) == bodies("m", 3)
        assert {line["tags"] for line in lines} == {"red"}
    assert {line["topic"] for line in again} <= {topic, f"%RETRY%{group}"}
    assert {line["properties"]["RETRY_TOPIC"] for line in again} == {topic}  # the broker has kept it in between
    assert {line["msgId"] for line in again} == {line["msgId"] for line in first}


@pytest.mark.parametrize(
    ("client", "order"),
    [  # the Go client tries orderly messages without end
        (JAVA_4, "concurrently"),
        (JAVA_4, "orderly"),
        (JAVA_5_BINARY, "concurrently"),
        (JAVA_5_BINARY, "orderly"),
        (GO, "concurrently"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_message_refused_too_often_is_a_dead_letter(client, order, use, new_topic, group, name, admin):
    topic = new_topic()
    make_known(use, admin, topic, group)
    use(GO).produce(topic, 2)
    flags = ("--fail-times", "99", "--retry-level", "1", "--max-reconsume", "1", f"--{order}")
    with use(client).push(topic, group, *flags) as consumer:
        got = consumer.take(4)
        wait_for_route(admin, f"%DLQ%{group}")  # it is made by its first message
        with use(JAVA_5).push(f"%DLQ%{group}", name("undertaker")) as undertaker:
            dead = undertaker.take(2)
    assert sorted(line["reconsumeTimes"] for line in got) == [0, 0, 1, 1]
    assert sorted(line["body"] for line in dead) == bodies("m", 2)
    assert not consumer.rest


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5_BINARY, GO], ids=lambda client: client.name)
def test_an_orderly_consumer_is_held_up_by_what_it_refuses(client, use, new_topic, group):
    """The message comes again in its place, before those behind it."""
    topic = new_topic(queues=1)
    use(GO).produce(topic, 5)
    with use(client).push(topic, group, "--orderly", "--fail-times", "1") as consumer:
        got = consumer.take(10)
    order = list(dict.fromkeys(line["body"] for line in got))
    assert order == bodies("m", 5)
    assert [line["body"] for line in got] == sorted(line["body"] for line in got)
    assert not consumer.rest
