"""What takes long: selected with `-m spark` only, as `make test-spark` does."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEST_TIMEOUT_S = 600


@pytest.hookimpl(tryfirst=True)  # before the one of the folder above, which knows shorter times
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.spark)
        if not any(mark.name == "timeout" for mark in item.iter_markers()):
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))
    if "spark" not in config.getoption("markexpr"):
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]
