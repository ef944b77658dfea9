"""What tools want to be remembered."""

import pytest

from penstock.core import notes
from penstock.core.notes import Notes
from penstock.errors import BadNote


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_a_note_is_there_after_a_restart(street, how):
    told = Notes(street.house.store, street.house.keeper)
    await told.put('a "space"', "key/1", "value")
    await told.put('a "space"', "gone", "soon")
    await told.delete('a "space"', "gone")
    await told.delete('a "space"', "never there")
    house = await getattr(street, how)()
    again = Notes(house.store, house.keeper)
    assert (again.find('a "space"', "key/1"), again.find('a "space"', "gone")) == ("value", None)
    assert (again.of('a "space"'), again.of("another")) == ({"key/1": "value"}, {})


@pytest.mark.parametrize(
    ("space", "key", "value"),
    [("", "key", ""), ("space", "", ""), ("x" * 256, "key", ""), ("space", "key", "x" * (notes.VALUE_CHARS_MAX + 1))],
)
async def test_what_is_too_much_is_refused(house, space, key, value):
    told = Notes(house.store, house.keeper)
    with pytest.raises(BadNote):
        await told.put(space, key, value)
    assert told.of(space) == {}


async def test_there_are_not_too_many(house, monkeypatch):
    monkeypatch.setattr(notes, "NOTES_MAX", 2)
    told = Notes(house.store, house.keeper)
    for key in ("one", "two", "one"):
        await told.put("space", key, "value")
    with pytest.raises(BadNote, match="delete some"):
        await told.put("space", "three", "value")
