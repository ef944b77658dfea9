"""The offsets file between the Java client and ours: each reads and goes on with what the other has written."""

import pytest
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import JAVA_4, JAVA_5, Process

from penstock.client.consumer.offsets_file import OffsetsFile
from penstock.client.routes import MessageQueue

INSTANCE, GROUP = "DEFAULT", "readers"
A0, A1, RETRY = (MessageQueue("orders", "broker-a", number) for number in (0, 1, 12))


@pytest.fixture(params=[JAVA_4, JAVA_5], ids=lambda client: client.name)
def java(request, tmp_path):
    """The Java client's store: what it reads, after it has written something."""
    try:
        command = toolchain.DRIVERS[request.param.driver]()
    except toolchain.Missing as reason:
        unavailable(request.param.name, reason)
    folder = f"-Drocketmq.client.localOffsetStoreDir={tmp_path}"

    def offsets(write: dict[MessageQueue, int] | None = None) -> dict[MessageQueue, int]:
        pairs = ",".join(f"{queue}={offset}" for queue, offset in (write or {}).items())
        words = ["offsets", "--group", GROUP, "--instance", INSTANCE, *(["--write", pairs] if pairs else [])]
        with Process([command[0], folder, *command[1:], *words], tmp_path) as process:
            (line,) = process.to_the_end()
        assert line["clientId"] == f"127.0.0.1@{INSTANCE}"
        split = {tuple(name.split("/")): offset for name, offset in line["offsets"].items()}
        return {MessageQueue(topic, broker, int(number)): offset for (topic, broker, number), offset in split.items()}

    return offsets


@pytest.fixture
def ours(tmp_path):
    return OffsetsFile(tmp_path, f"127.0.0.1@{INSTANCE}", GROUP)


def test_s30_we_read_what_java_wrote(java, ours):
    java({A0: 5, A1: 2**40})
    assert ours.load() == {A0: 5, A1: 2**40}


def test_s30_java_reads_what_we_wrote(java, ours):
    ours.save({A0: 5, A1: 2**40, RETRY: 0})
    assert java() == {A0: 5, A1: 2**40, RETRY: 0}


def test_s30_each_goes_on_with_what_the_other_wrote(java, ours):
    java({A0: 1, A1: 1})
    ours.save({A1: 2, RETRY: 2})
    assert java({A0: 3}) == {A0: 3, A1: 2, RETRY: 2}
    ours.path.write_bytes(b"{")
    assert ours.load() == {A0: 1, A1: 2, RETRY: 2}, "the .bak that Java has left"
    ours.save({A0: 4})
    ours.save({A0: 5})
    ours.path.write_bytes(b"{")
    assert java() == {A0: 4, A1: 2, RETRY: 2}, "the .bak that we have left"
