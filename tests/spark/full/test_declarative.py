"""The project of Spark Declarative Pipelines under `examples/` runs as it stands, but for its addresses.

Once: a second run needs a catalog that outlives its process, which is the user's (Spark's own forgets its tables).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pyspark
import pytest

from penstock.client.message import Message
from penstock.client.sync import Producer
from penstock.spark.java import java_home

ROOT = Path(__file__).parents[3]
RUN_TIMEOUT_S = 240
EXAMPLE = ROOT / "examples" / "declarative"


@pytest.fixture
def project(penstock, tmp_path):
    """A copy of it that reads from the broker of the tests and remembers in a folder of its own."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder)
    file = folder / "spark-pipeline.yml"
    text = file.read_text(encoding="utf-8").replace("127.0.0.1:9876", penstock.addresses["namesrv"])
    file.write_text(text.replace("/tmp/penstock-declarative", str(tmp_path / "storage")), encoding="utf-8")
    return folder


def run(project, warehouse):
    home = java_home()
    variables = {
        **os.environ,
        **({"JAVA_HOME": home} if home else {}),
        "PYTHONPATH": str(ROOT / "src"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",  # Spark's own word for any free port
    }
    conf = {
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.driver.memory": "900m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    command = [Path(sys.executable).with_name("spark-pipelines"), "run", "--remote", "local[2]"]
    command += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        command, cwd=project, env=variables, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def rows(warehouse, table, *columns):
    found = ds.dataset(warehouse / table, format="parquet", partitioning="hive").to_table(columns=list(columns))
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_the_declarative_example_makes_its_tables(penstock, project, tmp_path):
    orders = [{"id": number, "customer": "ada", "amount": number * 10.0} for number in range(200)]
    with Producer(penstock.addresses["namesrv"], "shop") as producer:
        producer.send_all([Message("orders", json.dumps(order).encode()) for order in orders])
    warehouse = tmp_path / "warehouse"
    run(project, warehouse)
    assert len(set(rows(warehouse, "archive", "queue", "offset"))) == 200
    assert rows(warehouse, "large_orders", "id") == [(number,) for number in range(101, 200)]
    assert rows(warehouse, "revenue", "customer", "orders", "revenue") == [("ada", 200, sum(range(200)) * 10.0)]
