"""Where records begin: the hop from record length to record length, one record after the other or many at once.

One hop is a step of Python per message, and was the dearest part of decoding. So a large buffer is cut into lanes: each
begins where a record seems to begin (the word behind the length is the magic number), and all lanes hop together, a few
array operations per step. A lane that ends exactly where the next one begins proves that the next one was right to
begin there: the first begins at the beginning of the buffer, so, lane by lane, all of them are right. A body may hold
what looks like a record; then some lane does not end there, and the buffer is hopped through one by one.
"""

import struct

import numpy as np
import numpy.typing as npt

from penstock.wire.rocketmq.record import BYTES_MIN, MAGIC

Ints = npt.NDArray[np.int64]
Buffer = bytes | bytearray | memoryview

_LENGTH = struct.Struct(">I")
_MARK = MAGIC.to_bytes(4)[:3]  # what both versions of the magic number begin with
LANES_FROM_BYTES = 64 << 10
_LANE_RECORDS = 32  # about: fewer are more lanes to find, more are more steps
_STEPS_MAX = 16 * _LANE_RECORDS


def borders_in(data: Buffer) -> Ints | None:
    """Where each record begins, and where the last one ends; None when they do not fill the buffer."""
    found = _by_lanes(memoryview(data)) if len(data) >= LANES_FROM_BYTES else None
    return found if found is not None else _one_by_one(data)


def _one_by_one(data: Buffer) -> Ints | None:
    """As few steps per record as there can be: the end comes as the error of reading a length behind the buffer, and a
    length of zero cannot hold it up.
    """
    at, found, unpack = 0, list[int](), _LENGTH.unpack_from
    append = found.append
    try:
        for _ in range(len(data) // BYTES_MIN + 2):
            append(at)
            at += unpack(data, at)[0]
    except struct.error:
        pass
    return np.array(found, dtype=np.int64) if at == len(data) else None


def _by_lanes(view: memoryview) -> Ints | None:
    """None when it cannot be done like this."""
    begins = _beginnings(view)
    if begins is None:
        return None
    ends = np.append(begins[1:], len(view))
    lengths = np.ndarray((len(view) - 3,), ">u4", np.frombuffer(view, np.uint8), 0, (1,))
    at, steps = begins, [begins]
    for _ in range(_STEPS_MAX):
        going = at < ends
        if going.all():
            at = at + lengths[at]
        elif going.any():
            at = at.copy()
            at[going] += lengths[at[going]]
        else:
            break
        if (at > ends).any():
            return None
        steps.append(at)
    lanes = np.array(steps).T
    found = lanes[lanes < ends[:, None]]
    return np.append(found, len(view)) if (lanes[:, -1] == ends).all() else None


def _beginnings(view: memoryview) -> Ints | None:
    """Where lanes begin: as far apart as so many records of this buffer are, going by its first ones. Each is looked
    for as far as four of these.
    """
    stride = 0
    for _ in range(_LANE_RECORDS):
        if stride > len(view) - 4:
            return None
        stride += _LENGTH.unpack_from(view, stride)[0]
    far = 4 * stride // _LANE_RECORDS + 8
    found = [0]
    for place in range(stride, len(view) - stride, stride or 1):
        seen = bytes(view[place : place + far]).find(_MARK)
        if seen < 0 or place + seen - 4 <= found[-1]:
            return None
        found.append(place + seen - 4)
    return np.array(found, dtype=np.int64) if stride >= _LANE_RECORDS * BYTES_MIN else None
