"""Runs the lines, prints the table, writes build/bench.json.

    python -m bench                  all of it (a few minutes)
    python -m bench append read      some of it
    python -m bench --quick          smaller amounts: to see that it runs, not how fast

Every figure is a median of runs that take turns with the raw disk's, so that both see the same machine. A goal that was
missed is shown as missed.
"""

import argparse
import json
import platform
import sys
import tempfile
from pathlib import Path

from bench import append, lookup, process, read, sync
from bench.lines import Line

PARTS = {
    "append": append.lines,
    "sync": sync.lines,
    "read": read.lines,
    "lookup": lookup.lines,
    "process": process.lines,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure Penstock's ground beside the raw disk."
    )
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="smaller amounts")
    parser.add_argument("--folder", default=".", help="where the temporary files go: the disk that is measured")
    parser.add_argument("--json", default="build/bench.json")
    args = parser.parse_args()
    unknown = [part for part in args.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: it is one of {', '.join(PARTS)}")
    found: list[Line] = []
    with tempfile.TemporaryDirectory(prefix=".penstock-bench-", dir=args.folder) as folder:
        for part in args.parts or PARTS:
            print(f"... {part}", file=sys.stderr, flush=True)
            for line in PARTS[part](Path(folder), args.quick):
                found.append(line)
                print(line.text(), flush=True)
    _write(found, Path(args.json), args.quick)
    missed = [line for line in found if not line.reached]
    print(f"\n{len(found)} lines, {len(missed)} below the goal; written to {args.json}")
    return 0


def _write(found: list[Line], path: Path, quick: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"python": platform.python_version(), "machine": platform.machine(), "quick": quick}
    path.write_text(json.dumps({**about, "lines": [line.as_dict() for line in found]}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
