"""The two brokers, started alike: a folder of their own, free ports on loopback, and both synced or neither.

`sync` is journalSyncData=true for Pulsar. It runs as `standalone` comes, without functions and stream storage, which
nothing here uses, and with a heap of 0.5 to 1 GB under G1 instead of its script's 2 GB under ZGC, all of it touched at
the start: that takes less memory, and less CPU on few cores.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from tests.compat.pulsar import peer
from tests.compat.rocketmq.peer import HOST, free_port

from bench.sides.brokers import Broker, penstock

PULSAR = "pulsar"
FLUSHES = {"async": "false", "sync": "true"}


class Ports(NamedTuple):
    pulsar: int
    http: int

    @classmethod
    def free(cls) -> Self:
        return cls(free_port(), free_port())

    @property
    def address(self) -> str:
        return f"{HOST}:{self.pulsar}"


def serving(
    name: str, folder: Path, flush: str, ports: Ports, profile: str = ""
) -> contextlib.AbstractContextManager[Broker]:
    if name == PULSAR:
        return _pulsar(folder, flush, ports)
    return penstock(folder, flush, ports.address, ports._asdict(), profile)


@contextlib.contextmanager
def _pulsar(folder: Path, flush: str, ports: Ports) -> Iterator[Broker]:
    settings = {"journalSyncData": FLUSHES[flush]}
    with peer.real_pulsar(folder, settings, peer.Ports(*ports)) as found:
        yield Broker(PULSAR, ports.address, (found.pid,))
