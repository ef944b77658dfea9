"""Where records begin: the hop from record length to record length. It is a step per message, and so it is compiled
where that could be built (`_columns.c`).
"""

import struct
from array import array

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.wire.rocketmq.record import BYTES_MIN

Ints = npt.NDArray[np.int64]
Buffer = bytes | bytearray | memoryview

COMPILED = "penstock.spark._columns"
_LENGTH = struct.Struct(">I")


def borders_in(data: Buffer) -> Ints | None:
    """Where each record begins, and where the last one ends; None when they do not fill the buffer."""
    found = _borders(data)
    return None if found is None else np.frombuffer(found, np.int64)


def borders_in_python(data: Buffer) -> bytes | None:
    """The same, as bytes."""
    at, found, unpack = 0, [0], _LENGTH.unpack_from
    while len(data) - at >= BYTES_MIN:
        length = unpack(data, at)[0]
        if length < BYTES_MIN:
            return None
        at += length
        found.append(at)
    return array("q", found).tobytes() if at == len(data) else None


_borders = compiled(COMPILED, borders_in_python)
