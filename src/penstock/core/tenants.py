"""Tenants, as Pulsar has them: the first part of a namespace's name. A namespace is only made for one that is there.

`public` and `pulsar` always are, and so is one that has a namespace; others are made by hand, each a fact of the
catalog. Who administers a tenant is kept for those who ask; it decides nothing until users are configured.
"""

import msgspec

from penstock.clock import Clock
from penstock.core.namespaces import Namespaces
from penstock.errors import TenantExists, TenantNotFound, TooManyNamespaces
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "tenant/"
ALWAYS = ("public", "pulsar")
TENANTS_MAX = 10_000  # each is held in memory


class Tenant(msgspec.Struct, kw_only=True):
    """As it is kept."""

    name: str
    admin_roles: list[str] = []
    created_ms: int = 0


_decoder = msgspec.json.Decoder(Tenant)


class Tenants:
    def __init__(self, namespaces: Namespaces, store: Store, keeper: Keeper, clock: Clock) -> None:
        self._namespaces, self._store, self._keeper, self._clock = namespaces, store, keeper, clock
        self._kept = {name: Tenant(name=name) for name in ALWAYS}
        for _, value in store.catalog.items(PREFIX):
            tenant = _decoder.decode(value)
            self._kept[tenant.name] = tenant

    def names(self) -> list[str]:
        return sorted(self._kept.keys() | {name.partition("/")[0] for name in self._namespaces.names()})

    def get(self, name: str) -> Tenant:
        if name in self._kept:
            return self._kept[name]
        if self.namespaces_of(name):
            return Tenant(name=name)
        raise TenantNotFound(name)

    def namespaces_of(self, name: str) -> list[str]:
        return [each for each in self._namespaces.names() if each.partition("/")[0] == name]

    async def create(self, name: str, admin_roles: list[str]) -> None:
        """A new one; returns when it is durable."""
        if name in self._kept or self.namespaces_of(name):
            raise TenantExists(name)
        if len(self._kept) >= TENANTS_MAX:
            raise TooManyNamespaces("tenants", TENANTS_MAX)
        await self._put(Tenant(name=name, admin_roles=admin_roles, created_ms=self._clock.now_ms()))

    async def alter(self, name: str, admin_roles: list[str]) -> None:
        await self._put(msgspec.structs.replace(self.get(name), admin_roles=admin_roles))

    async def _put(self, tenant: Tenant) -> None:
        self._store.put_facts({PREFIX + tenant.name: msgspec.json.encode(tenant)})
        self._kept[tenant.name] = tenant
        await self._keeper.durable(self._store.end_position)

    async def delete(self, name: str) -> None:
        """Forget one. Whether namespaces are in it is for the caller to look at."""
        if name not in self._kept or name in ALWAYS:
            raise TenantNotFound(name)
        self._store.put_facts({PREFIX + name: None})
        del self._kept[name]
        await self._keeper.durable(self._store.end_position)
