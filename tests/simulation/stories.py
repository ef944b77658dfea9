"""Which seed tells of which group."""

from tests.simulation.broadcasting import Broadcasting
from tests.simulation.subscribing import Subscribing
from tests.simulation.world import World, run

KINDS: tuple[type[World], ...] = (World, Broadcasting, World, Subscribing)


def told(seed: int) -> tuple[list[str], World]:
    """A seed's story; what is broken at its end."""
    return run(seed, KINDS[seed % len(KINDS)])


def seeds_of(kind: type[World], count: int) -> list[int]:
    """The first seeds that tell of such a group."""
    mine = [at for at, other in enumerate(KINDS) if other is kind]
    return sorted(at + len(KINDS) * turn for at in mine for turn in range(count))[:count]
