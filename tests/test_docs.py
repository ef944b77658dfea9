"""What the documents say of files, links, dependencies and scenarios is so."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "tests" / "scenarios.md"]
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
SCENARIOS = (ROOT / "tests" / "scenarios.md").read_text(encoding="utf-8")
NOT_BUILT: set[str] = set()
TO_COME = {"console/"}
FOLDERS = ["", "src/penstock", "src/penstock/store", "tests", "tests/simulation"]


def headings(page: Path) -> set[str]:
    """As GitHub makes them into anchors."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in headings(target), link


def test_the_readme_lists_every_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    documents = text.partition("## Documents")[2]
    assert [page.name for page in ROOT.glob("docs/*.md") if f"](docs/{page.name})" not in documents] == []


def test_files_that_the_architecture_names_are_there():
    names = set(re.findall(r"`([\w./]+(?:\.py|\.proto|\.c|\.h|/))`", ARCHITECTURE.partition("## Decisions")[0]))
    gone = [name for name in names - TO_COME if not is_there(name)]
    assert gone == []
    assert len(names) > 100


def is_there(name: str) -> bool:
    """By its path from one of the roots; without a folder, wherever it is: its folder stands before it in the table."""
    if "/" in name:
        return any((ROOT / folder / name).exists() for folder in FOLDERS)
    return any(True for top in ("src", "tests", ".") for _ in (ROOT / top).glob(name if top == "." else f"**/{name}"))


def test_the_architecture_names_every_loop_that_is_compiled():
    loops = [file.relative_to(ROOT / "src" / "penstock").as_posix() for file in ROOT.glob("src/**/*.c")]
    assert loops
    assert [loop for loop in loops if f"`{loop}`" not in ARCHITECTURE] == []


def test_every_dependency_says_what_it_is_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[\[>=<]", each)[0] for each in wanted} - {"penstock"}
    text = (ROOT / "docs" / "DEPENDENCIES.md").read_text(encoding="utf-8")
    assert [
        name for name in names if not re.search(rf"^\| (?:[\w-]+, )*{name}(?:, [\w-]+)* \|", text, re.MULTILINE)
    ] == []


# --- scenarios --------------------------------------------------------------------------------------------------------


def files_by_scenario() -> dict[str, set[str]]:
    """Which files have a test that is named after it."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / "tests").rglob("test_*.py"):
        for number in re.findall(r"def test_s(\d\d)_", file.read_text(encoding="utf-8")):
            found.setdefault(f"S{number}", set()).add(file.relative_to(ROOT / "tests").as_posix())
    return found


def mapped() -> dict[str, set[str]]:
    rows = re.findall(r"^\| (S\d\d) \|[^|]*\|(.*)\|$", SCENARIOS, re.MULTILINE)
    return {number: set(re.findall(r"`([\w/]+\.py)`", files)) for number, files in rows}


def test_every_scenario_has_a_test_or_is_not_built():
    numbers = {f"S{number:02}" for number in range(1, 53)}
    assert mapped().keys() == numbers
    assert (
        numbers - files_by_scenario().keys() == NOT_BUILT == {number for number, files in mapped().items() if not files}
    )


def test_the_map_names_files_that_are_there_and_some_that_name_the_scenario():
    named = files_by_scenario()
    for number, files in mapped().items():
        assert [file for file in files if not (ROOT / "tests" / file).exists()] == [], number
        assert files & named.get(number, set()) or number in NOT_BUILT, number
