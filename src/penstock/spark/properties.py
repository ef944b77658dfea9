"""The properties of many messages, taken apart at once.

Nearly all are plain, and found by a compiled loop (`gather.py`). `Apart` is for all of them, and right by definition:
properties stand in one buffer, each message's behind two separators (in the place of their length), so that every pair
begins behind a separator and no pair reaches from one message into the next:

    02 02 NAME 01 VALUE 02 NAME 01 VALUE 02   02 02 NAME 01 VALUE   02 02   ...

`wire/rocketmq/properties.py` has the rules: no escaping, a pair without a name or a value does not count, of two with
one name the later does. Text that is not UTF-8 is kept with its bad bytes replaced.
"""

import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.gather import Column, array_of, gathered, pairs, spans, texts, woven
from penstock.spark.hop import Ints
from penstock.spark.records import LENGTH_BYTES, Octets, Plain, Records
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.properties import NAME_END, VALUE_END

_NAME_END, _VALUE_END = ord(NAME_END), ord(VALUE_END)
_WORD_BYTES = 8
_CODES_MAX = 64  # names that fit into the bits of one number
NAMES = (props.KEYS, props.TAGS, props.UNIQ_KEY)  # what has columns
_NAMES = tuple(name.encode() for name in NAMES)


class Properties:
    """What columns are made of: plain ones as they are found, others by arrays."""

    def __init__(self, records: Records | Plain) -> None:
        self._records = records
        starts, ends = records.properties()
        self._where = records.octets, starts + LENGTH_BYTES, ends

    def column(self, name: str) -> pa.Array:
        """One of `NAMES`, for each message; null where there is none."""
        if self._plain is None:
            return self._apart.values(name).column()
        return array_of(self._plain[NAMES.index(name)], pa.string(), empty_is_null=True)

    def maps(self, left_out: tuple[str, ...] = ()) -> pa.Array:
        """Of each message, all but those with these names."""
        found = pairs(*self._where, tuple(name.encode() for name in left_out))
        if found is None:
            return self._apart.maps(left_out)
        firsts = pa.Array.from_buffers(pa.int32(), len(self._records) + 1, [None, pa.py_buffer(found[0])])
        return pa.MapArray.from_arrays(firsts, array_of(found[1], pa.string()), array_of(found[2], pa.string()))

    @functools.cached_property
    def _plain(self) -> tuple[Column, ...] | None:
        return texts(*self._where, _NAMES)

    @functools.cached_property
    def _apart(self) -> "Apart":
        return Apart(self._records)


class Apart:
    def __init__(self, records: Records | Plain) -> None:
        starts, ends = records.properties()
        self._count = len(starts)
        sizes = ends - starts
        self._rows = np.concatenate(([0], np.cumsum(sizes)))  # where each message's begin, and the end
        self._keep(np.frombuffer(gathered(records.octets, starts, ends)[1], np.uint8)[: int(sizes.sum())])
        self._octets[self._rows[:-1]] = self._octets[self._rows[:-1] + 1] = _VALUE_END
        if not _is_utf8(self._octets):
            self._mend()

    def _keep(self, octets: Octets) -> None:
        """A copy, with room behind it, so that words can be read at any place."""
        self._roomy = np.zeros(len(octets) + _WORD_BYTES, dtype=np.uint8)
        self._octets = self._roomy[: len(octets)]
        self._octets[:] = octets

    def _mend(self) -> None:
        """Message by message: it is as rare as it is wrong."""
        whole, rows = self._octets.tobytes(), self._rows.tolist()
        texts = [whole[rows[at] : rows[at + 1]].decode(errors="replace").encode() for at in range(self._count)]
        self._rows = np.concatenate(([0], np.cumsum([len(text) for text in texts])))
        self._keep(np.frombuffer(b"".join(texts), np.uint8))

    @functools.cached_property
    def _pieces(self) -> tuple[Ints, Ints, Octets]:
        """Between separators: where each piece begins and ends, and its first byte (any, of an empty one)."""
        marks = np.flatnonzero(self._octets == _VALUE_END)
        starts, ends = marks + 1, np.append(marks[1:], len(self._octets))
        return starts, ends, self._roomy[starts]

    def values(self, name: str) -> "Values":
        """Of one property."""
        starts, ends, initials = self._pieces
        marker = (name + NAME_END).encode()
        found = np.flatnonzero((initials == marker[0]) & (ends - starts > len(marker)))
        at, until = starts[found], ends[found]
        for first in range(0, len(marker), _WORD_BYTES):
            same = self._have(at + first, marker[first : first + _WORD_BYTES])
            if not same.all():
                at, until = at[same], until[same]
        begins = at + len(marker)
        return Values(self._octets, begins, until, self._rows_of(begins), self._count)

    def _have(self, at: Ints, word: bytes) -> npt.NDArray[np.bool_]:
        """Whether these bytes stand there: compared as one number. (There is room behind the last of them.)"""
        words = np.ndarray((len(self._roomy) - _WORD_BYTES + 1,), "<u8", self._roomy, 0, (1,))
        mask = (1 << 8 * len(word)) - 1
        same: npt.NDArray[np.bool_] = words[at] & np.uint64(mask) == np.uint64(int.from_bytes(word, "little"))
        return same

    def _rows_of(self, places: Ints) -> Ints:
        """Which messages these places belong to. Most often to each its own."""
        if len(places) == self._count and (places >= self._rows[:-1]).all() and (places < self._rows[1:]).all():
            return np.arange(self._count)
        return np.searchsorted(self._rows, places, side="right") - 1

    def maps(self, left_out: tuple[str, ...] = ()) -> pa.Array:
        """Of each message, all but those with these names."""
        names, name_ends, ends = self._pairs()
        firsts = np.searchsorted(names, self._rows)
        borders = woven(names, name_ends, name_ends + 1, ends)
        keys = spans(self._octets, borders, 4, 0, pa.string())
        kept = _kept(keys, np.diff(firsts), left_out)
        values = spans(self._octets, borders, 4, 2, pa.string())
        if kept is not None:
            keys, values = (column.filter(pa.array(kept)) for column in (keys, values))
            firsts = np.concatenate(([0], np.cumsum(kept)))[firsts]
        return pa.MapArray.from_arrays(pa.array(firsts.astype(np.int32)), keys, values)

    def _pairs(self) -> tuple[Ints, Ints, Ints]:
        """Where names begin, where they end (their values begin one behind), and where their values end."""
        marks = np.flatnonzero((self._octets - np.uint8(_NAME_END)) <= _VALUE_END - _NAME_END)
        opens = np.flatnonzero(self._octets[marks] == _VALUE_END)
        behind = np.append(marks, len(self._octets))
        ends = behind[np.append(opens[1:], len(marks))]
        names, name_ends = marks[opens] + 1, behind[opens + 1]
        told = (name_ends > names) & (name_ends + 1 < ends)
        return names[told], name_ends[told], ends[told]


class Values:
    """The values of one property: which messages have one, and which."""

    def __init__(self, octets: Octets, begins: Ints, ends: Ints, rows: Ints, count: int) -> None:
        self._octets, self._begins, self._ends = octets, begins, ends
        self.chosen = np.full(count, -1, dtype=np.int64)
        self.chosen[rows] = np.arange(len(rows))  # of several for one message, the last

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        return self.chosen < 0

    def found(self) -> pa.Array:
        """Those there are; `chosen` says which belongs to which message."""
        return spans(self._octets, woven(self._begins, self._ends), 2, 0, pa.string())

    def column(self) -> pa.Array:
        """One for each message, null where there is none."""
        found = self.found()
        if len(found) == len(self.chosen) and not self.missing.any():
            return found
        return found.take(pa.array(self.chosen, mask=self.missing))


def _is_utf8(octets: Octets) -> bool:
    """Pairs end at separators, which are characters of their own: what is sound as a whole is so in its parts."""
    if not len(octets) or int(octets.max()) < 0x80:
        return True
    try:
        str(octets.data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _kept(keys: pa.Array, counts: Ints, left_out: tuple[str, ...]) -> npt.NDArray[np.bool_] | None:
    """Which pairs stay; None for all of them."""
    last = _last_of_each(keys, counts)
    if not left_out or not len(keys):
        return last
    asked_for = np.asarray(pc.invert(pc.is_in(keys, value_set=pa.array(left_out, pa.string()))))
    return asked_for if last is None else last & asked_for


def _last_of_each(keys: pa.Array, counts: Ints) -> npt.NDArray[np.bool_] | None:
    """Which pairs stay when of two with one name in one message the later counts; None for all of them."""
    if not len(keys):
        return None
    codes = np.asarray(keys.dictionary_encode().indices).astype(np.int64)
    names = int(codes.max()) + 1
    owners = np.repeat(np.arange(len(counts)), counts)
    if names <= _CODES_MAX:
        firsts = np.cumsum(counts) - counts
        some = counts > 0
        bits = np.bitwise_or.reduceat(np.uint64(1) << codes.astype(np.uint64), firsts[some])
        if (np.bitwise_count(bits) == counts[some]).all():
            return None
    pairs = owners * names + codes
    _, last = np.unique(pairs[::-1], return_index=True)
    if len(last) == len(pairs):
        return None
    kept = np.zeros(len(pairs), dtype=np.bool_)
    kept[len(pairs) - 1 - last] = True
    return kept
