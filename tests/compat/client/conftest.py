"""The client's own suite runs on Penstock and on real RocketMQs, 5.5 and 4.9, with the same assertions.

A test that asks for a broker is run with each kind; one that is not about a broker does not ask for one. What is about
Java's client rather than about a broker is not run once more on the older broker: that would take another minute.
"""

import pytest

KINDS = ("penstock", "rocketmq", "rocketmq-4")
NOT_ON_4 = {
    "test_a_message_is_found_by_its_id_with_javas_tool",
    "test_java_replies_to_us",
    "test_s15_a_java_twin_keeps_the_id_and_ours_takes_a_fresh_one",
    "test_what_java_compressed_is_opened",
}
FEW_ON_4 = {"test_java_and_python_share_a_group": ("java-4.9.8-avg", "java-5.5.0-nearby")}


ONLY_ON = {"test_records_of_version_2_are_read": ("rocketmq",)}  # nobody else writes them


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker" in metafunc.fixturenames:
        name = metafunc.function.__name__
        kinds = ONLY_ON.get(name) or (KINDS[:2] if name in NOT_ON_4 else KINDS)
        metafunc.parametrize("broker", kinds, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    dear = [item for item in items if is_dear(item)]
    config.hook.pytest_deselected(items=dear)
    items[:] = [item for item in items if item not in dear]


def is_dear(item: pytest.Item) -> bool:
    few = FEW_ON_4.get(getattr(item, "originalname", ""))
    return few is not None and "rocketmq-4" in item.name and not item.name.rstrip("]").endswith(few)
