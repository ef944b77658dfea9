"""What tools want to be remembered: short texts, each under a space and a key of theirs. They mean nothing here.

Facts of the catalog, as settings of groups are: durable before they are answered.
"""

import json

from penstock.errors import BadNote
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "note/"
NOTES_MAX = 10_000
NAME_CHARS_MAX, VALUE_CHARS_MAX = 255, 16_384


class Notes:
    def __init__(self, store: Store, keeper: Keeper) -> None:
        self._store, self._keeper = store, keeper
        self._values: dict[tuple[str, str], str] = {}
        for name, value in store.catalog.items(PREFIX):
            space, key = json.loads(name.removeprefix(PREFIX))
            self._values[space, key] = value.decode()

    def find(self, space: str, key: str) -> str | None:
        return self._values.get((space, key))

    def of(self, space: str) -> dict[str, str]:
        return {key: value for (own, key), value in self._values.items() if own == space}

    async def put(self, space: str, key: str, value: str) -> None:
        """Returns when it is durable."""
        self._check(space, key, value)
        self._store.put_facts({_fact(space, key): value.encode()})
        self._values[space, key] = value
        await self._keeper.durable(self._store.end_position)

    def _check(self, space: str, key: str, value: str) -> None:
        if not 0 < len(space) <= NAME_CHARS_MAX or not 0 < len(key) <= NAME_CHARS_MAX:
            raise BadNote(f"a space and a key have 1 to {NAME_CHARS_MAX} characters each")
        if len(value) > VALUE_CHARS_MAX:
            raise BadNote(f"{len(value)} characters: at most {VALUE_CHARS_MAX} are kept")
        if (space, key) not in self._values and len(self._values) >= NOTES_MAX:
            raise BadNote(f"{NOTES_MAX} are kept already: delete some")

    async def delete(self, space: str, key: str) -> None:
        """Forget it, if it is there; returns when that is durable."""
        if self._values.pop((space, key), None) is not None:
            self._store.put_facts({_fact(space, key): None})
            await self._keeper.durable(self._store.end_position)


def _fact(space: str, key: str) -> str:
    return PREFIX + json.dumps([space, key])
