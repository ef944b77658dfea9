"""`pulsar-admin` itself, as it comes with a real Pulsar: there is no package of it alone."""

import json
import subprocess

import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar import toolchain
from tests.compat.rocketmq.toolchain import Missing

COMMAND_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def pulsar_admin(penstock, tmp_path_factory):
    """pulsar_admin("topics", "list", ...) runs the tool to its end."""
    try:
        command = toolchain.pulsar_admin()
    except Missing as reason:
        unavailable("pulsar-admin", reason)
    folder = tmp_path_factory.mktemp("pulsar-admin")
    settings = folder / "client.conf"
    settings.write_text(f"webServiceUrl={penstock.http}\nbrokerServiceUrl=pulsar://{penstock.addresses['pulsar']}\n")

    def run(*words):
        asked = [*command, str(settings), *words]
        return subprocess.run(asked, cwd=folder, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)

    return run


def test_pulsar_admin(pulsar_admin, topic):
    made = pulsar_admin("topics", "create-partitioned-topic", topic, "--partitions", "3")
    assert made.returncode == 0, made.stdout + made.stderr
    listed = pulsar_admin("topics", "list-partitioned-topics", "public/default").stdout
    assert f"persistent://public/default/{topic}" in listed
    told = pulsar_admin("topics", "partitioned-stats", topic, "--per-partition").stdout
    assert len(json.loads(told[told.index("{") :])["partitions"]) == 3
    again = pulsar_admin("topics", "create-partitioned-topic", topic, "--partitions", "3")
    assert again.returncode == 1
    assert "exists" in again.stdout + again.stderr
