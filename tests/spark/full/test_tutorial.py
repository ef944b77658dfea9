"""The tutorial in docs/spark.md does what it says and prints what it shows."""

from pathlib import Path

import pytest

from penstock.spark import session
from penstock.testing import tutorial

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "spark.md"


def test_the_tutorial_prints_what_it_shows(spark, penstock, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "session", lambda name: spark)  # there is one in this process
    monkeypatch.chdir(ROOT)
    replaced = {"127.0.0.1:9876": penstock.addresses["namesrv"], "/tmp/penstock-tutorial": str(tmp_path / "lake")}
    blocks = tutorial.blocks(tutorial.section(DOCUMENT.read_text(encoding="utf-8"), "Tutorial"))
    assert len(blocks) >= 8
    namespace: dict[str, object] = {}
    for block in blocks:
        assert tutorial.run(block, namespace, replaced, DOCUMENT.name) == block.prints, f"line {block.line}"


def test_the_sql_in_the_tutorial_is_the_example():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert (ROOT / "examples" / "large_orders.sql").read_text(encoding="utf-8") in text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```python\nx = 1\n```", [(2, "x = 1", "")]),
        ("a\n```python\nx\n```\n```text\nout\n```\n```sql\nSELECT\n```", [(3, "x", "out")]),
        ("```text\nout\n```", []),
    ],
)
def test_blocks_of_a_document(text, found):
    assert [tuple(block) for block in tutorial.blocks(text)] == found


def test_a_section_keeps_its_line_numbers():
    assert tutorial.section("# A\n## B\nb\n## C\nc", "B") == "\n## B\nb\n\n"
