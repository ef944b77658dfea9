"""The client's own suite runs on Penstock and on a real RocketMQ, with the same assertions.

A test that asks for a broker is run with both kinds; one that is not about a broker does not ask for one.
"""

import pytest

KINDS = ("penstock", "rocketmq")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker" in metafunc.fixturenames:
        metafunc.parametrize("broker", KINDS, indirect=True, scope="session")
