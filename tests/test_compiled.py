"""Which hot loops run how, and what is said of it."""

import pytest

from penstock import compiled
from penstock.compiled import summary
from penstock.store.filling import fill_in_python


@pytest.fixture(autouse=True)
def own_account(monkeypatch):
    monkeypatch.setattr(compiled, "IN_USE", {})
    monkeypatch.delenv("PENSTOCK_PURE", raising=False)


def test_where_nothing_was_built_python_takes_its_place(monkeypatch):
    monkeypatch.setattr(compiled, "MODULES", ("penstock.store._nowhere",))
    assert compiled.compiled("penstock.store._nowhere", fill_in_python) is fill_in_python
    assert compiled.IN_USE == {"penstock.store._nowhere": False}
    assert "in Python" in summary()
    assert "No module named 'penstock.store._nowhere'" in summary()


def test_what_was_built_but_cannot_be_loaded_is_told_with_the_reason(monkeypatch, tmp_path):
    (tmp_path / "_broken.py").write_text("raise ImportError('undefined symbol: PyNothing')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(compiled, "MODULES", ("_broken",))
    assert compiled.compiled("_broken", fill_in_python) is fill_in_python
    assert "undefined symbol: PyNothing" in summary()


def test_compiled_loops_are_left_alone_when_asked_for(monkeypatch):
    monkeypatch.setattr(compiled, "MODULES", ())
    assert summary() == "the hot loops are compiled"
    monkeypatch.setenv("PENSTOCK_PURE", "1")
    assert compiled.compiled("json", fill_in_python) is fill_in_python
    assert summary().endswith("PENSTOCK_PURE is set")
