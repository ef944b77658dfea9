"""Places in a queue, as people write them."""

import datetime as dt

import pytest

from penstock.admin.errors import BadPlace
from penstock.admin.place import Place, place

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", Place("earliest")),
        ("LATEST", Place("latest")),
        ("0", Place("offset", 0)),
        (" 1234 ", Place("offset", 1234)),
        ("90s", Place("time", NOW_MS - 90_000)),
        ("15m", Place("time", NOW_MS - 900_000)),
        ("2h", Place("time", NOW_MS - 7_200_000)),
        ("1d", Place("time", NOW_MS - 86_400_000)),
        ("999999999d", Place("time", 0)),
        ("@1769860800000", Place("time", 1_769_860_800_000)),
        ("2026-01-31T12:00Z", Place("time", 1_769_860_800_000)),
        ("2026-01-31T13:00:00.500+01:00", Place("time", 1_769_860_800_500)),
    ],
)
def test_a_place(text, found):
    assert place(text, NOW_MS) == found


def test_a_time_without_a_zone_is_of_this_machine():
    there = dt.datetime(2026, 1, 31, 12).astimezone()
    assert place("2026-01-31T12:00", NOW_MS) == Place("time", int(there.timestamp() * 1000))


@pytest.mark.parametrize(
    "text", ["", "soon", "-1", "1.5", "15 minutes", "@", "@x", "@999999999999999", "2026-13-01", "9" * 30, "١٢"]
)
def test_no_place(text):
    with pytest.raises(BadPlace, match="is no place in a queue"):
        place(text, NOW_MS)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Place("earliest"), "earliest"),
        (Place("offset", 7), "offset 7"),
        (Place("time", 1_769_860_800_000), "2026-01-31T12:00:00.000+00:00"),
    ],
)
def test_as_text(found, text):
    assert str(found) == text
