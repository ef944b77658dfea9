"""Runs both brokers under the same load, prints the table, writes build/bench-rocketmq.json.

    python -m bench.rocketmq                            all of it (about a quarter of an hour)
    python -m bench.rocketmq --quick                    one short run: to see that it runs, not how fast RocketMQ is
    python -m bench.rocketmq --lines async-send,consume --flush async
    python -m bench.rocketmq --only penstock --lines async-send --quick --profile build/async-send.prof
    python -m bench.rocketmq --only penstock --lines sync-send --seconds 60 --keep

The last two are for profiling: cProfile in the broker, written when it stops; or a broker whose process id is printed,
with load for a minute, which stays up until Enter is pressed. Settings come by PENSTOCK_* variables as always.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.compat.rocketmq import toolchain

from bench.rocketmq.brokers import FLUSHES, PENSTOCK, ROCKETMQ
from bench.rocketmq.lines import FAILED, FULL, KEYS, QUICK, Amounts, Result, table
from bench.rocketmq.load import Load, LoadFailed
from bench.rocketmq.rounds import NOISY_SHARE, Plan, results

EXIT_DONE, EXIT_NOT_DONE = 0, 2


def main() -> int:
    args = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_NOT_DONE))  # so that all processes are taken down
    found: list[Result] = []
    trouble = _trouble(args, found)
    if found:
        _report(found, args)
    if trouble:
        print(f"stopped: {trouble}", file=sys.stderr)
    return EXIT_NOT_DONE if trouble else EXIT_DONE


def _trouble(args: argparse.Namespace, found: list[Result]) -> str:
    """Measure, and say what came in between; what was found until then counts."""
    try:
        _measure(args, found)
    except toolchain.Missing as missing:
        return f"{missing}. Install it (on Debian and Ubuntu: openjdk-17-jdk-headless and maven), then try again."
    except toolchain.BuildFailed as failed:
        return f"{failed}\nMaven needs its repository the first time: see what it says above."
    except (LoadFailed, RuntimeError, AssertionError, OSError) as failed:
        return str(failed)
    except KeyboardInterrupt:
        return "by Ctrl-C; nothing is left running"
    return ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.rocketmq",
        description="Measure Penstock beside RocketMQ 5.5.0, with its own Java client.",
        epilog=f"lines: {', '.join(KEYS)}",
    )
    parser.add_argument("--lines", default=",".join(KEYS), metavar="A,B", help="some of the lines below")
    parser.add_argument("--flush", default="async,sync", metavar="async,sync", help="which flush, on both brokers")
    parser.add_argument("--only", choices=[PENSTOCK, ROCKETMQ], help="one broker, without ratios")
    parser.add_argument("--quick", action="store_true", help="one short run")
    parser.add_argument("--runs", type=int, help=f"runs of each line [{FULL.runs}]")
    parser.add_argument("--seconds", type=float, help=f"how long a line is measured [{FULL.seconds:g}]")
    parser.add_argument("--profile", default="", metavar="FILE", help="run Penstock under cProfile (slower)")
    parser.add_argument("--keep", action="store_true", help="leave the brokers up until Enter is pressed")
    parser.add_argument("--folder", default=".", help="where the temporary files go: the disk that is measured")
    parser.add_argument("--json", default="build/bench-rocketmq.json", metavar="FILE")
    args = parser.parse_args()
    args.lines, args.flush = args.lines.split(","), args.flush.split(",")
    for given, known in ((args.lines, KEYS), (args.flush, FLUSHES)):
        if unknown := [word for word in given if word not in known]:
            parser.error(f"there is no {unknown[0]!r}: it is one of {', '.join(known)}")
    if args.profile and len(args.flush) > 1:
        parser.error("--profile is of one broker: say --flush async or --flush sync with it")
    if not Path("/proc/self/stat").exists():
        parser.error("CPU and memory of the brokers are read from /proc: this needs Linux")
    return args


def _measure(args: argparse.Namespace, found: list[Result]) -> None:
    brokers = [args.only] if args.only else [PENSTOCK, ROCKETMQ]
    if ROCKETMQ in brokers:
        toolchain.peer_classpath(toolchain.BROKER_5, _say)
    with tempfile.TemporaryDirectory(prefix=".penstock-bench-", dir=args.folder) as folder:
        place = Path(folder).absolute()
        plan = Plan(
            place, brokers, args.lines, _amounts(args), args.profile, _say, _pause if args.keep else lambda: None
        )
        with Load.started(place / "client", _say) as load:
            for flush in args.flush:
                found.extend(results(plan, flush, load))
                for used in place.glob(f"*-{flush}*"):
                    shutil.rmtree(used)


def _amounts(args: argparse.Namespace) -> Amounts:
    amounts = QUICK if args.quick else FULL
    return amounts._replace(runs=args.runs or amounts.runs, seconds=args.seconds or amounts.seconds)


def _say(words: str) -> None:
    print(f"... {words}", file=sys.stderr, flush=True)


def _pause() -> None:
    print("the brokers stay up; Enter stops them", file=sys.stderr, flush=True)
    sys.stdin.readline()


def _report(found: list[Result], args: argparse.Namespace) -> None:
    lines = table(found)
    for line in lines:
        print(line.text())
    about = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "rocketmq": toolchain.BROKER_5,
        "client": toolchain.CLIENT_5,
        "amounts": _amounts(args)._asdict(),
    }
    content = {**about, "lines": [line.as_dict() for line in lines], "runs": [result._asdict() for result in found]}
    path = Path(args.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    shares = [result.figures["others_share"] for result in found if "others_share" in result.figures]
    if (noise := max(shares, default=0.0)) > NOISY_SHARE:
        print(f"\nThe machine was not quiet: up to {noise:.0%} of it went to others. Read the figures with care.")
    if args.quick and not args.only:
        print("\nIn a quick run RocketMQ's code is hardly compiled yet: it flatters Penstock.")
    if failed := sum(FAILED in result.figures for result in found):
        print(f"\n{failed} measurements came to nothing: see above.")
    goals = [line for line in lines if line.goal is not None]
    missed = sum(not line.reached for line in goals)
    print(f"\n{len(lines)} lines, {missed} of {len(goals)} goals missed; written to {path}")


if __name__ == "__main__":
    sys.exit(main())
