"""One seed, or many: `python -m tests.simulation --seed 7`, `python -m tests.simulation --seeds 1000`."""

import argparse
import sys

from tests.simulation.stories import told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="replay one, and tell its story")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    failed = 0
    for number, seed in enumerate(seeds, 1):
        broken, made = told(seed)
        if asked.seed is not None:
            sys.stdout.write("\n".join([*made.story, ""]))
        if broken:
            failed += 1
            again = f"python -m tests.simulation --seed {seed}"
            sys.stdout.write(f"seed {seed}: {'; '.join(broken)}\n  replay: {again}\n")
        if number % 50 == 0:
            sys.stdout.write(f"... {number} stories, {failed} with something broken\n")
    sys.stdout.write(f"{len(seeds)} stories, {failed} with something broken\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
