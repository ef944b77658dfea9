"""The hash of keys is the one that Pulsar's brokers and clients take."""

import pytest

from penstock.core.subscriptions.hashing import key_hash


@pytest.mark.parametrize(("key", "value"), [("", 0), ("key0", 1846998231), ("key-1", 414258592), ("hello", 613153351)])
def test_known_values(key, value):
    assert key_hash(key.encode()) == value
