"""What this broker calls itself, and where clients are told to find it.

The address that clients are told (routes, store host, message ids) is the advertised one, or else the one that they
came to. Routes can carry a name; records and ids only numbers: there a name is what it stood for when the broker
started, and the address that the client came to when it stood for nothing.
"""

import contextlib
import socket
from collections.abc import Callable

from penstock.config import ServerConfig
from penstock.gateway.address import for_rocketmq, joined
from penstock.gateway.rocketmq.connection import Connection, packed_host

CLUSTER, BROKER = "DefaultCluster", "penstock"
DEFAULT_TOPIC_QUEUES = 8
READ_WRITE, INHERIT = 6, 1


class House:
    def __init__(self, config: ServerConfig, port: Callable[[], int]) -> None:
        self._port, self._bound_host = port, config.host
        self._host, self._advertised_port = for_rocketmq(config.advertise)
        self._packable = resolved(self._host) if self._host else ""

    def host_for(self, connection: Connection) -> str:
        return self._host or connection.local_host

    @property
    def own_store_host(self) -> bytes:
        """Of messages that the broker writes by itself, and that no client's address goes with."""
        for host in (self._packable, self._bound_host):
            with contextlib.suppress(OSError):
                if host not in ("", "0.0.0.0", "::"):
                    return packed_host(host, self.port)
        return packed_host("127.0.0.1", self.port)

    @property
    def port(self) -> int:
        return self._advertised_port or self._port()

    def address_for(self, connection: Connection) -> str:
        return joined(self.host_for(connection), self.port)

    def store_host_for(self, connection: Connection) -> bytes:
        """As records carry it."""
        if not connection.store_host:
            connection.store_host = packed_host(self._packable or connection.local_host, self.port)
        return connection.store_host


def resolved(host: str) -> str:
    """The numbers that a name stands for, short ones first; empty when it stands for nothing here."""
    with contextlib.suppress(OSError, UnicodeError):
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return str(sorted(found, key=lambda item: item[0] != socket.AF_INET)[0][4][0])
    return ""
