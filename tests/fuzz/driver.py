"""Feeds targets: the corpus as it is, then seeded mutations of it. Without coverage, but with nothing to install.

A run is told by its seed: the same seed gives the same inputs. What a find was made with is kept in a file.
"""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
FINDS = Path(__file__).parents[2] / "build" / "fuzz"
BYTES_MAX = 4_096
_ODD = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\x01",
    b"\x02",
    b'"',
    b"{",
    b"[",
    b"}",
    b"'",
    b"(",
    b"-",
    b"e",
    b"\xed\xa0\x80",
)
_NUMBERS = (0, 1, 4, 8, 255, 256, 32_767, 32_768, 65_535, 2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


def corpus(target: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / target).iterdir())]


def inputs(target: str, runs: int, seed: int) -> Iterator[bytes]:
    """The corpus, and so many mutations."""
    seeds = corpus(target)
    yield from seeds
    chance = random.Random(f"{target} {seed}")
    for _ in range(runs):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 1, 2, 4, 16))):
            _mutate(data, seeds, chance)
        yield bytes(data[:BYTES_MAX])


def _mutate(data: bytearray, seeds: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(7):
        case 0:
            data[at : at + 1] = bytes((chance.randrange(256),))
        case 1:
            data[at:at] = chance.choice(_ODD) * chance.choice((1, 1, 2, 60, 2_000))
        case 2:
            del data[at : at + chance.choice((1, 2, 4, 100))]
        case 3:
            width = chance.choice((1, 2, 4))
            data[at : at + width] = (chance.choice(_NUMBERS) % (1 << 8 * width)).to_bytes(width)
        case 4:
            other = chance.choice(seeds)
            data[at:] = other[chance.randrange(len(other) + 1) :]
        case 5:
            data[at:at] = data[chance.randrange(len(data) + 1) :][:200]
        case _:
            if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)


def run(target: str, runs: int, seed: int) -> int:
    """How many inputs were fed; raises at the first find, and says how to see it again."""
    fed = 0
    for data in inputs(target, runs, seed):
        fed += 1
        try:
            TARGETS[target](data)
        except Exception as error:
            raise AssertionError(f"{target} failed: {error!r}; see it again: {kept(target, data)}") from error
    return fed


def kept(target: str, data: bytes) -> str:
    """Keep what a find was made with; the command that feeds it again."""
    FINDS.mkdir(parents=True, exist_ok=True)
    file = FINDS / f"{target}-{hashlib.sha256(data).hexdigest()[:12]}"
    file.write_bytes(data)
    return f"python -m tests.fuzz {target} --replay {file}"
