"""Namespaces: some always, others made and forgotten, through a restart."""

import pytest

from penstock.core.namespaces import Namespaces
from penstock.errors import NamespaceExists, NamespaceNotFound


def namespaces_of(house) -> Namespaces:
    return Namespaces(house.store, house.keeper, house.clock)


async def test_some_are_always_there(house):
    namespaces = namespaces_of(house)
    assert namespaces.names() == ["public/default", "pulsar/system"]
    with pytest.raises(NamespaceNotFound):
        await namespaces.delete("public/default")


async def test_others_are_made_and_kept(street):
    namespaces = namespaces_of(street.house)
    await namespaces.create("shop/eu")
    with pytest.raises(NamespaceExists):
        await namespaces.create("shop/eu")
    namespaces = namespaces_of(await street.restart())
    assert namespaces.names() == ["public/default", "pulsar/system", "shop/eu"]
    await namespaces.delete("shop/eu")
    assert "shop/eu" not in namespaces_of(await street.restart())
