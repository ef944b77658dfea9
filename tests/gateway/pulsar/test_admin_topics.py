"""Topics by HTTP: what clients look up there, lists, and topics made, grown and deleted, with partitions or without."""

import asyncio
import random
import re
from pathlib import Path

import pytest
from tests.gateway.pulsar.caller import Caller
from tests.gateway.pulsar.conftest import one

from penstock.errors import NotAuthorized
from penstock.gateway.http.messages import Request
from penstock.model import Action
from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import ServerError

LINE = re.compile(r"^\| `([A-Z, ]+) (/\S+)`", re.MULTILINE)  # of the table in the documentation
LIST = "/admin/v2/persistent/public/default"


# --- lookup -----------------------------------------------------------------------------------------------------------


async def test_a_lookup_names_the_broker_by_the_name_that_the_client_has_used(http, penstock):
    port = penstock.addresses["pulsar"].rpartition(":")[2]
    found = await http("GET", "/lookup/v2/topic/persistent/public/default/x", Host="broker.example:8080")
    assert found.status == 200
    assert found.json["brokerUrl"] == found.json["nativeUrl"] == f"pulsar://broker.example:{port}"
    assert found.json["brokerUrlTls"] == ""
    assert found.json["httpUrl"].startswith("http://broker.example:")


async def test_a_host_that_is_none_is_not_told_back(http):
    found = await http("GET", "/lookup/v2/topic/persistent/public/default/x", Host="a b<c>/d")
    assert found.json["brokerUrl"].startswith("pulsar://127.0.0.1:")


async def test_what_is_advertised_is_told():
    async with serving(server={"advertise": ["pulsar://pulsar.example:7777"]}) as penstock:
        found = await Caller(penstock)("GET", "/lookup/v2/topic/persistent/public/default/x")
        assert found.json["brokerUrl"] == "pulsar://pulsar.example:7777"


async def test_lookups_that_find_nothing(http):
    lookup = "/lookup/v2/topic"
    assert (await http("GET", f"{lookup}/persistent/nobody/nowhere/x")).status == 404
    assert (await http("GET", f"{lookup}/persistent/public/default/x-partition-3")).status == 404
    assert (await http("GET", f"{lookup}/non-persistent/public/default/x")).status == 405
    assert (await http("GET", f"{lookup}/other/public/default/x")).status == 412
    refused = await http("GET", f"{lookup}/persistent/public/default/x?listenerName=inner")
    assert (refused.status, refused.reason) == (404, "the broker do not have inner listener")
    assert (await http("GET", f"{lookup}/persistent/public/default/x", **{"X-Pulsar-ListenerName": "i"})).status == 404


async def test_all_of_a_namespace_is_one_bundle(http):
    bundle = await http("GET", "/lookup/v2/topic/persistent/public/default/x/bundle")
    assert (bundle.status, bundle.body) == (200, b"0x00000000_0xffffffff")


async def test_the_schema_of_a_topic_is_not_there(http):
    answer = await http("GET", "/admin/v2/schemas/public/default/x/schema")
    assert answer.status == 404
    assert "schema" in answer.reason


# --- making -----------------------------------------------------------------------------------------------------------


async def test_a_topic_is_made_once_and_listed(http):
    made = await http.topic("PUT", "orders", body={"team": "sales"})
    assert (made.status, made.body) == (204, b"")
    assert "content-length" not in made.headers
    assert (await http.topic("PUT", "orders")).status == 409
    assert (await http("GET", LIST)).json == ["persistent://public/default/orders"]
    assert (await http("GET", f"{LIST}/partitioned")).json == []
    assert await http.of("orders", "/properties") == {"team": "sales"}
    assert await http.of("orders", "/partitions") == {"partitions": 0, "deleted": False, "properties": None}


async def test_a_topic_with_partitions_is_made_listed_and_grown(http):
    assert (await http.topic("PUT", "wide", "/partitions", 3)).status == 204
    assert (await http.topic("PUT", "wide", "/partitions", 3)).status == 409
    names = [f"persistent://public/default/wide-partition-{index}" for index in range(3)]
    assert (await http("GET", LIST)).json == names
    assert (await http("GET", "/admin/v2/namespaces/public/default/topics?mode=PERSISTENT")).json == names
    assert (await http("GET", "/admin/v2/namespaces/public/default/topics?mode=NON_PERSISTENT")).json == []
    assert (await http("GET", f"{LIST}/partitioned")).json == ["persistent://public/default/wide"]
    assert (await http.of("wide", "/partitions"))["partitions"] == 3
    assert (await http.topic("POST", "wide", "/partitions", 3)).status == 422
    assert (await http.topic("POST", "wide", "/createMissedPartitions")).status == 204
    assert (await http.topic("POST", "wide", "/partitions", {"partitions": 5})).status == 204
    assert (await http.of("wide", "/partitions"))["partitions"] == 5


async def test_new_partitions_have_all_subscriptions_from_the_first_message_on(http, client):
    await http.topic("PUT", "wide", "/partitions", 1)
    await http.topic("PUT", "wide", "/subscription/s")
    await http.topic("POST", "wide", "/partitions", 2)
    assert await http.of("wide-partition-1", "/subscriptions") == ["s"]
    await client.producer("wide-partition-1")
    await client.send(one(b"first"))
    assert (await http.of("wide-partition-1", "/stats"))["subscriptions"]["s"]["msgBacklog"] == 1


@pytest.mark.parametrize(
    ("body", "status"), [(0, 412), (-1, 412), (b"", 412), (1_000_000, 406), (b"{", 400), ("x", 400), (True, 400)]
)
async def test_numbers_of_partitions_that_cannot_be(http, body, status):
    answer = await http.topic("PUT", "wide", "/partitions", body)
    assert answer.status == status
    assert answer.reason


async def test_a_topic_without_partitions_does_not_get_some(http):
    await http.topic("PUT", "plain")
    assert (await http.topic("POST", "plain", "/partitions", 2)).status == 409
    assert (await http.topic("POST", "nowhere", "/partitions", 2)).status == 404
    assert (await http.topic("PUT", "plain-partition-0")).status == 404


@pytest.mark.parametrize("name", ["a/b", "../..", "%", "\n", "x" * 2_000])
async def test_names_that_are_none(http, name):
    answer = await http.topic("PUT", name)
    assert answer.status == 412
    assert answer.reason
    assert (await http("GET", LIST)).json == []


async def test_a_path_that_is_not_utf_8(http):
    assert (await http("PUT", f"{LIST}/%ff")).status == 412


async def test_topics_of_other_namespaces(http):
    assert (await http("PUT", "/admin/v2/persistent/a/b/x")).status == 404
    assert (await http("GET", "/admin/v2/persistent/a/b")).status == 404
    await http("PUT", "/admin/v2/tenants/a")
    await http("PUT", "/admin/v2/namespaces/a/b")
    assert (await http("PUT", "/admin/v2/persistent/a/b/x")).status == 204
    assert (await http("GET", "/admin/v2/persistent/a/b")).json == ["persistent://a/b/x"]
    assert (await http("GET", LIST)).json == []


async def test_asking_for_partitions_makes_a_topic_only_where_clients_may():
    async with serving(pulsar={"auto_create_partitions": 2}) as penstock:
        http = Caller(penstock)
        assert (await http.topic("GET", "x", "/partitions")).status == 404
        assert (await http.of("x", "/partitions?checkAllowAutoCreation=true"))["partitions"] == 2


# --- deleting ---------------------------------------------------------------------------------------------------------


async def test_a_topic_in_use_is_deleted_only_by_force(http, connect):
    producing, consuming = await connect(), await connect()
    await producing.producer("busy")
    await consuming.consumer("busy")
    refused = await http.topic("DELETE", "busy")
    assert (refused.status, refused.reason) == (412, "Topic has active producers/subscriptions")
    assert (await http.topic("DELETE", "busy", "?force=true")).status == 204
    await producing.next("close_producer")
    await consuming.next("close_consumer")
    assert (await http.topic("GET", "busy", "/stats")).status == 404
    assert (await http.topic("DELETE", "busy")).status == 404


async def test_a_deleted_topic_leaves_no_subscription_behind(http, client):
    await client.producer("again")
    await client.send(one(b"old"))
    await client.close_producer()
    await http.topic("PUT", "again", "/subscription/s", "earliest")
    assert (await http.topic("DELETE", "again")).status == 204
    await http.topic("PUT", "again")
    assert await http.of("again", "/subscriptions") == []


async def test_who_subscribes_while_the_topic_is_deleted_is_told(http, client, penstock, monkeypatch):
    await http.topic("PUT", "t", "/subscription/s")
    broker = penstock.server.broker

    async def deleted_meanwhile():
        await broker.topics.delete("t")

    monkeypatch.setattr(broker.subscriptions, "settled", deleted_meanwhile)
    assert (await client.not_a_consumer("t")).error == ServerError.TopicNotFound


async def test_partitions_are_deleted_together(http):
    await http.topic("PUT", "wide", "/partitions", 2)
    assert (await http.topic("DELETE", "wide")).status == 405
    assert (await http.topic("DELETE", "wide-partition-0")).status == 405
    assert (await http.topic("DELETE", "wide", "/partitions")).status == 204
    assert (await http.topic("GET", "wide", "/partitions")).status == 404
    await http.topic("PUT", "plain")
    assert (await http.topic("DELETE", "plain", "/partitions")).status == 404


async def test_a_topic_of_rocketmq_is_shown_and_changed(http, penstock):
    await penstock.server.broker.topics.create("theirs")
    names = (await http("GET", LIST)).json
    assert "persistent://public/default/theirs-partition-0" in names
    for method, rest, body in (
        ("PUT", "/subscription/s", "earliest"),
        ("POST", "/partitions", 99),
        ("DELETE", "/partitions?force=true", None),
    ):
        assert (await http.topic(method, "theirs", rest, body)).status == 204
    assert penstock.server.broker.topics.find("theirs") is None


async def test_the_brokers_own_topics_are_not_changed(http):
    answer = await http.topic("DELETE", "penstock_events", "/partitions?force=true")
    assert (answer.status, "own" in answer.reason) == (405, True)


# --- what is not served, and who may ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/admin/v2/nothing", 404),
        ("GET", "/admin/v3/functions/public/default", 404),
        ("POST", "/admin/v3/sinks/public/default/x", 404),
        ("GET", "/admin/v3/transactions/coordinatorStats", 405),
        ("GET", "/admin/v2/worker/cluster", 404),
        ("GET", "/admin/v2/resource-quotas", 404),
        ("GET", "/admin/v2/resourcegroups", 404),
        ("GET", "/admin/v2/bookies/all", 404),
        ("POST", f"{LIST}/x/replication", 405),
        ("POST", f"{LIST}/x/publishRate", 405),
        ("POST", f"{LIST}/x/other", 405),
        ("POST", "/admin/v2/namespaces/public/default/other", 405),
        ("PUT", "/admin/v2/non-persistent/public/default/x", 405),
        ("POST", f"{LIST}/x/stats", 405),
        ("GET", "/lookup/v2/destination/persistent/a/b/c/d", 404),
        ("GET", "/admin/v2/" + "x/" * 100, 404),
    ],
)
async def test_what_is_not_served_says_why(http, method, path, status):
    answer = await http(method, path)
    assert answer.status == status
    assert len(answer.reason) > 10
    assert ("allow" in answer.headers) == (status == 405)


async def test_there_are_no_topics_that_are_not_persistent(http):
    answer = await http("GET", "/admin/v2/non-persistent/public/default")
    assert (answer.status, answer.json) == (200, [])


async def test_a_web_page_of_another_site_changes_nothing(http):
    refused = await http("PUT", f"{LIST}/x", Origin="http://evil.example")
    assert (refused.status, (await http("GET", LIST)).json) == (403, [])
    assert (await http("PUT", f"{LIST}/x", Origin=f"http://{http.address}")).status == 204
    assert (await http("GET", LIST, Origin="http://other.example")).status == 200


async def test_every_route_is_documented(penstock):
    page = (Path(__file__).parents[3] / "docs" / "pulsar-http.md").read_text(encoding="utf-8")
    told = {(method, path) for methods, path in LINE.findall(page) for method in methods.split(", ")}
    routes = [route for several in penstock.server.pulsar.admin._by_length.values() for _, route in several]
    assert told == {(route.method, route.pattern) for route in routes}


class Doorman:
    def __init__(self):
        self.asked = []

    def check(self, who, action, resource):
        self.asked.append((action, resource))
        raise NotAuthorized(who, action, resource)


async def test_every_route_asks_the_authorizer(penstock, http):
    table = penstock.server.pulsar.admin
    doorman = table._authorizer = Doorman()
    routes = [route for several in table._by_length.values() for _, route in several]
    assert len(routes) > 50
    answers = await asyncio.gather(
        *(http(route.method, route.pattern.translate(str.maketrans("", "", "{}"))) for route in routes)
    )
    assert {answer.status for answer in answers} == {403}
    assert len(doorman.asked) == len(routes)
    assert (Action.ADMIN, "persistent://tenant/namespace/topic") in doorman.asked
    assert (Action.CONSUME, "persistent://tenant/namespace/topic") in doorman.asked
    assert (Action.MONITOR, "broker") in doorman.asked


# --- hostile ----------------------------------------------------------------------------------------------------------

NASTY = [
    "t",
    "s",
    "t-partition-0",
    "w",
    "0",
    "-1",
    "99999999999999999999",
    "9223372036854775807",
    "%00",
    "%0d%0a",
    "a%2Fb",
]
NASTY += ["..", "%FF", "%F0%9F%98%80", "x" * 3_000, "pulsar.repl", "public", "default", "standalone", "1e9", "%20"]
BODIES = [
    b"",
    b"null",
    b"{}",
    b"[]",
    b"-1",
    b"1e400",
    b'"latest"',
    b"\xff",
    b"[" * 5_000,
    b'{"partitions": 99999999999}',
]
BODIES += [b'{"ledgerId": 99999999999999999999999999, "entryId": -5, "batchIndex": 99999999999}']
BODIES += [b'{"ledgerId": 4, "entryId": 0, "batchIndex": 2147483647}', b'{"a": "b"}', b'{"adminRoles": [1]}']


async def test_whatever_is_asked_the_broker_does_not_fail(penstock, http, client):
    """Every route, with names, numbers and bodies that nobody in their right mind sends."""
    await http.topic("PUT", "w", "/partitions", 2)
    await client.producer("t")
    await client.send(one(b"x"))
    await http.topic("PUT", "t", "/subscription/s", "earliest")
    table, chance = penstock.server.pulsar.admin, random.Random(7)
    for route in [route for several in table._by_length.values() for _, route in several]:
        for _ in range(40):
            path = re.sub(r"\{[a-z]+\}", lambda found: chance.choice(usual(found[0]) or NASTY), route.pattern)
            query = chance.choice(["", "force=true", "messagePosition=-1", "a=b&" * 200, "initialPosition=%ff"])
            request = Request(route.method, path, query, [], chance.choice(BODIES), path, "127.0.0.1")
            answer = await table.answer(request)
            assert answer.status < 500, (request, answer)


def usual(part):
    """What keeps most requests from ending with the first name; nothing for the other parts."""
    return {"{tenant}": ["public"], "{namespace}": ["default"], "{domain}": ["persistent"]}.get(part, [])


# --- unloading --------------------------------------------------------------------------------------------------------


async def test_an_unloaded_topic_sends_everybody_away_and_takes_them_again(http, client, connect):
    assert (await http.topic("PUT", "t", "/partitions", 2)).status == 204
    partition = "t-partition-1"
    waiting = await connect()
    await client.producer(partition, producer_access_mode=pb.Exclusive)
    await client.consumer(partition)
    waits = waiting.ask_producer(partition, producer_access_mode=pb.WaitForExclusive)
    assert not (await waiting.next("producer_success")).producer_ready
    assert (await http.topic("PUT", "t", "/unload")).status == 204
    await client.next("close_producer")
    await client.next("close_consumer")
    told = await waiting.next("error")
    assert (told.request_id, told.error) == (waits, pb.ServiceNotReady)
    assert (await client.producer(partition)).producer_ready
    await client.consumer(partition)
    assert (await http.topic("PUT", "none", "/unload")).status == 404


@pytest.mark.parametrize("path", ["unload", "0x00000000_0xffffffff/unload"])
async def test_an_unloaded_namespace_sends_everybody_away_from_its_topics(http, client, connect, path):
    elsewhere = await connect()
    assert (await http("PUT", "/admin/v2/namespaces/public/other")).status == 204
    await elsewhere.producer("public/other/t")
    await client.producer("a", 1)
    await client.consumer("b")
    assert (await http("PUT", f"/admin/v2/namespaces/public/default/{path}")).status == 204
    assert (await client.next("close_producer")).producer_id == 1
    await client.next("close_consumer")
    await client.producer("a", 1)
    await client.consumer("b")
    await elsewhere.settled()
    assert elsewhere.none_of("close_producer")


@pytest.mark.parametrize("path", ["nowhere/unload", "default/0x00000000_0x80000000/unload"])
async def test_a_namespace_or_a_bundle_that_is_not_there_cannot_be_unloaded(http, path):
    answer = await http("PUT", f"/admin/v2/namespaces/public/{path}")
    assert (answer.status, bool(answer.reason)) == (404, True)
