"""Pieces as columns: compiled they are what arrays make of them, and nothing outside of the data is read."""

import os
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiled import built
from tests.spark.test_decode import PROPERTIES, simple, written

from penstock.compiled import IN_USE
from penstock.spark import properties
from penstock.spark.gather import array_of, gathered_in_python
from penstock.spark.hop import COMPILED
from penstock.spark.properties import NAMES, Apart, Properties
from penstock.spark.records import records_in

_columns = built(COMPILED)
PLAIN = st.lists(st.sampled_from(["a", "KEYS", "TAGS", "UNIQ_KEY", "\x01", "\x02", "xyz"]), max_size=12).map("".join)


def test_the_compiled_columns_are_in_use():
    assert IN_USE[COMPILED] or os.environ.get("PENSTOCK_PURE")


def places(*pieces: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array([piece[side] for piece in pieces], dtype=np.int64) for side in (0, 1))


@given(st.binary(max_size=50), st.lists(st.integers(0, 50), max_size=12))
def test_pieces_are_the_same_compiled_and_in_python(data: bytes, borders: list[int]):
    borders = sorted(min(border, len(data)) for border in borders)[: len(borders) // 2 * 2]
    octets, (starts, ends) = np.frombuffer(data, np.uint8), places(*zip(borders[::2], borders[1::2], strict=True))
    slow, fast = (array_of(gather(octets, starts, ends)) for gather in (gathered_in_python, _columns.gathered))
    slow.validate(full=True)
    fast.validate(full=True)
    assert slow.equals(fast)
    assert fast.to_pylist() == [data[start:end] for start, end in zip(borders[::2], borders[1::2], strict=True)]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PLAIN, PROPERTIES), max_size=6), st.sampled_from([(), ("a",), ("KEYS", "TAGS", "xyz")]))
def test_properties_are_the_same_compiled_and_by_arrays(texts: list[str], left_out: tuple[str, ...]):
    records = records_in(written([simple(properties=text) for text in texts]))
    found, defined = Properties(records), Apart(records)
    for name in NAMES:
        column = found.column(name)
        column.validate(full=True)
        assert column.to_pylist() == defined.values(name).column().to_pylist()
    maps = found.maps(left_out)
    maps.validate(full=True)
    assert maps.to_pylist() == defined.maps(left_out).to_pylist()
    everything = [{name: value for name, value in row if name not in left_out} for row in defined.maps().to_pylist()]
    assert [dict(row) for row in maps.to_pylist()] == everything


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PLAIN, PROPERTIES), min_size=1, max_size=3), st.lists(st.integers(0, 2), max_size=12))
def test_properties_like_those_of_the_message_before_are_the_same_too(texts: list[str], order: list[int]):
    """The compiled loop looks first for the names that the message before had, and for all of what several had."""
    records = records_in(written([simple(properties=texts[at % len(texts)]) for at in order]))
    assert_as_defined(Properties(records), Apart(records))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["KEYS\x01", "TAGS\x01", "UNIQ_KEY\x01", "name\x01", "value\x02", "v\x02"]), max_size=9),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from("\x00\x01\x02\x03aKS\x7f\u00e9")), max_size=12),
)
def test_properties_that_differ_in_one_character_only(pieces: list[str], changes: list[tuple[int, str]]):
    """As long as others, and like them nearly everywhere."""
    plain, some = "".join(pieces), []
    for at, character in changes:
        at %= len(plain) + 1
        some += [plain, plain[:at] + character + plain[at + 1 :]]
    records = records_in(written([simple(properties=text) for text in [plain] * 3 + some]))
    assert_as_defined(Properties(records), Apart(records))


def assert_as_defined(found: Properties, defined: Apart) -> None:
    for name in NAMES:
        assert found.column(name).to_pylist() == defined.values(name).column().to_pylist()


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize(
    ("before", "text", "keys"),
    [
        ("KEYS\x01abcdefghijklmnopqr\x02", "KEYS\x01abcdefghijklm\x02opqr\x02", "abcdefghijklm"),
        ("KEYS\x01abcdefghijklmnopqr\x02", "KEYX\x01abcdefghijklmnopqr\x02", None),
        ("KEYS\x01abcdefghijklmnopqr\x02", "KEYS\x01rstuvwxyzabcdefghi\x02", "rstuvwxyzabcdefghi"),
        ("KEYS\x01abcdefghijklmnopqr\x02", "KEYS\x01abcd\x01fghi\x03klmnopqr\x02", "abcd\x01fghi\x03klmnopqr"),
        ("KEYS\x01a\x02TAGS\x01b\x02", "KEYS\x01\x02TAGS\x01b\x02", None),  # a pair without a value does not count
        ("KEYS\x01a\x02TAGS\x01b\x02", "KEYS\x01c\x01d\x02", "c\x01d"),
        ("KEYS\x01a\x02x\x01b", "KEYS\x01a\x02KEYS\x01b", "b"),  # of two the later does
        ("x\x01a\x02KEYS\x01b", "KEYS\x01c", "c"),
        ("KEYS\x01a", "KEYSx\x01a\x02KEYS\x01", None),
        ("KEYS\x01a", "KEYS", None),
    ],
)
def test_a_message_that_differs_from_those_before(before: str, text: str, keys: str | None, times: int):
    records = records_in(written([*[simple(properties=before)] * times, simple(properties=text)]))
    assert Properties(records).column("KEYS").to_pylist()[times] == keys


def compiled_pairs(text: bytes):
    return _columns.pairs(text, *places((0, len(text))), ())


def test_plain_properties_are_taken_by_the_compiled_loop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(properties, "texts", _columns.texts)
    monkeypatch.setattr(properties, "pairs", _columns.pairs)
    monkeypatch.delattr(properties, "Apart")
    found = Properties(records_in(written([simple(properties="KEYS\x01k\x02a\x01b\x02"), simple()])))
    assert found.column("KEYS").to_pylist() == ["k", None]
    assert found.maps().to_pylist() == [[("KEYS", "k"), ("a", "b")], []]
    assert found.maps(("KEYS",)).to_pylist() == [[("a", "b")], []]


@pytest.mark.parametrize("text", ["a\x01\u00e9\x02", "a\x011\x02a\x012", "".join(f"{at}\x01x\x02" for at in range(65))])
def test_properties_that_are_not_plain_are_left_to_arrays(text: str):
    assert compiled_pairs(text.encode()) is None


def test_as_many_pairs_as_are_plain():
    text = "".join(f"{at}\x01x\x02" for at in range(64)).encode()
    firsts, names, values = compiled_pairs(text)
    assert np.frombuffer(firsts, np.int32).tolist() == [0, 64]
    assert array_of(names, pa.string()).to_pylist() == [str(at) for at in range(64)]
    assert array_of(values, pa.string()).to_pylist() == ["x"] * 64


@pytest.mark.parametrize("lying", [(-1, 2), (0, 6), (3, 2), (2**62, 2**62 + 1), (-(2**63), 2**63 - 1)])
@pytest.mark.parametrize("name", ["gathered", "pairs", "texts"])
def test_places_outside_of_the_data_are_refused(name: str, lying: tuple[int, int]):
    more = ((b"KEYS",),) if name != "gathered" else ()
    with pytest.raises(ValueError, match="not inside"):
        getattr(_columns, name)(b"a\x01b\x02c", *places((0, 5), lying), *more)


def test_numbers_that_do_not_belong_together_are_refused():
    for starts, ends in ((bytes(8), bytes(16)), (bytes(7), bytes(7))):
        with pytest.raises(ValueError, match="not inside"):
            _columns.gathered(b"abc", starts, ends)


@pytest.mark.parametrize("names", [("KEYS",), (b"x",) * 9])
@pytest.mark.parametrize("take", [_columns.texts, _columns.pairs])
def test_names_are_bytes_and_few(take: Callable[..., object], names: tuple[object, ...]):
    with pytest.raises(ValueError, match="names are bytes"):
        take(b"", b"", b"", names)
