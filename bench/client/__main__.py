"""Measures the client for Python and the Java client on one Penstock, one core for the client, one for the broker.

    python -m bench.client                     three runs of every line; writes build/bench-client.json
    python -m bench.client --quick             one short run: to see that it runs
    python -m bench.client --only python       without Java
    python -m bench.client --lines send --durability sync

They take turns on the same broker, after a first round of each that does not count. CPU is that of the client.
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

from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import Process

from bench.client.lines import JAVA, ORDERS, OURS, Result, table
from bench.lines import settle
from bench.machine import cpu_s, machine_cpu_s
from bench.rocketmq.brokers import ROCKETMQ, Ports, serving
from bench.rocketmq.lines import RACE
from bench.sides.brokers import PENSTOCK, Broker
from bench.sides.lines import FULL, QUICK, Amounts
from bench.sides.load import WAIT_S, Load, LoadFailed
from bench.sides.rounds import NOISY_SHARE

EXIT_DONE, EXIT_NOT_DONE = 0, 2


def main() -> int:
    args = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_NOT_DONE))  # so that all processes are taken down
    found: list[Result] = []
    trouble = ""
    try:
        found.extend(_measure(args))
    except (toolchain.Missing, toolchain.BuildFailed) as missing:
        trouble = f"{missing}. Without Java: --only {OURS}"
    except (LoadFailed, RuntimeError, AssertionError, OSError) as failed:
        trouble = str(failed)
    if found:
        _report(found, args)
    if trouble:
        print(f"stopped: {trouble}", file=sys.stderr)
    return EXIT_NOT_DONE if trouble else EXIT_DONE


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description="Our client beside the Java client.")
    parser.add_argument("--lines", default=",".join(ORDERS), metavar="A,B", help=f"some of {', '.join(ORDERS)}")
    parser.add_argument("--only", choices=[OURS, JAVA], help="one client")
    parser.add_argument("--durability", choices=["async", "sync"], default="async", help="of the broker")
    parser.add_argument("--quick", action="store_true", help="one short run")
    parser.add_argument("--runs", type=int, help=f"runs of each line [{FULL.runs}]")
    parser.add_argument("--folder", default=".", help="where the temporary files go")
    parser.add_argument("--json", default="build/bench-client.json", metavar="FILE")
    args = parser.parse_args()
    args.lines = args.lines.split(",")
    if unknown := [word for word in args.lines if word not in ORDERS]:
        parser.error(f"there is no {unknown[0]!r}: it is one of {', '.join(ORDERS)}")
    if not Path("/proc/self/stat").exists():
        parser.error("CPU is read from /proc: this needs Linux")
    return args


def _measure(args: argparse.Namespace) -> list[Result]:
    amounts = QUICK if args.quick else FULL
    amounts = amounts._replace(runs=args.runs or amounts.runs)
    names = [args.only] if args.only else [OURS, JAVA]
    cores = sorted(os.sched_getaffinity(0))
    with (
        tempfile.TemporaryDirectory(prefix=".penstock-bench-", dir=args.folder) as folder,
        contextlib.ExitStack() as stack,
    ):
        place = Path(folder).absolute()
        with _pinned(cores[0]):
            broker = stack.enter_context(serving(PENSTOCK, place / "broker", args.durability, Ports.free()))
        with _pinned(cores[-1]):
            clients = {name: stack.enter_context(_started(name, place / name)) for name in names}
        return [
            result
            for key in args.lines
            for run in range(amounts.runs + 1)
            for name in (names if run % 2 else reversed(names))
            if (result := _result(key, name, clients[name], broker, amounts, run)) and run
        ]


@contextlib.contextmanager
def _pinned(core: int) -> Iterator[None]:
    """What is started in here runs on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _started(name: str, home: Path) -> Load:
    if name == JAVA:
        return Load.started(ROCKETMQ, RACE.message, home, _say)
    home.mkdir(parents=True)
    root = Path(__file__).parents[2]  # the process has a home of its own
    command = ["env", "-C", str(root), sys.executable, "-m", "bench.client.ours"]
    return Load(Process(command, home, WAIT_S).ready(), RACE.message)


def _result(key: str, name: str, load: Load, broker: Broker, amounts: Amounts, run: int) -> Result:
    settle()
    order = ORDERS[key]
    load.begin(broker.address, order.order, **order.words, **amounts.words())
    before = _used(load, broker)
    figures = load.end()
    wall_s, used, others = (now - then for now, then in zip(_used(load, broker), before, strict=True))
    share = max(0.0, others / (wall_s * (os.cpu_count() or 1)))
    result = Result(key, name, figures["per_s"], used * 1e6 / max(figures["messages"], 1), share)
    _say(
        f"{key}, {f'run {run}' if run else 'warm-up'}, {name}: {result.per_s:,.0f} msg/s, "
        f"CPU {result.client_cpu_us:.1f} us per message, {used / wall_s:.0%} of its core, "
        f"{share:.0%} of the machine to others"
        + (f", {figures['failures']:,.0f} FAILED: {figures.get('failure')}" if figures.get("failures") else "")
    )
    return result


def _used(load: Load, broker: Broker) -> tuple[float, float, float]:
    """Seconds until now: on the wall, of the client's CPU, of everybody else's."""
    client_s = cpu_s(load.pid)
    return time.perf_counter(), client_s, machine_cpu_s() - client_s - broker.cpu_s()


def _say(words: str) -> None:
    print(f"... {words}", file=sys.stderr, flush=True)


def _report(found: Sequence[Result], args: argparse.Namespace) -> None:
    lines = table(found)
    for line in lines:
        print(line.text())
    about = {"python": platform.python_version(), "cores": os.cpu_count(), "client": toolchain.CLIENT_5}
    runs = [result._asdict() for result in found]
    content = {**about, "durability": args.durability, "lines": [line.as_dict() for line in lines], "runs": runs}
    path = Path(args.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    if (noise := max(result.others_share for result in found)) > NOISY_SHARE:
        print(f"\nThe machine was not quiet: up to {noise:.0%} of it went to others. Read the figures with care.")
    missed = sum(not line.reached for line in lines)
    print(f"\n{len(lines)} lines, {missed} goals missed; written to {path}")


if __name__ == "__main__":
    sys.exit(main())
