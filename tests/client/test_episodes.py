"""Trouble that lasts: one line when it begins and one when it is over, however often it is run into meanwhile."""

import logging

import pytest
from tests.client import fakes
from tests.client.pushing import WAITS, Inbox, consumer, send, until

from penstock import configure
from penstock.client.episodes import Troubles
from penstock.client.errors import Refused, Unreachable
from penstock.client.instance import Timers
from penstock.client.message import Message
from penstock.client.producer import Producer
from penstock.logs import Log, fields_of
from penstock.testing.server import PORTS, serving

OFTEN = Timers(
    route_interval_ms=10, heartbeat_interval_ms=10, persist_interval_ms=10, rebalance_interval_ms=50,
    request_timeout_ms=50,
)  # fmt: skip


@pytest.fixture
def said(caplog):
    """The lines that an operator sees, by level."""
    caplog.set_level(logging.DEBUG, "penstock.client")

    def lines(level: int) -> list[tuple[str, str]]:
        found = [record for record in caplog.records if record.levelno == level]
        return [(record.getMessage(), str(fields_of(record).get("address", ""))) for record in found]

    return lines


def times(said, message: str) -> int:
    """How often it was run into, said or not."""
    return sum(text == message for level in (logging.DEBUG, logging.WARNING) for text, _ in said(level))


async def test_no_name_server_is_one_line_and_one_when_it_is_back(said):
    async with fakes.cluster("broker-a") as fake, Producer(fake.namesrv, timers=OFTEN) as producer:
        await producer.send(Message("orders", b"x"))
        await fake.name_server.stop()
        await until(lambda: times(said, "not this time, it is tried again") > 3, "several refreshes")
        assert said(logging.WARNING) == [("cannot be reached, it is tried again", fake.namesrv)]
        await fake.name_server.start()
        await until(lambda: said(logging.INFO), "the end")
    assert said(logging.INFO) == [("reached again", fake.namesrv)]
    assert len(said(logging.WARNING)) == 1


async def test_a_name_server_that_does_not_answer_is_one_line_too(said, monkeypatch):
    async with fakes.cluster("broker-a") as fake, Producer(fake.namesrv, timers=OFTEN) as producer:
        await producer.send(Message("orders", b"x"))
        with monkeypatch.context() as patched:
            patched.setattr(fake.name_server, "_answer", lambda frame: None)
            await until(lambda: times(said, "not this time, it is tried again") > 3, "several refreshes")
        await until(lambda: said(logging.INFO), "the end")
    assert said(logging.WARNING) == [("not this time, it is tried again", "")]
    assert said(logging.INFO) == [("it works again", "")]


async def test_the_second_name_server_is_asked_and_the_first_one_named(said):
    async with fakes.cluster("broker-a") as gone, fakes.cluster("broker-a") as there:
        await gone.name_server.stop()
        async with Producer(f"{gone.namesrv};{there.namesrv}", timers=OFTEN) as producer:
            producer.instance.cluster._at = 0
            await producer.send(Message("orders", b"x"))
            asked = there.routes_asked
            await until(lambda: there.routes_asked > asked + 3, "several refreshes")
    assert said(logging.WARNING) == [("cannot be reached, it is tried again", gone.namesrv)]


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_broker_that_goes_away_and_comes_back_is_one_line_each(tmp_path, said, orderly):
    """Pulls, heartbeats, routes, commits, locks and rebalances all run into it, of four queues and more."""
    config = configure.load(None, {}, {"server": {"data": str(tmp_path), **dict.fromkeys(PORTS, 0)}})
    inbox = Inbox()
    async with serving(config) as penstock:
        at = {name: int(address.rpartition(":")[2]) for name, address in penstock.addresses.items()}
        addresses = {penstock.addresses["namesrv"], penstock.addresses["broker"]}
        async with Producer(penstock.addresses["namesrv"]) as producer:
            bodies = await send(producer, 8)
        one = consumer(penstock, "billing", inbox, timers=OFTEN, settings=WAITS, orderly=orderly)
        await one.start()
        await inbox.until(8)
    before = times(said, "a heartbeat was not taken, it is tried again")
    await until(lambda: times(said, "a heartbeat was not taken, it is tried again") > before + 3, "heartbeats")
    same_ports = {f"{name}_port": at[name] for name in ("namesrv", "broker")}
    async with serving(config, server=same_ports):
        async with Producer(next(iter(addresses)), timeout_ms=10_000) as producer:
            bodies += await send(producer, 8, first=8)
        await inbox.until(16)
        await until(lambda: len([1 for text, _ in said(logging.INFO) if text == "reached again"]) >= 2, "the end")
        await one.close()
    assert sorted(said(logging.WARNING)) == sorted(("cannot be reached, it is tried again", a) for a in addresses)
    assert sorted(line for line in said(logging.INFO) if line[0] == "reached again") == sorted(
        ("reached again", address) for address in addresses
    )
    assert set(inbox.bodies) == set(bodies)


async def test_one_that_accepts_and_hangs_up_is_waited_for_longer_and_longer(said):
    async with fakes.cluster("broker-a") as fake:
        fake.answers["broker-a"] = lambda frame: fake.brokers["broker-a"].hang_up()
        async with Producer(fake.namesrv, retries=3, timeout_ms=20_000) as producer:
            with pytest.raises(Unreachable):
                await producer.send(Message("orders", b"x"))
            links = producer.instance._links
            assert links._health._failures[f"127.0.0.1:{fake.brokers['broker-a'].port}"][0] >= 2
    assert [text for text, _ in said(logging.WARNING)] == ["cannot be reached, it is tried again"]


def test_troubles_are_said_once_each_and_outages_never(said):
    troubles, refused = Troubles(Log("penstock.client.x")), Refused(1, "no", "a:1")
    for who in ("a", "b", "a"):
        troubles.met(who, "no", refused)
    troubles.met("c", "no", Unreachable("a:1", "gone"))
    for who in ("a", "a", "c"):
        troubles.over(who, "yes")
    assert (len(said(logging.WARNING)), len(said(logging.INFO))) == (2, 1)
