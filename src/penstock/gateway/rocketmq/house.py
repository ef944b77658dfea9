"""What this broker calls itself, and where clients are told to find it.

The address that clients are told (routes, store host, message ids) is the advertised one, or else the one that they
came to.
"""

import contextlib
from collections.abc import Callable

from penstock.config import ServerConfig
from penstock.gateway.rocketmq.connection import Connection, packed_host

CLUSTER, BROKER = "DefaultCluster", "penstock"
DEFAULT_TOPIC_QUEUES = 8
READ_WRITE, INHERIT = 6, 1


class House:
    def __init__(self, config: ServerConfig, port: Callable[[], int]) -> None:
        self._port, self._bound_host = port, config.host
        host, _, advertised_port = (config.advertise[0] if config.advertise else "").rpartition(":")
        if not host:
            host, advertised_port = advertised_port, ""
        self._host, self._advertised_port = host.strip("[]"), int(advertised_port or 0)

    def host_for(self, connection: Connection) -> str:
        return self._host or connection.local_host

    @property
    def own_store_host(self) -> bytes:
        """Of messages that the broker writes by itself, and that no client's address goes with."""
        for host in (self._host, self._bound_host):
            with contextlib.suppress(OSError):
                if host not in ("", "0.0.0.0", "::"):
                    return packed_host(host, self.port)
        return packed_host("127.0.0.1", self.port)

    @property
    def port(self) -> int:
        return self._advertised_port or self._port()

    def address_for(self, connection: Connection) -> str:
        host = self.host_for(connection)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def store_host_for(self, connection: Connection) -> bytes:
        """As records carry it. A name cannot be packed: then it is the address that the client came to."""
        if not connection.store_host:
            try:
                connection.store_host = packed_host(self.host_for(connection), self.port)
            except OSError:
                connection.store_host = packed_host(connection.local_host, self.port)
        return connection.store_host
