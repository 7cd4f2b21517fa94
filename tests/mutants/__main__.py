"""Plants faults, one at a time, in a copy of the repository, and runs the tests that `--changed` chooses for each.

python -m tests.mutants --seed 0            sixty faults; prints a table in Markdown
python -m tests.mutants --seed 0 --only 7   the seventh alone
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.chosen_tests import ChosenTests
from tests.mutants.faults import AREAS, Fault, choose
from tests.selection import BUDGET, Selector

ROOT = Path(__file__).parents[2]
LIBRARIES = ("numpy", "torch", "onnx", "onnxruntime", "hypothesis.extra.numpy")
NEAREST = 20.0  # seconds of processor for the tests that are tried first
LATE = 1200  # seconds after which a fault that makes a program endless counts as caught


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of the repository as it stands, with a git history of one commit."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
        for name in filter(None, listed):
            source, target = root / name, copy / name
            if source.is_symlink() or source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_symlink():
                    target.symlink_to(os.readlink(source))
                else:
                    target.write_bytes(source.read_bytes())
        _git(copy, "init", "--quiet")
        _git(copy, "add", "--all")
        _git(copy, "-c", "user.name=copy", "-c", "user.email=copy@localhost", "commit", "--quiet", "-m", "Copy")
        yield copy


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


class FirstFailure:
    """A pytest plugin that notes the first test, or file, that fails."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid


def run(fault: Fault, copy: Path, selector: Selector, unusable: set[str]) -> tuple[str, float]:
    """The first test that fails with a fault ("" if none does), and the seconds of processor until then.

    A test that fails without the fault, too, catches nothing: it is added to the `unusable` ones, which aren't run.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    first = ""
    for budget in (NEAREST, BUDGET):  # the nearest alone are collected sooner
        selection = selector.select([copy / fault.file], budget)
        while True:
            _git(copy, "checkout", "--quiet", "--", ".")
            fault.plant(copy)
            first = _first_failure(copy, ChosenTests(selection), unusable)
            _git(copy, "checkout", "--quiet", "--", ".")
            if "::" not in first or not _first_failure(copy, first):
                break
            unusable.add(first)
        if first:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return first, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first_failure(copy: Path, tests: ChosenTests | str, unusable: Iterable[str] = ()) -> str:
    """Runs chosen tests, or one by its name, in a fork of this process, which has loaded the libraries alone."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_tests, args=(copy, tests, tuple(unusable), sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(LATE):
            return f"not done after {LATE} s"
        return str(receiver.recv())
    except EOFError:
        return "the process ended"
    finally:
        process.kill()
        process.join()


def _run_tests(copy: Path, tests: ChosenTests | str, unusable: Iterable[str], sender: Connection) -> None:
    # An ONNX Runtime session that this process collected would wait forever for threads, which a fork lacks.
    gc.freeze()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "cellbridge")]:
        del sys.modules[name]
    # before the installed packages, which are those of the repository itself
    sys.path[:0] = [str(copy / ".types"), str(copy)]
    os.environ |= {"PYTHONPATH": os.pathsep.join(sys.path[:2]), "PYTHONDONTWRITEBYTECODE": "1"}
    os.chdir(copy)
    sys.dont_write_bytecode = True  # a fault may leave the size and the second of a file as they are
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    failure = FirstFailure()
    options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=no", *(f"--deselect={name}" for name in unusable)]
    if isinstance(tests, str):
        code = pytest.main([*options, tests], plugins=[failure])
    else:
        code = pytest.main(options, plugins=[tests, failure])
    sender.send(
        failure.name
        or ("" if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else f"exit code {code}")
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=10, help=f"faults of each area ({', '.join(AREAS)})")
    parser.add_argument("--only", type=int, action="append", help="the number of a fault to run, as often as needed")
    given = parser.parse_args()
    survivors = 0
    sys.stdout.write("| | area | place | before | after | seconds | caught by |\n| - | - | - | - | - | - | - |\n")
    for library in LIBRARIES:
        import_module(library)
    unusable = set[str]()
    with copied(ROOT) as copy:
        selector = Selector(copy)
        for number, fault in enumerate(choose(copy, given.seed, given.each)):
            if given.only and number not in given.only:
                continue
            first, seconds = run(fault, copy, selector, unusable)
            survivors += not first
            code = [text.replace("|", "\\|") for text in (fault.before, fault.after)]
            caught = f"`{first}`".replace("|", "\\|") if first else "**nothing**"
            place = f"{fault.file}:{fault.line}"
            row = [str(number), fault.area, place, f"`{code[0]}`", f"`{code[1]}`", f"{seconds:.0f}", caught]
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()
    if unusable:
        sys.stderr.write(f"not run, since they fail without a fault, too: {', '.join(sorted(unusable))}\n")
    return min(survivors, 1)


if __name__ == "__main__":
    raise SystemExit(main())
