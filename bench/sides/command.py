"""The command: runs both brokers under the same load, prints the table, writes it as JSON.

`--profile FILE` is cProfile in Penstock, written when it stops; `--only penstock --seconds 60 --keep` prints its
process id, puts load on it for a minute and leaves it up until Enter is pressed. Settings come by PENSTOCK_* variables
as always.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.compat.rocketmq import toolchain

from bench.pagecache import full_page_cache
from bench.sides.brokers import FLUSHES, PENSTOCK, Ports, Serving
from bench.sides.lines import FAILED, FULL, QUICK, Amounts, Race, Result
from bench.sides.load import Load, LoadFailed
from bench.sides.rounds import NOISY_SHARE, Plan, results

EXIT_DONE, EXIT_NOT_DONE = 0, 2


class Command(NamedTuple):
    """One comparison. `prepare` fetches what the rival needs; `versions` go into the file."""

    race: Race
    serving: Serving
    free_ports: Callable[[], Ports]
    prepare: Callable[[toolchain.Say], object]
    versions: Mapping[str, str]


def main(command: Command) -> int:
    args = _arguments(command.race)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_NOT_DONE))  # so that all processes are taken down
    found: list[Result] = []
    trouble = _trouble(command, args, found)
    if found:
        _report(command, found, args)
    if trouble:
        print(f"stopped: {trouble}", file=sys.stderr)
    return EXIT_NOT_DONE if trouble else EXIT_DONE


def _trouble(command: Command, args: argparse.Namespace, found: list[Result]) -> str:
    """Measure, and say what came in between; what was found until then counts."""
    try:
        _measure(command, args, found)
    except toolchain.Missing as missing:
        return f"{missing}. Install it (on Debian and Ubuntu: openjdk-17-jdk-headless and maven), then try again."
    except toolchain.BuildFailed as failed:
        return f"{failed}\nMaven needs its repository the first time: see what it says above."
    except (LoadFailed, RuntimeError, AssertionError, OSError) as failed:
        return str(failed)
    except KeyboardInterrupt:
        return "by Ctrl-C; nothing is left running"
    return ""


def _arguments(race: Race) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{race.rival}",
        description=f"Measure Penstock beside {race.name}, with its own Java client.",
        epilog=f"lines: {', '.join(race.keys)}",
    )
    parser.add_argument("--lines", default=",".join(race.keys), metavar="A,B", help="some of the lines below")
    parser.add_argument("--flush", default="async,sync", metavar="async,sync", help="which flush, on both brokers")
    parser.add_argument("--only", choices=[PENSTOCK, race.rival], help="one broker, without ratios")
    parser.add_argument("--quick", action="store_true", help="one short run")
    parser.add_argument("--runs", type=int, help=f"runs of each line [{FULL.runs}]")
    parser.add_argument("--seconds", type=float, help=f"how long a line is measured [{FULL.seconds:g}]")
    parser.add_argument("--profile", default="", metavar="FILE", help="run Penstock under cProfile (slower)")
    parser.add_argument("--keep", action="store_true", help="leave the brokers up until Enter is pressed")
    parser.add_argument("--memory-as-it-is", action="store_true", help="do not fill the page cache first")
    parser.add_argument("--folder", default=".", help="where the temporary files go: the disk that is measured")
    parser.add_argument("--json", default=f"build/bench-{race.rival}.json", metavar="FILE")
    args = parser.parse_args()
    args.lines, args.flush = args.lines.split(","), args.flush.split(",")
    for given, known in ((args.lines, race.keys), (args.flush, FLUSHES)):
        if unknown := [word for word in given if word not in known]:
            parser.error(f"there is no {unknown[0]!r}: it is one of {', '.join(known)}")
    if args.profile and len(args.flush) > 1:
        parser.error("--profile is of one broker: say --flush async or --flush sync with it")
    if not Path("/proc/self/stat").exists():
        parser.error("CPU and memory of the brokers are read from /proc: this needs Linux")
    return args


def _measure(command: Command, args: argparse.Namespace, found: list[Result]) -> None:
    race = command.race
    brokers = [args.only] if args.only else [PENSTOCK, race.rival]
    if race.rival in brokers:
        command.prepare(_say)
    with tempfile.TemporaryDirectory(prefix=".penstock-bench-", dir=args.folder) as folder:
        place = Path(folder).absolute()
        pause = _pause if args.keep else lambda: None
        with (
            full_page_cache(place, _say, args.memory_as_it_is) as settle,
            Load.started(race.rival, race.message, place / "client", _say) as load,
        ):
            what = (place, brokers, args.lines, _amounts(args), args.profile, _say, pause, settle)
            plan = Plan(race, command.serving, command.free_ports, *what)
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


def _report(command: Command, found: list[Result], args: argparse.Namespace) -> None:
    lines = command.race.table(found)
    for line in lines:
        print(line.text())
    about = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **command.versions,
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
        print(f"\nIn a quick run the code of {command.race.name} is hardly compiled yet: it flatters Penstock.")
    if failed := sum(FAILED in result.figures for result in found):
        print(f"\n{failed} measurements came to nothing: see above.")
    goals = [line for line in lines if line.goal is not None]
    missed = sum(not line.reached for line in goals)
    print(f"\n{len(lines)} lines, {missed} of {len(goals)} goals missed; written to {path}")
