"""Pulsar's client for Node, where it can be had: it is a binary that no package registry has.

The npm package brings sources and fetches the binary, as it is installed, from archive.apache.org. Where that cannot be
reached these tests are skipped, also where everything else is required (PENSTOCK_REQUIRE_INTEROP=1): to build it there
would need Pulsar's C++ library and its headers. The core of it is that library, which Python's client has inside too.
"""

import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar import toolchain
from tests.compat.pulsar.drivers import Client, Driver
from tests.compat.pulsar.stories import numbers, publish
from tests.compat.rocketmq.toolchain import Missing


@pytest.fixture(scope="module")
def client(penstock, tmp_path_factory):
    try:
        command = toolchain.node_driver()
    except toolchain.NotToBeHad as reason:
        pytest.skip(f"pulsar-client for Node: {reason}")
    except Missing as reason:
        unavailable("pulsar-client for Node", reason)
    driver = Driver("node", command, tmp_path_factory.mktemp("node"))
    client = Client(driver, f"pulsar://{penstock.addresses['pulsar']}")
    yield client
    client.close()
    driver.stop()


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_node_gets_what_it_sends(client, topic, kind):
    consumer = client.subscribe(topic, "s", type=kind)
    publish(client, topic, numbers(50), batch=True, compress="lz4")
    got = consumer.receive(50)
    assert [message.body for message in got] == numbers(50)
    consumer.ack(*got[:-1])
    consumer.close()
    assert client.subscribe(topic, "s", type=kind).bodies(1) == ["49"]
