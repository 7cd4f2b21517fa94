"""`python -m tests.fuzz --mutants 100000 --seed 0`: runs mutants and prints failures with commands to repeat them."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.campaign import Failure, fuzz
from tests.fuzz.targets import ALL


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first one")
    parser.add_argument("--only", type=int, help="run this one alone")
    parser.add_argument("--target", choices=sorted(ALL))
    arguments = parser.parse_args()
    numbers = range(arguments.start, arguments.start + arguments.mutants)
    if arguments.only is not None:
        numbers = range(arguments.only, arguments.only + 1)
    began, failures, done = time.monotonic(), 0, 0
    for event in fuzz(arguments.seed, numbers, arguments.target):
        if isinstance(event, Failure):
            failures += 1
            _say(event)
        else:
            done += 1
            if done % 1000 == 0:
                _say(f"{done} mutants, {failures} failures, {time.monotonic() - began:.0f} s")
    _say(f"{done} mutants of seed {arguments.seed}, {failures} failures, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


def _say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
