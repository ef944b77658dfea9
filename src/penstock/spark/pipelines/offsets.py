"""Offsets as Spark keeps and reports them: JSON whose leaves are numbers, one per queue. Pure.

How the source nests them is its own affair: two documents of one shape can be compared, leaf by leaf.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

Path = tuple[str, ...]


def leaves(document: object, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """Every number in a JSON document, with where it stands."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            yield from leaves(value, (*path, str(name)))
    elif isinstance(document, int) and not isinstance(document, bool):
        yield path, document


def parsed(text: object) -> object:
    """Spark gives a document as text or parsed already."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def distance(reached: object, latest: object) -> int | None:
    """How many messages are between two places; None when either is not known."""
    here, there = dict(leaves(parsed(reached))), dict(leaves(parsed(latest)))
    if not here or not there:
        return None
    return sum(max(offset - here.get(queue, 0), 0) for queue, offset in there.items())


def behind(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """How far a query is behind, by what Spark reports of its sources."""
    known = [distance(one.get("endOffset"), one.get("latestOffset")) for one in sources]
    told = [messages for messages in known if messages is not None]
    return sum(told) if told else None
