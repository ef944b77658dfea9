"""Namespaces, as Pulsar has them: TENANT/NAMESPACE. A topic can only be made in one that is there.

`public/default` always is, and so is `pulsar/system`, where clients look for what the broker itself provides. Others
are made by hand; each is a fact of the catalog.
"""

import msgspec

from penstock.clock import Clock
from penstock.errors import NamespaceExists, NamespaceNotFound, TooManyNamespaces
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "namespace/"
ALWAYS = ("public/default", "pulsar/system")
NAMESPACES_MAX = 10_000  # each is held in memory


class Namespace(msgspec.Struct, kw_only=True):
    """As it is kept."""

    name: str
    created_ms: int = 0


_decoder = msgspec.json.Decoder(Namespace)


class Namespaces:
    def __init__(self, store: Store, keeper: Keeper, clock: Clock) -> None:
        self._store, self._keeper, self._clock = store, keeper, clock
        found = [_decoder.decode(value) for _, value in store.catalog.items(PREFIX)]
        self._namespaces = {name: Namespace(name=name) for name in ALWAYS} | {each.name: each for each in found}

    def __contains__(self, name: str) -> bool:
        return name in self._namespaces

    def names(self) -> list[str]:
        return sorted(self._namespaces)

    async def create(self, name: str) -> Namespace:
        """A new namespace; returns when it is durable."""
        if name in self._namespaces:
            raise NamespaceExists(name)
        if len(self._namespaces) >= NAMESPACES_MAX:
            raise TooManyNamespaces("namespaces", NAMESPACES_MAX)
        made = Namespace(name=name, created_ms=self._clock.now_ms())
        self._store.put_facts({PREFIX + name: msgspec.json.encode(made)})
        self._namespaces[name] = made
        await self._keeper.durable(self._store.end_position)
        return made

    async def delete(self, name: str) -> None:
        """Forget one. Whether topics are in it is for the caller to look at."""
        if name not in self._namespaces or name in ALWAYS:
            raise NamespaceNotFound(name)
        self._store.put_facts({PREFIX + name: None})
        del self._namespaces[name]
        await self._keeper.durable(self._store.end_position)
