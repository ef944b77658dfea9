"""The two brokers, started alike: a folder of their own, free ports on loopback, and the flush that was asked for.

    with serving("penstock", folder, "async", Ports.free()) as broker:
        broker.address, broker.cpu_s(), broker.resident_mb()

CPU is the broker's alone (clients hardly ask RocketMQ's name server); its memory counts. RocketMQ runs as it comes,
with a heap of 0.5 to 1 GB instead of the 8 GB that its own script would take.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from tests.compat.rocketmq import peer

from bench.sides.brokers import Broker, penstock

ROCKETMQ = "rocketmq"
SEGMENT_BYTES = 1 << 30  # RocketMQ's own default for a file of its log; the compatibility tests take less
FLUSHES = {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"}


class Ports(NamedTuple):
    namesrv: int
    broker: int

    @classmethod
    def free(cls) -> Self:
        return cls(peer.free_port(), peer.free_broker_port())

    @property
    def address(self) -> str:
        return f"{peer.HOST}:{self.namesrv}"


def serving(
    name: str, folder: Path, flush: str, ports: Ports, profile: str = ""
) -> contextlib.AbstractContextManager[Broker]:
    if name == ROCKETMQ:
        return _rocketmq(folder, flush, ports)
    return penstock(folder, flush, ports.address, ports._asdict(), profile)


@contextlib.contextmanager
def _rocketmq(folder: Path, flush: str, ports: Ports) -> Iterator[Broker]:
    settings = {"flushDiskType": FLUSHES[flush], "mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
    with peer.real_rocketmq(folder, settings=settings, ports=ports) as found:
        yield Broker(ROCKETMQ, found.namesrv, (found.pids[1], found.pids[0]))
