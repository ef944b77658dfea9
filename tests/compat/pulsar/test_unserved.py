"""What is not served, or cannot be: every client is told at once, and none waits until its patience ends."""

import time

import pytest
from tests.compat.pulsar.drivers import Told

pytestmark = pytest.mark.usefixtures("penstock")  # about Penstock alone
AT_ONCE_S = 5  # the clients would wait for 20


@pytest.fixture(autouse=True)
def at_once():
    start = time.monotonic()
    yield
    assert time.monotonic() - start < AT_ONCE_S


@pytest.mark.parametrize("what", ["producer", "subscribe", "reader"])
@pytest.mark.parametrize("where", ["non-persistent://public/default/{}", "persistent://public/nowhere/{}"])
def test_where_there_is_nothing(client, topic, where, what):
    name = where.format(topic)
    opens = {
        "producer": lambda: client.producer(name),
        "subscribe": lambda: client.subscribe(name, "s"),
        "reader": lambda: client.reader(name),
    }
    with pytest.raises(Told):
        opens[what]()


def test_names_of_subscriptions_that_are_reserved(client, topic):
    with pytest.raises(Told):
        client.subscribe(topic, "pulsar.dedup")
