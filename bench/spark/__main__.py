"""Measures the Spark source on Penstock beside Spark's own Kafka connector on a real Kafka, the same messages in both.

    python -m bench.spark                      5 million messages, three runs; writes build/bench-spark.json
    python -m bench.spark --quick              200,000 messages, one run: to see that it runs
    python -m bench.spark --full               also how a topic of 50 million reads
    python -m bench.spark --lines count,two --messages 1000000 --only penstock

One Spark (local[2]) reads from both in turns, after a first round that does not count. Kafka's connector is tuned
(kafka.max.poll.records=10000, kafka.fetch.max.wait.ms=10); both brokers write to the page cache. CPU is that of Spark
(its JVM and its Python workers) and of the broker.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.compat.rocketmq import toolchain

from bench.pagecache import Settle, full_page_cache
from bench.rocketmq.brokers import Ports, serving
from bench.sides.rounds import NOISY_SHARE
from bench.spark import messages
from bench.spark.engines import WORK, Engine, Kafka, Penstock, broker_address
from bench.spark.kafka import connector_jars, kafka
from bench.spark.lines import ENGINES, KAFKA, ORDERS, PENSTOCK, Growth, Result, growth_lines, table
from bench.spark.machine import Watch
from penstock.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "bench"
EXIT_DONE, EXIT_NOT_DONE = 0, 2
GROWTH, GROWTH_FULL = (1_000_000, 5_000_000), 50_000_000


class Place(NamedTuple):
    """An engine, and the process of its broker."""

    engine: Engine
    pid: int


class Watched(NamedTuple):
    """Spark's process, and what comes before each measurement."""

    spark_pid: int
    settle: Settle


def main() -> int:
    args = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_NOT_DONE))  # so that all processes are taken down
    found: list[Result] = []
    growth: list[Growth] = []
    trouble = ""
    try:
        with (
            full_page_cache(Path(args.folder), _say, args.memory_as_it_is) as settle,
            _standing(args) as (spark_pid, places),
        ):
            watched = Watched(spark_pid, settle)
            found.extend(_measured(args, watched, places))
            if args.growth and PENSTOCK in places:
                growth.extend(_grown(args, watched, places[PENSTOCK]))
    except (toolchain.Missing, toolchain.BuildFailed) as missing:
        trouble = f"{missing}. Without Kafka: --only {PENSTOCK}"
    except (RuntimeError, OSError) as failed:
        trouble = str(failed)
    if found:
        _report(found, growth, args)
    if trouble:
        print(f"stopped: {trouble}", file=sys.stderr)
    return EXIT_NOT_DONE if trouble else EXIT_DONE


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description="Our source beside Kafka's connector.")
    parser.add_argument("--lines", default=",".join(ORDERS), metavar="A,B", help=f"some of {', '.join(ORDERS)}")
    parser.add_argument("--only", choices=ENGINES, help="one engine")
    parser.add_argument("--messages", type=int, help="how many [5,000,000]")
    parser.add_argument("--runs", type=int, help="runs of each line [3]")
    parser.add_argument("--quick", action="store_true", help="200,000 messages, one run, no growth")
    parser.add_argument("--full", action="store_true", help="how 50 million messages read, too")
    parser.add_argument("--growth", action=argparse.BooleanOptionalAction, help="whether the cost grows with the topic")
    parser.add_argument("--memory-as-it-is", action="store_true", help="do not fill the page cache first")
    parser.add_argument("--folder", default=".", help="where the temporary files go")
    parser.add_argument("--json", default="build/bench-spark.json", metavar="FILE")
    args = parser.parse_args()
    args.lines = args.lines.split(",")
    if unknown := [word for word in args.lines if word not in ORDERS]:
        parser.error(f"there is no {unknown[0]!r}: it is one of {', '.join(ORDERS)}")
    if not Path("/proc/self/stat").exists():
        parser.error("CPU is read from /proc: this needs Linux")
    args.messages = args.messages or (200_000 if args.quick else 5_000_000)
    args.runs = args.runs or (1 if args.quick else 3)
    args.growth = (not args.quick) if args.growth is None else args.growth
    return args


@contextlib.contextmanager
def _standing(args: argparse.Namespace) -> Iterator[tuple[int, dict[str, Place]]]:
    """Brokers that hold the messages, and a Spark."""
    names = [args.only] if args.only else list(ENGINES)
    with (
        tempfile.TemporaryDirectory(prefix=".penstock-bench-", dir=args.folder) as folder,
        contextlib.ExitStack() as stack,
    ):
        place = Path(folder).absolute()
        brokers: dict[str, tuple[str, int]] = {}
        if PENSTOCK in names:
            own = stack.enter_context(serving(PENSTOCK, place / PENSTOCK, "async", Ports.free()))
            brokers[PENSTOCK] = own.address, own.pids[0]
        if KAFKA in names:
            other = stack.enter_context(kafka(place / KAFKA, _say))
            brokers[KAFKA] = other.servers, other.pid
        spark = stack.enter_context(_spark(place, connector_jars(_say) if KAFKA in names else []))
        places = {name: Place(_engine(name, spark, address), pid) for name, (address, pid) in brokers.items()}
        for name, found in places.items():
            began = time.perf_counter()
            _filled(found.engine, TOPIC, args.messages)
            _say(f"{name} has {args.messages:,} messages after {time.perf_counter() - began:.0f} s")
        yield int(spark.sparkContext._gateway.proc.pid), places


@contextlib.contextmanager
def _spark(folder: Path, jars: list[str]) -> "Iterator[SparkSession]":
    source = str(Path(__file__).parents[2] / "src")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    settings = {
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "spark"),
        **({"spark.jars": ",".join(jars)} if jars else {}),
    }
    started = session("penstock-bench", "local[2]", settings)
    try:
        yield started
    finally:
        started.stop()


def _engine(name: str, spark: "SparkSession", address: str) -> Engine:
    return Kafka(spark, address) if name == KAFKA else Penstock(spark, address, broker_address(address))


def _filled(engine: Engine, topic: str, count: int) -> None:
    if isinstance(engine, Kafka):
        for name in (topic, f"{topic}-written"):
            engine.create_topic(name)
        engine.fill(topic, 0, count)
    elif isinstance(engine, Penstock):
        for name in (topic, f"{topic}-written"):
            messages.create_topic(engine.address, name)
        messages.fill(engine.address, topic, 0, count)


# --- measuring --------------------------------------------------------------------------------------------------------


def _measured(args: argparse.Namespace, watched: Watched, places: dict[str, Place]) -> Iterator[Result]:
    """Line by line; both take turns, and who begins changes. The first round of each line does not count."""
    names = list(places)
    for key in args.lines:
        for run in range(args.runs + 1):
            for name in names if run % 2 else reversed(names):
                result = _one(key, name, places[name], watched, args.messages)
                _say(_told(result, run))
                if run:
                    yield result


def _one(key: str, name: str, place: Place, watched: Watched, rows: int) -> Result:
    watched.settle()
    with Watch(watched.spark_pid, place.pid) as used:
        own_s = WORK[key](place.engine, TOPIC, rows)
    wall_s = own_s or used.wall_s
    seconds = (wall_s, used.spark_s, used.workers_s, used.broker_s)
    return Result(key, name, rows, *seconds, used.others_share, used.worker_mb)


def _told(result: Result, run: int) -> str:
    unit = "ms" if ORDERS[result.key].is_time else "rows/s"
    return (
        f"{result.key}, {f'run {run}' if run else 'warm-up'}, {result.engine}: {result.figure:,.0f} {unit}, "
        f"CPU {result.spark_cpu_s:.1f} s Spark ({result.workers_cpu_s:.1f} its workers), "
        f"{result.broker_cpu_s:.1f} s broker, worker {result.workers_mb:.0f} MB, "
        f"{result.others_share:.0%} of the machine to others"
    )


def _grown(args: argparse.Namespace, watched: Watched, place: Place) -> Iterator[Growth]:
    """Two columns of topics of several sizes."""
    for size in (*GROWTH, *([GROWTH_FULL] if args.full else [])):
        topic = f"{TOPIC}-{size}"
        _filled(place.engine, topic, size)
        watched.settle()
        with Watch(watched.spark_pid, place.pid) as used:
            WORK["two"](place.engine, topic, size)
        found = Growth(size, used.wall_s, (used.spark_s + used.broker_s) * 1e6 / size, used.worker_mb)
        told = f"{size / used.wall_s:,.0f} rows/s, {found.cpu_us:.2f} us CPU, worker {found.workers_mb:.0f} MB"
        _say(f"{size:,} messages: {told}")
        yield found


# --- telling ----------------------------------------------------------------------------------------------------------


def _say(words: str) -> None:
    print(f"... {words}", file=sys.stderr, flush=True)


def _report(found: Sequence[Result], growth: Sequence[Growth], args: argparse.Namespace) -> None:
    import pyspark

    lines = [*table(found), *growth_lines(growth)]
    for line in lines:
        print(line.text())
    about = {"python": platform.python_version(), "cores": os.cpu_count(), "spark": pyspark.__version__}
    runs = [{**result._asdict(), "figure": result.figure, "cpu_us": result.cpu_us} for result in found]
    content = {**about, "messages": args.messages, "lines": [line.as_dict() for line in lines], "runs": runs}
    content["growth"] = [one._asdict() for one in growth]
    path = Path(args.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    if (noise := max(result.others_share for result in found)) > NOISY_SHARE:
        print(f"\nThe machine was not quiet: up to {noise:.0%} of it went to others. Read the figures with care.")
    missed = sum(not line.reached for line in lines)
    print(f"\n{len(lines)} lines, {missed} goals missed; written to {path}")


if __name__ == "__main__":
    sys.exit(main())
