"""Numbers that are made of many values at once: checksums of bodies, and the hashes that choose queues by keys.

Values stand one behind the other in a buffer, as Arrow has them; borders, numbers of 32 bits, say where each begins and
the last one ends. A number per value comes back, as bytes. Compiled where that could be built, in `_records.c`.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from penstock.compiled import compiled

Borders = npt.NDArray[np.int32]

_COMPILED = "penstock.wire.rocketmq._records"


def checksums_in_python(data: memoryview, borders: Borders) -> bytes:
    """What RocketMQ's clients check bodies by: CRC-32 without the sign."""
    found = [crc32(data[start:end]) & 0x7FFFFFFF for start, end in pairwise(borders.tolist())]
    return np.array(found, dtype=np.uint32).tobytes()


def java_hashes_in_python(data: memoryview, borders: Borders) -> bytes:
    """Java's String.hashCode of each, which have to be ASCII: all at once, character by character."""
    octets, starts, lengths = np.frombuffer(data, dtype=np.uint8), borders[:-1].astype(np.int64), np.diff(borders)
    codes = np.zeros(len(starts), dtype=np.uint32)
    for place in range(int(lengths.max(initial=0))):
        more = lengths > place
        codes[more] = codes[more] * np.uint32(31) + octets[starts[more] + place]
    return codes.tobytes()


checksums = compiled(_COMPILED, checksums_in_python)
java_hashes = compiled(_COMPILED, java_hashes_in_python)
