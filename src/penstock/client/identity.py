"""ClientIDs: who an instance is in the eyes of a cluster.

`address@instance`, as Java has it. The instance part of producers and cluster consumers holds the process, the time in
nanoseconds and a few random digits, so that it is unique also in containers that share host name, address and process
number. A broadcast consumer keeps `DEFAULT`: its offsets file lives under its ClientID.
"""

import itertools
import os
import secrets
import socket
import struct
import time

STABLE_INSTANCE = "DEFAULT"


def local_address() -> str:
    """The address that this machine would use to talk to others; no packet is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address that is nobody's: only the choice of interface matters
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def fresh_client_id(unit: str = "") -> str:
    """One that nobody else has."""
    instance = f"{os.getpid()}#{time.monotonic_ns()}#{secrets.token_hex(4)}"
    return "@".join(part for part in (local_address(), instance, unit) if part)


def stable_client_id(unit: str = "") -> str:
    """The same at every start on this machine."""
    return "@".join(part for part in (local_address(), STABLE_INSTANCE, unit) if part)


class UniqueKeys:
    """Message ids in the shape that Java gives them, since tools take them apart: address, process, a random part, the
    time since the month began (local time, in ms) and a counter, as hex. A message is found by it, and the time narrows
    the search.
    """

    def __init__(self) -> None:
        fixed = socket.inet_aton(local_address()) + struct.pack(">H", os.getpid() & 0xFFFF) + secrets.token_bytes(4)
        self._fixed = fixed.hex().upper()
        self._count = itertools.count()
        self._month_ms = self._next_month_ms = 0

    def next(self, now_ms: int) -> str:
        if not self._month_ms <= now_ms < self._next_month_ms:
            self._month_ms, self._next_month_ms = month_of(now_ms)
        return f"{self._fixed}{now_ms - self._month_ms & 0xFFFFFFFF:08X}{next(self._count) & 0xFFFF:04X}"


def month_of(now_ms: int) -> tuple[int, int]:
    """When the month of a time begins and ends, here."""
    now = time.localtime(now_ms // 1000)
    begins, ends = (time.mktime((now.tm_year, month, 1, 0, 0, 0, 0, 0, -1)) for month in (now.tm_mon, now.tm_mon + 1))
    return int(begins * 1000), int(ends * 1000)
