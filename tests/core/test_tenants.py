"""Tenants: some always, others made, changed and forgotten, through a restart."""

import pytest

from penstock.core.namespaces import Namespaces
from penstock.core.tenants import Tenants
from penstock.errors import TenantExists, TenantNotFound


def tenants_of(house) -> tuple[Tenants, Namespaces]:
    namespaces = Namespaces(house.store, house.keeper, house.clock)
    return Tenants(namespaces, house.store, house.keeper, house.clock), namespaces


async def test_some_are_always_there(house):
    tenants, _ = tenants_of(house)
    assert tenants.names() == ["public", "pulsar"]
    with pytest.raises(TenantNotFound):
        await tenants.delete("public")


async def test_others_are_made_and_kept(street):
    tenants, _ = tenants_of(street.house)
    await tenants.create("shop", ["a"])
    with pytest.raises(TenantExists):
        await tenants.create("shop", [])
    await tenants.alter("shop", ["b"])
    tenants, _ = tenants_of(await street.restart())
    assert tenants.get("shop").admin_roles == ["b"]
    await tenants.delete("shop")
    tenants, _ = tenants_of(await street.restart())
    with pytest.raises(TenantNotFound):
        tenants.get("shop")


async def test_one_that_has_a_namespace_is_there(house):
    tenants, namespaces = tenants_of(house)
    await namespaces.create("shop/eu")
    assert tenants.names() == ["public", "pulsar", "shop"]
    assert tenants.get("shop").admin_roles == []
    assert tenants.namespaces_of("shop") == ["shop/eu"]
    with pytest.raises(TenantExists):
        await tenants.create("shop", [])
