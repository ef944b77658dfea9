"""The heads of many records at once: what a record is up to its body (`record`), as arrays of numpy."""

import numpy as np
import numpy.typing as npt

from penstock.wire.rocketmq.codes import SysFlag
from penstock.wire.rocketmq.record import HOST_V4_BYTES, HOST_V6_BYTES


def _head_type(born_v6: int, store_v6: int) -> np.dtype[np.void]:
    born, store = (HOST_V6_BYTES if v6 else HOST_V4_BYTES for v6 in (born_v6, store_v6))
    return np.dtype([
        ("length", ">u4"), ("magic", ">u4"), ("crc", ">u4"), ("queue", ">i4"), ("flag", ">i4"), ("offset", ">i8"),
        ("physical", ">i8"), ("sys_flag", ">i4"), ("born_ms", ">i8"), ("born_host", f"V{born}"), ("store_ms", ">i8"),
        ("store_host", f"V{store}"), ("reconsume_times", ">i4"), ("prepared", ">i8"), ("body_bytes", ">u4"),
    ])  # fmt: skip


HEAD_TYPES = {  # by the two bits of sysFlag that say how long the hosts are
    born | store: _head_type(born, store) for born in (0, SysFlag.BORN_HOST_V6) for store in (0, SysFlag.STORE_HOST_V6)
}


def v6_flags(born_host: bytes, store_host: bytes) -> int:
    """Those two bits."""
    born, store = len(born_host) > HOST_V4_BYTES, len(store_host) > HOST_V4_BYTES
    return born * SysFlag.BORN_HOST_V6 | store * SysFlag.STORE_HOST_V6


def windows(data: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.void]:
    """`data` as overlapping things of `width` bytes, one from each byte on: to take and to put at any places, each with
    one copy.
    """
    count = max(len(data) - width + 1, 0)
    return np.ndarray((count,), f"V{width}", data, 0, (1,))
