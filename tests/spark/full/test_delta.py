"""`archive --format delta` on a Spark that has Delta: a process of its own, since a session has it from its start or
never. What is in the table is read by its log, as any other reader of Delta does it.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pyspark
import pytest
from tests.cli.conftest import environment
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import toolchain

from penstock.client.message import Message
from penstock.client.sync import Producer
from penstock.spark.pipelines.archive import DELTA_CATALOG, DELTA_CLASS

FOR_SPARK = "4.2."  # there is no Delta for 4.3 yet
POM = Path(__file__).with_name("delta")
pytestmark = pytest.mark.skipif(
    not pyspark.__version__.startswith(FOR_SPARK),
    reason=f"Delta is for Spark {FOR_SPARK}x, this is {pyspark.__version__}",
)


@pytest.fixture(scope="module")
def jars():
    def build(source, folder, limit_s):
        toolchain.maven(source, folder, limit_s, "")

    try:
        folder = toolchain.built("spark-delta", POM, build)
    except toolchain.Missing as reason:
        unavailable("Delta", reason)
    return (folder / "classpath").read_text(encoding="utf-8").strip().replace(":", ",")


@pytest.fixture
def archive(jars, service, tmp_path):
    def archive(topic):
        conf = {
            "spark.jars": jars,
            "spark.sql.extensions": DELTA_CLASS,
            "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
            "spark.driver.memory": "700m",
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        }
        command = [sys.executable, "-m", "penstock", "pipeline", "run", "archive", "--once", "--format", "delta"]
        command += ["--service", service, "--lake", str(tmp_path / "lake"), "--topics", topic, "--master", "local[2]"]
        command += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        variables = environment(PYTHONPATH=str(Path(__file__).parents[3] / "src"))
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return tmp_path / "lake" / "archive"

    return archive


def rows_of(table):
    """Bodies with the day and topic of their folders, of the files that the log says are in the table."""
    files = set()
    for step in sorted((table / "_delta_log").glob("*.json")):
        for line in step.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                files.add(action["add"]["path"])
            if "remove" in action:
                files.discard(action["remove"]["path"])
    found = Counter()
    for file in files:
        bodies = pq.ParquetFile(table / unquote(file)).read(columns=["body"])["body"]
        found.update((file.split("/")[0], int(body.as_py())) for body in bodies)
    return found


def test_s48_a_delta_table_has_each_message_once_and_goes_on(archive, penstock, new_name):
    topic = new_name("orders")

    def send(numbers):
        with Producer(penstock.addresses["namesrv"], "shop") as producer:
            producer.send_all([Message(topic, b"%d" % number) for number in numbers])

    send(range(300))
    table = archive(topic)
    assert rows_of(table) == Counter((f"topic={topic}", number) for number in range(300))
    send(range(300, 350))
    archive(topic)
    assert rows_of(table) == Counter((f"topic={topic}", number) for number in range(350))
