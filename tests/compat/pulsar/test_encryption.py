"""Messages that only their readers understand: the broker passes them on as they are."""

import shutil
import subprocess

import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar.stories import numbers, publish
from tests.gateway.pulsar.conftest import stored

from penstock.wire.pulsar.entry import metadata_in


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """A pair of keys in files."""
    openssl = shutil.which("openssl")
    if openssl is None:
        unavailable("encryption", "openssl is not on the path: it makes the keys")
    folder = tmp_path_factory.mktemp("keys")
    private, public = str(folder / "private.pem"), str(folder / "public.pem")
    make = [openssl, "genrsa", "-traditional", "-out", private, "2048"]  # Go's client reads keys of this form only
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run([openssl, "pkey", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return {"public_key": public, "private_key": private}


@pytest.mark.parametrize("batch", [False, True], ids=["single", "batched"])
def test_encrypted_messages_are_passed_through(client, penstock, topic, keys, batch):
    consumer = client.subscribe(topic, "s", **keys)
    publish(client, topic, numbers(10), batch=batch, **keys)
    assert consumer.bodies(10) == numbers(10)
    for entry in stored(penstock, topic):
        metadata, at = metadata_in(memoryview(entry))
        assert [key.key for key in metadata.encryption_keys] == ["key"]
        assert bytes(entry[at:]) not in map(str.encode, numbers(10))
