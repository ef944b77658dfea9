"""Pieces of a buffer as columns: bodies, and the properties of messages.

A column is a pair of buffers as Arrow has them: where values begin, and the values one behind the other. Properties are
found by a step per pair, compiled (`_columns.c`), as long as they are plain: ASCII, not too many, no name twice. What
is not plain, and everything where that was not built, gives None, and is taken apart by operations on arrays: those are
the definition (`properties.py`).
"""

import numpy as np
import pyarrow as pa

from penstock.compiled import compiled
from penstock.spark.hop import COMPILED, Ints
from penstock.spark.records import Octets

BINARY = pa.binary()

Column = tuple[bytes | pa.Buffer, bytes | pa.Buffer]


def spans(octets: Octets, borders: Ints, step: int, first: int = 0, kind: pa.DataType = BINARY) -> pa.Array:
    """Of the pieces between borders, in order, every `step`-th, copied behind each other."""
    every = pa.Array.from_buffers(
        kind, max(len(borders) - 1, 0), [None, pa.py_buffer(borders.astype(np.int32)), pa.py_buffer(octets)]
    )
    return every.take(pa.array(np.arange(first, len(borders) - 1, step, dtype=np.int32)))


def woven(*columns: Ints) -> Ints:
    """The first of each, then the second of each, ..."""
    out = np.empty(len(columns[0]) * len(columns), dtype=np.int64)
    for at, column in enumerate(columns):
        out[at :: len(columns)] = column
    return out


def array_of(column: Column, kind: pa.DataType = BINARY, empty_is_null: bool = False) -> pa.Array:
    borders = np.frombuffer(column[0], np.int32)
    count, valid, nulls = len(borders) - 1, None, 0
    if empty_is_null:
        there = borders[1:] > borders[:-1]
        nulls = count - int(np.count_nonzero(there))
        valid = pa.py_buffer(np.packbits(there, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(column[0]), pa.py_buffer(column[1])], nulls)


def gathered_in_python(octets: Octets, starts: Ints, ends: Ints) -> Column:
    """The pieces between these places, which are in order."""
    if not len(starts):
        return bytes(4), b""
    _, borders, values = spans(octets, woven(starts, ends), 2).buffers()
    return borders.slice(0, (len(starts) + 1) * 4), values or b""


def texts_in_python(octets: Octets, starts: Ints, ends: Ints, names: tuple[bytes, ...]) -> tuple[Column, ...] | None:
    """The properties with these names, a column for each; empty where a message has none."""
    return None


def pairs_in_python(
    octets: Octets, starts: Ints, ends: Ints, left_out: tuple[bytes, ...]
) -> tuple[bytes, Column, Column] | None:
    """Where the pairs of each message begin, their names and their values, without those that have one of the names
    `left_out`.
    """
    return None


gathered = compiled(COMPILED, gathered_in_python)
texts = compiled(COMPILED, texts_in_python)
pairs = compiled(COMPILED, pairs_in_python)
