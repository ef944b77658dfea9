"""python -m tests.fuzz [TARGET ...] [--runs N] [--seed N] [--replay FILE] [--atheris SECONDS]

All targets when none is named. With --atheris a coverage-guided run of one target (pip install atheris, Linux).
"""

import argparse
import secrets
import sys
import time
from pathlib import Path

RUNS = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--atheris", type=int, metavar="SECONDS")
    asked = parser.parse_args()
    if asked.atheris:
        guided(asked.targets[0] if asked.targets else "frame", asked.atheris)
        return
    from tests.fuzz.driver import run
    from tests.fuzz.targets import TARGETS

    unknown = set(asked.targets) - set(TARGETS)
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}: there are {', '.join(TARGETS)}")
    for target in asked.targets or TARGETS:
        if asked.replay:
            TARGETS[target](asked.replay.read_bytes())
            continue
        began = time.monotonic()
        fed = run(target, asked.runs, asked.seed)
        say(f"{target:15} {fed} inputs, seed {asked.seed}, {time.monotonic() - began:.0f} s: nothing found")


def guided(target: str, seconds: int) -> None:
    """Under atheris: it looks for inputs that reach new code, and keeps them in build/fuzz."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install atheris, or run without --atheris")
    with atheris.instrument_imports(include=["penstock.wire"]):
        from tests.fuzz.driver import CORPUS, FINDS
        from tests.fuzz.targets import TARGETS
    found = FINDS / f"corpus-{target}"
    found.mkdir(parents=True, exist_ok=True)
    flags = [f"-max_total_time={seconds}", "-max_len=4096", f"-artifact_prefix={FINDS}/{target}-"]
    atheris.Setup([sys.argv[0], *flags, str(found), str(CORPUS / target)], TARGETS[target])
    atheris.Fuzz()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
