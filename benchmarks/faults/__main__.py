"""Plant faults and see what is found: `python -m benchmarks.faults`; see README.md beside this file."""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fixtures.planted_faults import catalogue
from fixtures.planted_faults.cases import Case

from . import table
from .outcomes import Outcome, run
from .tools import tools


def select(cases: list[Case], only: str, sample: int | None, seed: int) -> list[Case]:
    """Return the cases of a kind or with a name like a glob, or a random sample of these."""
    chosen = [case for case in cases if not only or case.kind == only or fnmatch.fnmatchcase(case.name, only)]
    if sample is not None and sample < len(chosen):
        kept = set(random.Random(seed).sample(range(len(chosen)), sample))
        chosen = [case for number, case in enumerate(chosen) if number in kept]
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description="Plant faults; see what is found.")
    parser.add_argument("--only", default="", metavar="KIND|GLOB", help="a kind, or a glob of names of cases")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of the cases, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome of every case")
    parser.add_argument("--table", type=Path, nargs="+", metavar="FILE", help="judge such files anew and end")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and end")
    parser.add_argument("--quiet", action="store_true", help="print no line for each case")
    arguments = parser.parse_args()
    if arguments.table:
        _print([outcome.to_dict() for file in arguments.table for outcome in _saved(file)])
        return
    cases = select(catalogue.cases(), arguments.only, arguments.sample, arguments.seed)
    if not cases:
        parser.error(f"no case is of the kind or has a name like {arguments.only!r}")
    if arguments.list:
        print("\n".join(f"{case.kind:<9}{case.name}" for case in cases))
        return
    rows: list[dict[str, Any]] = []

    def progress(case: Case) -> None:
        if not arguments.quiet:
            print(f"{case.kind} {case.name}", file=sys.stderr, flush=True)

    try:
        for outcome in run(cases, tools(), progress):
            rows.append(outcome.to_dict())
    finally:  # what was done before the user stopped it
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    _print(rows)


def _saved(file: Path) -> Iterator[Outcome]:
    """The outcomes in a file, judged anew."""
    cases = {(case.kind, case.name): case for case in catalogue.cases()}
    for row in json.loads(file.read_text(encoding="utf-8")):
        yield Outcome.from_dict(row, cases[row["kind"], row["name"]])


def _print(rows: list[dict[str, Any]]) -> None:
    print(f"{table.mistakes(rows)}\n\n{table.text(rows)}")


if __name__ == "__main__":
    main()
