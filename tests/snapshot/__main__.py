"""What cellbridge says, kept to hold it still while its code moves.

    python -m tests.snapshot write FOLDER                 every case, about an hour and a half on two cores
    python -m tests.snapshot write FOLDER --every 10      each tenth of them, about ten minutes
    python -m tests.snapshot write FOLDER --only 'run/*'  those with names like a glob
    python -m tests.snapshot compare BEFORE AFTER         the cases that differ, with the lines

FOLDER gets a text for each case (its exit codes, what it printed, its JSON reports) and DIGESTS, a line for each. Times
and paths are struck, so two runs of the same code on the same machine are equal; the last digits of numbers differ from
one processor to the next.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import hashlib
import multiprocessing
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.snapshot.case import Case, run_case

DIGESTS = "DIGESTS"
MOST_LINES = 40


def write(folder: Path, cases: list[Case], workers: int) -> None:
    """Write the snapshot of cases to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    digests = {}
    _CASES[:] = cases
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        for number, (case, text) in enumerate(zip(cases, pool.map(_run, range(len(cases))), strict=True), 1):
            (folder / file_of(case.name)).write_text(text, encoding="utf-8")
            digests[case.name] = hashlib.sha256(text.encode()).hexdigest()
            sys.stderr.write(f"{number} of {len(cases)}: {case.name}\n")
    (folder / DIGESTS).write_text("".join(f"{digests[name]}  {name}\n" for name in sorted(digests)), encoding="utf-8")


_CASES: list[Case] = []
"""Cases can't be sent to another process: the forked workers have them by their numbers."""


def _run(number: int) -> str:
    return run_case(_CASES[number])


def file_of(name: str) -> str:
    """Return the name of a case's file: the case's name with every other character as `-`, and a digest."""
    return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', name)[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.txt"


def differences(before: Path, after: Path) -> Iterator[str]:
    """Yield a text for each case that two snapshots don't have in common, or not alike."""
    old, new = (_digests(folder) for folder in (before, after))
    for name in sorted({*old, *new}):
        if name not in new or name not in old:
            yield f"{name}: only in {before if name in old else after}"
        elif old[name] != new[name]:
            was, is_now = ((folder / file_of(name)).read_text(encoding="utf-8") for folder in (before, after))
            lines = list(
                difflib.unified_diff(was.splitlines(), is_now.splitlines(), "before", "after", lineterm="", n=1)
            )
            more = [f"... and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
            yield "\n".join([f"{name}:", *lines[:MOST_LINES], *more])


def _digests(folder: Path) -> dict[str, str]:
    lines = (folder / DIGESTS).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def main() -> int:
    """Write or compare; the exit code is 1 if two snapshots differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.snapshot", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write the snapshot of this code")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--only", default="*", metavar="GLOB", help="cases with names like this")
    writing.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th of these cases")
    writing.add_argument("--workers", type=int, default=2)
    comparing = commands.add_parser("compare", help="list the cases in which two snapshots differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        texts = list(differences(given.before, given.after))
        sys.stdout.write("".join(f"{text}\n" for text in texts) + f"{len(texts)} cases differ\n")
        return 1 if texts else 0
    if given.every < 1:
        parser.error(f"--every takes a number from 1 on, not {given.every}")
    from tests.snapshot.catalogue import cases

    chosen = [case for case in cases() if fnmatch.fnmatchcase(case.name, given.only)][:: given.every]
    if not chosen:
        parser.error(f"no case has a name like {given.only!r}")
    write(given.folder, chosen, given.workers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
