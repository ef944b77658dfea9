"""Tenants, namespaces, the cluster and its broker, by HTTP."""

import pytest
from tests.gateway.pulsar.caller import Caller

from penstock import __version__
from penstock.core import namespaces, tenants
from penstock.testing.server import serving

TENANTS, NAMESPACES = "/admin/v2/tenants", "/admin/v2/namespaces"


async def test_tenants_come_and_go(http):
    assert (await http("GET", TENANTS)).json == ["public", "pulsar"]
    info = {"adminRoles": ["me"], "allowedClusters": ["standalone"]}
    assert (await http("PUT", f"{TENANTS}/a", info)).status == 204
    assert (await http("PUT", f"{TENANTS}/a", info)).status == 409
    assert (await http("GET", f"{TENANTS}/a")).json == info
    assert (await http("POST", f"{TENANTS}/a", {"adminRoles": ["you"]})).status == 204
    assert (await http("GET", f"{TENANTS}/a")).json["adminRoles"] == ["you"]
    assert (await http("GET", TENANTS)).json == ["a", "public", "pulsar"]
    assert (await http("DELETE", f"{TENANTS}/a")).status == 204
    assert (await http("GET", f"{TENANTS}/a")).status == 404
    assert (await http("DELETE", f"{TENANTS}/a")).status == 404


@pytest.mark.parametrize("name", ["a%20b", "a%2Fb", "%25", "x" * 300])
async def test_names_that_cannot_be(http, name):
    assert (await http("PUT", f"{TENANTS}/{name}")).status == 412
    assert (await http("PUT", f"{NAMESPACES}/public/{name}")).status == 412


async def test_other_clusters_are_not_there(http):
    assert (await http("PUT", f"{TENANTS}/a", {"allowedClusters": ["east"]})).status == 412
    assert (await http("PUT", f"{NAMESPACES}/public/n", {"replication_clusters": ["east"]})).status == 412


async def test_namespaces_come_and_go(http):
    assert (await http("PUT", f"{NAMESPACES}/a/n")).status == 404
    await http("PUT", f"{TENANTS}/a")
    assert (await http("PUT", f"{NAMESPACES}/a/n", {"bundles": {"numBundles": 4}})).status == 204
    assert (await http("PUT", f"{NAMESPACES}/a/n")).status == 409
    assert (await http("GET", f"{NAMESPACES}/a")).json == ["a/n"]
    assert (await http("GET", f"{NAMESPACES}/nobody")).status == 404
    policies = (await http("GET", f"{NAMESPACES}/a/n")).json
    assert policies["replication_clusters"] == ["standalone"]
    assert (await http("GET", f"{NAMESPACES}/a/n/bundles")).json["numBundles"] == 1
    assert (await http("DELETE", f"{TENANTS}/a")).status == 409
    assert (await http("DELETE", f"{NAMESPACES}/a/n")).status == 204
    assert (await http("GET", f"{NAMESPACES}/a/n")).status == 404
    assert (await http("DELETE", f"{NAMESPACES}/a/n")).status == 404


async def test_a_namespace_with_topics_is_deleted_only_by_force(http, penstock):
    await http("PUT", f"{TENANTS}/a")
    await http("PUT", f"{NAMESPACES}/a/n")
    await http("PUT", "/admin/v2/persistent/a/n/x")
    await http("PUT", "/admin/v2/persistent/a/n/y/partitions", 2)
    refused = await http("DELETE", f"{NAMESPACES}/a/n")
    assert (refused.status, refused.reason) == (409, "Cannot delete non empty namespace")
    assert (await http("DELETE", f"{TENANTS}/a?force=true")).status == 204
    assert (await http("GET", f"{NAMESPACES}/a/n")).status == 404
    assert [topic.name for topic in penstock.server.broker.topics if not topic.system] == []


async def test_what_is_always_there_cannot_be_deleted(http):
    assert (await http("DELETE", f"{NAMESPACES}/public/default?force=true")).status == 405
    assert (await http("DELETE", f"{TENANTS}/public?force=true")).status == 405


async def test_policies_that_would_not_be_kept_to_are_refused(http):
    refused = await http("PUT", f"{NAMESPACES}/public/n", {"message_ttl_in_seconds": 60, "encryption_required": True})
    assert refused.status == 405
    assert "encryption_required" in refused.reason
    assert "message_ttl_in_seconds" not in refused.reason
    assert (await http("GET", f"{NAMESPACES}/public/n")).status == 404


async def test_there_is_an_end_to_tenants_and_namespaces(http, monkeypatch):
    monkeypatch.setattr(tenants, "TENANTS_MAX", 2)
    monkeypatch.setattr(namespaces, "NAMESPACES_MAX", 2)
    assert (await http("PUT", f"{TENANTS}/a")).status == 412
    assert (await http("PUT", f"{NAMESPACES}/public/n")).status == 412


async def test_the_cluster_and_its_broker(http, penstock):
    address = penstock.addresses["http"]
    assert (await http("GET", "/admin/v2/clusters")).json == ["standalone"]
    assert (await http("GET", "/admin/v2/clusters/standalone")).json == {
        "serviceUrl": f"http://{address}",
        "brokerServiceUrl": f"pulsar://{penstock.addresses['pulsar']}",
    }
    assert (await http("GET", "/admin/v2/clusters/east")).status == 404
    assert (await http("PUT", "/admin/v2/clusters/standalone", {})).status == 409
    assert (await http("PUT", "/admin/v2/clusters/east", {})).status == 405
    assert (await http("GET", "/admin/v2/brokers")).json == [address]
    assert (await http("GET", "/admin/v2/brokers/standalone")).json == [address]
    assert (await http("GET", "/admin/v2/brokers/leaderBroker")).json["brokerId"] == address
    assert (await http("GET", "/admin/v2/brokers/version")).body == __version__.encode()
    assert (await http("GET", "/admin/v2/brokers/ready")).body == b"ok"
    assert (await http("GET", "/status.html")).body == b"OK"
    assert (await http("HEAD", "/admin/v2/brokers/health")).body == b""


async def test_a_broker_that_takes_nothing_is_not_healthy():
    async with serving() as penstock:
        http = Caller(penstock)
        assert (await http("GET", "/admin/v2/brokers/health")).body == b"ok"
        penstock.server._state = "stopping"
        answer = await http("GET", "/admin/v2/brokers/health")
        assert (answer.status, answer.reason) == (503, "stopping")
        penstock.server._state = "running"


async def test_a_namespace_is_in_the_one_cluster(http):
    path = f"{NAMESPACES}/public/default/replication"
    assert (await http("GET", path)).json == ["standalone"]
    assert (await http("POST", path, ["standalone"])).status == 204
    assert (await http("POST", path, ["standalone", "east"])).status == 412
    assert (await http("POST", path, "east")).status == 400
