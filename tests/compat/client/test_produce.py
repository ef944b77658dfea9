"""Our producer on Penstock and on a real RocketMQ: what it sends a Java client consumes, and the other way round."""

import contextlib
import os
import time

import pytest
from tests.compat.rocketmq.clients import JAVA_4, JAVA_5, Client, bodies

from penstock.client import FIRST, Message, MessageQueue, by_key
from penstock.client.errors import MessageTooLarge, NoReply
from penstock.client.instance import Timers
from penstock.client.sync import Consumer, Producer

QUICK = Timers(route_interval_ms=500, rebalance_interval_ms=500)
WAIT_MS = 30_000


@pytest.fixture
def producer(broker):
    with Producer(broker.namesrv, "compat", timeout_ms=10_000) as producer:
        yield producer


def consumed(broker, topic: str, group: str, count: int, **options):
    """So many messages, and no more."""
    with Consumer(broker.namesrv, group, {topic: "*"}, start=FIRST, timers=QUICK, **options) as consumer:
        found = [consumer.receive(WAIT_MS) for _ in range(count)]
        assert consumer.receive(500) is None
    return found


def test_every_way_of_sending_arrives_at_a_java_consumer(producer, use, topic, group):
    one = producer.send(Message(topic, b"m-0", tags="a", keys="k1 k2", properties={"colour": "blue"}, flag=7))
    batch = producer.send_batch([Message(topic, b"m-%d" % number, tags="a") for number in (1, 2)])
    producer.send_oneway(Message(topic, b"m-3", tags="a"))
    large = producer.send(Message(topic, b"m-4 " + b"x" * 50_000, tags="a"))
    with use(JAVA_5).push(topic, group) as consumer:
        got = {line["body"].split()[0]: line for line in consumer.take(5)}
    assert sorted(got) == bodies("m", 5)
    assert {one.message_id, *(sent.message_id for sent in batch), large.message_id} <= {
        line["msgId"] for line in got.values()
    }
    first = got["m-0"]
    assert (first["tags"], first["keys"], first["properties"]["colour"]) == ("a", "k1 k2", "blue")
    assert (first["queueId"], first["queueOffset"]) == (one.queue.queue, one.offset)
    assert got["m-4"]["body"] == "m-4 " + "x" * 50_000, "compressed on the way, and opened by Java"


def test_one_key_stays_in_order(producer, broker, new_topic, group):
    topic = new_topic(8)
    sent = [producer.send(Message(topic, b"%d" % number), by_key("customer 7")) for number in range(20)]
    assert {one.queue for one in sent} == {MessageQueue(topic, sent[0].queue.broker, sent[0].queue.queue)}
    got = consumed(broker, topic, group, 20, orderly=True)
    assert [message.body for message in got] == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("how", [{"delay_level": 1}, {"delay_ms": 1_500}], ids=["level", "timer"])
def test_a_delayed_message_comes_later(how, producer, broker, topic, group):
    """RocketMQ 4 has no timers: there such a message comes at once."""
    has_it = broker.kind != "rocketmq-4" or "delay_level" in how
    producer.send(Message(topic, b"at once"))
    before_ms = time.time_ns() // 1_000_000
    sent = producer.send(Message(topic, b"later", **how))
    got = {message.body: message for message in consumed(broker, topic, group, 2)}
    assert set(got) == {b"at once", b"later"}
    assert got[b"later"].message_id == sent.message_id
    is_later = got[b"later"].store_ms >= before_ms + 400
    assert is_later is has_it, "stored when it was due; RocketMQ's timers have whole seconds"


def test_too_large_is_a_typed_error_and_the_connection_lives_on(broker, topic):
    with Producer(broker.namesrv, "compat", message_bytes_max=64 << 20) as producer:
        producer.send(Message(topic, b"fits"))
        with pytest.raises(MessageTooLarge):
            producer.send(Message(topic, os.urandom(5 << 20)))
        producer.send(Message(topic, b"fits"))


def test_a_message_is_found_by_its_id_with_javas_tool(producer, admin, topic):
    """The tool reads the time out of the id, and looks there."""
    sent = producer.send(Message(topic, b"x", keys="k"))
    for _ in range(20):  # RocketMQ builds its index a little later
        printed = admin("queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id)
        if sent.message_id in printed and "Queue Offset" in printed:
            return
        time.sleep(0.5)
    pytest.fail(printed)


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_what_java_compressed_is_opened(kind, broker, use, topic, group):
    for package in ("lz4.frame", "zstandard"):
        pytest.importorskip(package)
    compressing = Client(f"java-5.5.0-{kind}", "java-5", ("sync",), (f"-Drocketmq.message.compressType={kind}",))
    use(compressing).produce(topic, 3, "--body-bytes", "20000")
    got = consumed(broker, topic, group, 3)
    assert sorted(message.body.decode() for message in got) == bodies("m", 3, 20_000)
    assert {message.sys_flag >> 8 & 7 for message in got} == {{"LZ4": 1, "ZSTD": 2, "ZLIB": 3}[kind]}


# --- requests and replies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
def test_java_replies_to_us(client, producer, use, new_topic, group):
    topic, runner = new_topic(), use(client)
    with runner.start("reply", "--namesrv", runner.namesrv, "--topic", topic, "--group", group).ready():
        replies = [producer.request(Message(topic, b"m-%d" % number), timeout_ms=WAIT_MS) for number in range(3)]
    assert [reply.body for reply in replies] == [b"re: m-%d" % number for number in range(3)]


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
def test_we_reply_to_java(client, broker, use, new_topic, group):
    topic, runner = new_topic(), use(client)
    words = ("--namesrv", runner.namesrv, "--topic", topic, "--count", "3")
    with contextlib.ExitStack() as stack:
        consumer = stack.enter_context(Consumer(broker.namesrv, group, {topic: "*"}, start=FIRST, timers=QUICK))
        asking = stack.enter_context(runner.start("request", *words))
        for _ in range(3):
            request = consumer.receive(WAIT_MS)
            consumer.reply(request, b"re: " + request.body)
        got = asking.to_the_end()
    assert [line.get("reply") or line for line in got] == [f"re: {body}" for body in bodies("m", 3)]


def test_a_request_that_nobody_answers(producer, topic):
    with pytest.raises(NoReply):
        producer.request(Message(topic, b"?"), timeout_ms=1_000)
