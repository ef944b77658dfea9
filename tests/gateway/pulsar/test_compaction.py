"""Topics are compacted: asked for by HTTP or by a threshold, read by those who ask for it, kept through restarts."""

import asyncio

import pulsar
import pytest
from tests.gateway.pulsar.caller import Caller
from tests.gateway.pulsar.conftest import client_of, one
from tests.gateway.pulsar.test_consumers import TOPIC, Failover
from tests.gateway.pulsar.test_python_client import connected

from penstock import configure
from penstock.core import compaction
from penstock.core.compaction import TOPIC_PREFIX, State
from penstock.testing.server import PORTS, serving
from penstock.wire.pulsar import commands_pb2 as pb

COMPACTION = "/admin/v2/persistent/public/default/orders/compaction"
EARLIEST = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)


def queue_of(penstock, topic="orders"):
    return penstock.server.broker.topics.get(topic).queue(0)


async def publish(client, *pairs, topic=TOPIC):
    """A message for each key and body, one entry each."""
    await client.producer(topic, 99)
    for number, (key, body) in enumerate(pairs):
        more = {"partition_key": key} if key else {}
        await client.send(one(body, number, **more), number, 99)
    await client.close_producer(99)


async def compact(penstock, http, path=COMPACTION):
    assert (await http("PUT", path)).status == 204
    await penstock.server.broker.compaction.settled(queue_of(penstock))
    status = (await http("GET", path)).json
    assert status == {"status": "SUCCESS", "lastError": ""}


async def reader(client, consumer_id=0, permits=100, **more):
    more.setdefault("start_message_id", EARLIEST)
    await client.consumer(TOPIC, f"r{consumer_id}", consumer_id, durable=False, read_compacted=True, **more)
    client.flow(permits, consumer_id)


async def last_id(client, consumer_id=0):
    client.say(pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=client.request()))
    return (await client.next("getLastMessageIdResponse")).last_message_id


# --- what is read -----------------------------------------------------------------------------------------------------


async def test_who_reads_compacted_gets_the_last_of_each_key_and_what_came_since(penstock, http, client):
    await publish(client, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("", b"keyless"), ("c", b"4"), ("c", b""))
    assert (await http("GET", COMPACTION)).json == {"status": "NOT_RUN", "lastError": ""}
    await compact(penstock, http)
    await publish(client, ("a", b"5"), ("", b"keyless"))
    await reader(client)
    assert await client.entries(4) == [1, 2, 6, 7]
    await client.consumer(TOPIC, "whole", 1)
    client.flow(100, 1)
    assert await client.entries(8) == list(range(8))  # the topic itself is as it was


async def test_a_second_run_goes_on_from_the_first(penstock, http, client):
    await publish(client, ("a", b"1"), ("b", b"2"))
    await compact(penstock, http)
    first = penstock.server.broker.compaction.view(queue_of(penstock))
    await publish(client, ("a", b"3"), ("b", b""))
    await compact(penstock, http)
    second = penstock.server.broker.compaction.view(queue_of(penstock))
    assert (second.horizon, second.queue != first.queue) == (4, True)
    assert not penstock.server.broker.store.has_queue(first.queue)
    await reader(client)
    assert await client.entries(1) == [2]
    await client.settled()
    assert client.none_of("message")
    ledger = (await http.of("orders", "/internalStats"))["compactedLedger"]
    assert (ledger["ledgerId"], ledger["entries"]) == (second.queue, 1)
    assert (await http.of("orders", "/stats"))["compaction"]["lastCompactionRemovedEventCount"] == 3


async def test_permits_count_and_acknowledgements_move_the_cursor_over_what_is_gone(penstock, http, client):
    keys = [(f"k{number % 5}", b"%d" % number) for number in range(50)]
    await client.consumer(TOPIC)
    await client.close_consumer()
    await publish(client, *keys)
    await compact(penstock, http)
    await client.consumer(TOPIC, read_compacted=True, subType=Failover)
    client.flow(2)
    assert await client.entries(2) == [45, 46]
    await client.settled()
    assert client.none_of("message")
    client.flow(3)
    assert await client.entries(3) == [47, 48, 49]
    client.ack(queue_of(penstock), 45, 46, 48)
    await client.settled()
    assert (await http.of("orders", "/stats"))["subscriptions"]["s"]["msgBacklog"] == 2
    client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
    client.flow(5)
    assert await client.entries(2) == [47, 49]


async def test_a_seek_finds_its_place_in_the_view(penstock, http, client):
    await publish(client, *((f"k{number % 4}", b"x") for number in range(20)))
    await compact(penstock, http)
    await reader(client, start_message_id=pb.MessageIdData(ledgerId=queue_of(penstock), entryId=17))
    assert await client.entries(3) == [17, 18, 19]
    await reader(client, 1, start_message_id=pb.MessageIdData(ledgerId=queue_of(penstock), entryId=3))
    assert await client.entries(4) == [16, 17, 18, 19]
    client.say(pb.CommandSeek(consumer_id=0, request_id=client.request(), message_id=EARLIEST))
    await client.next("success")
    await reader(client)
    assert await client.entries(4) == [16, 17, 18, 19]


async def test_the_last_id_is_that_of_the_last_message_that_comes(penstock, http, client):
    await publish(client, ("a", b"1"), ("b", b"2"), ("b", b""), ("", b"keyless"))
    await compact(penstock, http)
    await reader(client)
    assert (await last_id(client)).entryId == 0
    await publish(client, ("", b"keyless"))
    assert (await last_id(client)).entryId == 4
    await compact(penstock, http)
    await publish(client, ("a", b""))
    await compact(penstock, http)
    assert (await last_id(client)).entryId == 2**64 - 1
    await client.consumer(TOPIC, "whole", 5)
    assert (await last_id(client, 5)).entryId == 5


async def test_what_retention_has_taken_of_the_topic_is_still_in_the_view(penstock, http, client):
    await publish(client, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    await compact(penstock, http)
    broker, queue = penstock.server.broker, queue_of(penstock)
    assert broker._needed(queue) == 3
    broker.store.trim(queue, 3)
    await reader(client)
    assert await client.entries(2) == [1, 2]
    await publish(client, ("b", b"4"))
    assert await client.entries(1) == [3]
    await compact(penstock, http)
    await reader(client, 1)
    assert await client.entries(2) == [2, 3]


async def test_the_end_of_a_topic_is_told_to_who_reads_compacted(penstock, http, client):
    await publish(client, ("a", b"1"), ("a", b"2"), ("b", b""))
    await compact(penstock, http)
    await http.topic("POST", "orders", "/terminate")
    await reader(client)
    assert await client.entries(1) == [1]
    client.ack(queue_of(penstock), 1, cumulative=True)
    assert (await client.next("reachedEndOfTopic")).consumer_id == 0


# --- how it is kept ---------------------------------------------------------------------------------------------------


async def test_the_view_survives_a_restart(tmp_path):
    config = configure.load(None, {}, {"server": {"data": str(tmp_path), **dict.fromkeys(PORTS, 0)}})
    async with serving(config) as penstock, client_of(penstock) as client:
        await publish(client, ("a", b"1"), ("b", b"2"), ("a", b"3"))
        await compact(penstock, Caller(penstock))
    async with serving(config) as penstock, client_of(penstock) as client:
        assert (await Caller(penstock)("GET", COMPACTION)).json["status"] == "SUCCESS"
        await reader(client)
        assert await client.entries(2) == [1, 2]


async def test_what_a_crash_left_half_written_is_dropped_at_the_start(tmp_path, monkeypatch):
    config = configure.load(None, {}, {"server": {"data": str(tmp_path), **dict.fromkeys(PORTS, 0)}})
    async with serving(config) as penstock, client_of(penstock) as client:
        await publish(client, ("a", b"1"), ("a", b"2"))
        await compact(penstock, Caller(penstock))
        kept = penstock.server.broker.compaction.view(queue_of(penstock))
        half = penstock.server.broker.compaction._new_topic(queue_of(penstock))
    async with serving(config) as penstock:
        topics = [topic.name for topic in penstock.server.broker.topics if topic.name.startswith(TOPIC_PREFIX)]
        assert topics == [kept.topic] != [half]
        assert penstock.server.broker.compaction.view(queue_of(penstock)) == kept


async def test_with_a_topic_goes_its_view(penstock, http, client):
    await publish(client, ("a", b"1"))
    await compact(penstock, http)
    view = penstock.server.broker.compaction.view(queue_of(penstock))
    assert (await http.topic("DELETE", "orders", "?force=true")).status == 204
    assert not penstock.server.broker.store.has_queue(view.queue)
    assert penstock.server.broker.store.catalog.items("compacted/") == []


async def test_a_topic_that_is_deleted_meanwhile_leaves_nothing(penstock, http, client):
    await publish(client, ("a", b"1"))
    broker, queue = penstock.server.broker, queue_of(penstock)
    assert (await http("PUT", COMPACTION)).status == 204
    await http.topic("DELETE", "orders", "?force=true")
    await broker.compaction.settled(queue)
    assert [topic.name for topic in broker.topics if topic.name.startswith(TOPIC_PREFIX)] == []
    assert broker.compaction.view(queue) is None


async def test_a_run_that_fails_says_why_and_leaves_the_view_before_it(penstock, http, client):
    await publish(client, ("a", b"1"), ("a", b"2"))
    await compact(penstock, http)
    before = penstock.server.broker.compaction.view(queue_of(penstock))
    penstock.server.broker.compaction.serve("penstock.wire.pulsar.compacting:Nothing")
    await http("PUT", COMPACTION)
    await penstock.server.broker.compaction.settled(queue_of(penstock))
    status = (await http("GET", COMPACTION)).json
    assert (status["status"], "gone" in status["lastError"]) == ("ERROR", True)
    assert penstock.server.broker.compaction.view(queue_of(penstock)) == before
    assert (await http.of("orders", "/stats"))["compaction"]["lastCompactionFailedTimestamp"] > 0


# --- when it runs -----------------------------------------------------------------------------------------------------


async def test_a_second_request_is_refused_while_one_is_under_way(penstock, http, client):
    await publish(client, ("a", b"1"))
    broker = penstock.server.broker
    async with broker.compaction._turn:
        assert (await http("PUT", COMPACTION)).status == 204
        assert (await http("GET", COMPACTION)).json["status"] == "RUNNING"
        refused = await http("PUT", COMPACTION)
        assert (refused.status, refused.reason) == (409, "Compaction already in progress")
    await broker.compaction.settled(queue_of(penstock))
    assert (await http("GET", COMPACTION)).json["status"] == "SUCCESS"


async def test_a_threshold_begins_it(penstock, http, client):
    await http.topic("PUT", "orders")
    broker = penstock.server.broker
    await http.topic("POST", "orders", "/compactionThreshold", 300)
    assert broker._needed(queue_of(penstock)) == 0
    await publish(client, ("a", b"1"))
    broker.compaction.tick()
    assert broker.compaction.status(queue_of(penstock)).state is State.NOT_RUN
    await publish(client, *([("a", b"x" * 100)] * 3))
    broker.compaction.tick()
    await broker.compaction.settled(queue_of(penstock))
    assert broker.compaction.view(queue_of(penstock)).horizon == 4
    broker.compaction.tick()
    assert broker.compaction.status(queue_of(penstock)).state is State.SUCCESS


async def test_all_partitions_are_compacted(penstock, http, client):
    await http.topic("PUT", "parts", "/partitions", 2)
    await publish(client, ("a", b"1"), ("a", b"2"), topic="persistent://public/default/parts-partition-1")
    assert (await http.topic("PUT", "parts", "/compaction")).status == 204
    for queue in penstock.server.broker.topics.get("parts").queues:
        await penstock.server.broker.compaction.settled(queue)
    assert await http.of("parts", "/compaction") == {"status": "SUCCESS", "lastError": ""}
    assert (await http.topic("PUT", "nothing", "/compaction")).status == 404


async def test_it_works_in_steps(penstock, http, client, monkeypatch):
    monkeypatch.setattr(compaction, "STEP_MESSAGES", 3)
    await publish(client, *((f"k{number % 4}", b"x") for number in range(20)))
    await compact(penstock, http)
    await publish(client, *((f"k{number % 4}", b"x") for number in range(3)))
    await compact(penstock, http)
    await reader(client)
    assert await client.entries(4) == [19, 20, 21, 22]


# --- Pulsar's own client ----------------------------------------------------------------------------------------------


async def test_pulsars_client_reads_compacted(penstock, http, tmp_path):
    await asyncio.to_thread(read_with_the_real_client, penstock, http, asyncio.get_running_loop(), tmp_path)


def read_with_the_real_client(penstock, http, loop, folder):
    with connected(penstock, folder) as client:
        client.subscribe("orders", "s", is_read_compacted=True).close()
        producer = client.create_producer("orders", batching_enabled=True, batching_max_publish_delay_ms=1_000)
        for number in range(100):
            key = f"k{number % 10}"
            producer.send_async(b"%s-%d" % (key.encode(), number), lambda *_: None, partition_key=key)
        producer.send_async(b"", lambda *_: None, partition_key="k9")  # deletes it
        producer.flush()
        asyncio.run_coroutine_threadsafe(compact(penstock, http), loop).result()
        expected = [b"k%d-%d" % (number % 10, number) for number in range(90, 99)]
        consumer = client.subscribe("orders", "s", is_read_compacted=True)
        assert [consumer.receive(10_000).data() for _ in expected] == expected
        with pytest.raises(pulsar.Timeout):
            consumer.receive(300)
        consumer.close()
        reader = client.create_reader("orders", pulsar.MessageId.earliest, is_read_compacted=True)
        read = []
        while reader.has_message_available():
            read.append(reader.read_next(10_000).data())
        assert read == expected
        producer.send(b"later", partition_key="k1")
        assert reader.read_next(10_000).data() == b"later"
        with pytest.raises(pulsar.PulsarException):
            client.subscribe("orders", "t", pulsar.ConsumerType.Shared, is_read_compacted=True)
