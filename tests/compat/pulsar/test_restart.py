"""The broker is restarted under a consumer, or killed: it goes on by itself. What was not acknowledged is not lost, and
what was does not come again; after a kill, if it was acknowledged more than a second before.
"""

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from typing import NamedTuple

import pytest
from tests.compat.pulsar.drivers import until
from tests.compat.pulsar.stories import numbers, publish
from tests.compat.rocketmq.peer import free_port

from penstock import configure
from penstock.testing.server import PORTS, running

pytestmark = pytest.mark.usefixtures("penstock")  # about Penstock alone


@pytest.fixture
def config(tmp_path):
    """Of a broker that is found again under its address."""
    data = {"server": {"data": str(tmp_path / "data"), **dict.fromkeys(PORTS, 0)}}
    return configure.load(None, {}, data)


def address(config, penstock):
    config.server.pulsar_port = int(penstock.addresses["pulsar"].rpartition(":")[2])
    return f"pulsar://{penstock.addresses['pulsar']}"


KEPT_S = 1.5  # acknowledgements are kept every second


class Served(NamedTuple):
    """A broker in a process of its own."""

    process: subprocess.Popen
    http: str


@contextlib.contextmanager
def served(folder, pulsar_port):
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    ports = [f"--{name}-port=0" for name in ("namesrv", "broker", "http")]
    settings = [f"--data={folder / 'data'}", f"--ready-file={ready}", f"--pulsar-port={pulsar_port}", *ports]
    command = [sys.executable, "-m", "penstock", "serve", *settings]
    with (folder / "log").open("a") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            until(lambda: ready.exists() and ready.read_text())
            yield Served(process, f"http://{json.loads(ready.read_text())['http']}")
        finally:
            process.kill()


def backlog(penstock, topic):
    """In entries."""
    with urllib.request.urlopen(f"{penstock.http}/admin/v2/persistent/public/default/{topic}/stats") as answer:
        return json.load(answer)["subscriptions"]["s"]["msgBacklog"]


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_consuming_goes_on_after_a_restart(config, open_client, topic, kind):
    with running(config) as penstock:
        client = open_client(address(config, penstock))
        consumer = client.subscribe(topic, "s", type=kind, queue=5)
        publish(client, topic, numbers(20))
        got = consumer.receive(10)
        consumer.ack(*(got[at] for at in (0, 1, 2, 5, 7)))
        until(lambda: backlog(penstock, topic) == 15)  # some clients collect acknowledgements before they send them
    with running(config):
        again = []
        while {int(message.body) for message in again} != {3, 4, 6, 8, 9, *range(10, 20)}:
            again += consumer.receive()
        publish(client, topic, ["new"])
        while again[-1].body != "new":  # what was waiting in the client may come twice
            again += consumer.receive()
        assert not {message.body for message in again} & {"0", "1", "2", "5", "7"}
        consumer.ack(*again)
        assert consumer.nothing()
        client.close()


@pytest.mark.parametrize("batch", [False, True], ids=["single", "batched"])
def test_s35_a_reader_goes_on_after_a_restart_where_its_application_is(config, open_client, topic, batch):
    """Its subscription is not durable, and is gone: it says itself what it has seen."""
    with running(config) as penstock:
        client = open_client(address(config, penstock))
        publish(client, topic, numbers(10), batch=batch)
        reader = client.reader(topic)
        assert [message.body for message in reader.read(4)] == numbers(4)
    with running(config):
        publish(client, topic, ["new"])
        assert [message.body for message in reader.read(7)] == [*numbers(6, 4), "new"]
        client.close()


def test_batches_in_part_after_a_restart(config, open_client, topic):
    with running(config) as penstock:
        client = open_client(address(config, penstock))
        consumer = client.subscribe(topic, "s", type="Shared", batch_ack=True)
        publish(client, topic, numbers(10), batch=True)
        got = consumer.receive(10)
        consumer.ack(*(got[at] for at in (0, 4, 9)))
        consumer.close()
    with running(config):
        again = client.subscribe(topic, "s", type="Shared", batch_ack=True)
        assert again.bodies(7) == ["1", "2", "3", "5", "6", "7", "8"]
        assert again.nothing()
        client.close()


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_consuming_goes_on_after_a_kill(tmp_path, open_client, topic, kind):
    port = free_port()
    with served(tmp_path, port) as first:
        client = open_client(f"pulsar://127.0.0.1:{port}")
        consumer = client.subscribe(topic, "s", type=kind, queue=5)
        publish(client, topic, numbers(20))
        got = consumer.receive(10)
        consumer.ack(*(got[at] for at in (0, 1, 2, 5, 7)))
        until(lambda: backlog(first, topic) == 15)
        time.sleep(KEPT_S)
        consumer.ack(got[9])  # this one may come again, and may not
        first.process.kill()
        first.process.wait()
    with served(tmp_path, port):
        again = []
        while not {3, 4, 6, 8, *range(10, 20)} <= {int(message.body) for message in again}:
            again += consumer.receive()
        assert not {message.body for message in again} & {"0", "1", "2", "5", "7"}
        consumer.ack(*again)
        client.close()
