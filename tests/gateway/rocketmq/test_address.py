"""Where clients are told to find the broker: in routes, in stored messages, in message ids."""

import asyncio
import contextlib
import json
import socket

import pytest
from tests.gateway.rocketmq.conftest import Client

from penstock.errors import ConfigError
from penstock.gateway.address import advertised
from penstock.testing.server import Running, serving
from penstock.wire.rocketmq.codes import RequestCode

OWN = "own"  # the port that it listens on
NOWHERE = "no-such-host.invalid"


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


async def connected(penstock: Running, where: str = "broker") -> Client:
    host, _, port = penstock.addresses[where].rpartition(":")
    return Client(*await asyncio.open_connection(host.strip("[]"), int(port)))


async def told(penstock: Running) -> tuple[str, str, str]:
    """The address in the route, in the id that a producer gets, and in the message that a consumer gets."""
    client = await connected(penstock)
    sent = await client.send("orders", b"x")
    route = json.loads(bytes((await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})).body))
    cluster = json.loads(bytes((await client.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body))
    (message,) = await client.messages("orders")
    await client.close()
    address = route["brokerDatas"][0]["brokerAddrs"]["0"]
    assert cluster["brokerAddrTable"]["penstock"]["brokerAddrs"]["0"] == address
    return address, unpacked(bytes.fromhex(sent.ext["msgId"])[:-8]), unpacked(message.store_host)


def unpacked(host: bytes) -> str:
    family = socket.AF_INET if len(host) == 8 else socket.AF_INET6
    return f"{socket.inet_ntop(family, host[:-4])} {int.from_bytes(host[-4:])}"


@pytest.mark.parametrize(
    ("advertise", "in_routes", "in_messages"),
    [
        ("10.1.2.3:4567", "10.1.2.3:4567", "10.1.2.3 4567"),
        ("10.1.2.3", f"10.1.2.3:{OWN}", f"10.1.2.3 {OWN}"),
        ("localhost:4567", "localhost:4567", "127.0.0.1 4567"),
        (f"{NOWHERE}:4567", f"{NOWHERE}:4567", "127.0.0.1 4567"),
        ("[2001:db8::1]:4567", "[2001:db8::1]:4567", "2001:db8::1 4567"),
        ("[2001:db8::1]", f"[2001:db8::1]:{OWN}", f"2001:db8::1 {OWN}"),
        ("2001:db8::1", f"[2001:db8::1]:{OWN}", f"2001:db8::1 {OWN}"),
        ("", f"127.0.0.1:{OWN}", f"127.0.0.1 {OWN}"),
    ],
)
async def test_what_is_advertised_is_what_everybody_is_told(advertise, in_routes, in_messages, monkeypatch):
    lookup = socket.getaddrinfo  # no question leaves this machine

    def local_only(host, *rest, **more):
        if host == NOWHERE:
            raise socket.gaierror("not known")
        return lookup(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", local_only)
    async with serving(server={"advertise": [advertise] if advertise else []}) as penstock:
        port = penstock.addresses["broker"].rpartition(":")[2]
        expected = [text.replace(OWN, port) for text in (in_routes, in_messages, in_messages)]
        assert list(await told(penstock)) == expected


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
async def test_a_broker_on_ipv6_is_found_there():
    async with serving(server={"host": "::1"}) as penstock:
        port = penstock.addresses["broker"].rpartition(":")[2]
        assert await told(penstock) == (f"[::1]:{port}", f"::1 {port}", f"::1 {port}")


async def test_a_message_is_found_by_an_id_with_an_advertised_address():
    async with serving(server={"advertise": ["[2001:db8::1]:4567"]}) as penstock:
        client = await connected(penstock)
        sent = await client.send("orders", b"x")
        physical = int(sent.ext["msgId"][-16:], 16)
        found = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": physical})
        assert b"orders" in bytes(found.body)
        await client.close()


@pytest.mark.parametrize(
    "text", ["host:port", "host:0", "host:65536", ":5", "", "[::1", "a b:5", "http://host:5", "[]:5"]
)
def test_what_cannot_be_advertised_is_said(text):
    with pytest.raises(ConfigError, match="cannot be advertised"):
        advertised(text)
