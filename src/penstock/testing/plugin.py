"""The pytest plugin: `penstock_server`, a broker of its own for each test that asks for one.

    def test_orders(penstock_server):
        producer = connect(penstock_server.addresses["broker"])

Every pytest run on a machine with Penstock imports this module, so it imports nothing of the broker before a test asks.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.server import Running


@pytest.fixture
def penstock_server() -> "Iterator[Running]":
    """A broker in this process, on free ports and a temporary folder, gone after the test."""
    from penstock.testing.server import running

    with running() as server:
        yield server
