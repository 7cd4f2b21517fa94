"""Settings of all tests, and the selection of tests by `--changed`."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.chosen_tests import ChosenTests
from tests.selection import BUDGET, COSTS, Selector, changed_files

settings.register_profile("at any speed", deadline=None, max_examples=50)  # the machine may be busy
settings.load_profile("at any speed")

ROOT = Path(__file__).parents[1]
SECONDS = pytest.StashKey[Counter[str]]()


@pytest.fixture
def forgotten_user_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Undo the effects of loading a model file: the next test's file may have the same name."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    written_here = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(written_here):
            del sys.modules[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cellbridge")
    group.addoption(
        "--changed",
        nargs="?",
        const="",
        metavar="=BASE",
        help="run the tests that are nearest to what differs from BASE (default: where the branch left main)",
    )
    group.addoption(
        "--seconds",
        type=float,
        default=BUDGET,
        help="how long the tests of --changed may take, in seconds of processor (default: %(default)s)",
    )
    group.addoption(
        "--record-costs",
        action="store_true",
        help="write the seconds of each test file that is run to tests/costs.json; not with -n",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Thousands of test items are alive: with the usual thresholds, scanning them takes a tenth of the time.
    gc.set_threshold(200_000, 20, 20)
    config.stash[SECONDS] = Counter()
    base = config.getoption("changed")
    if base is not None:
        selection = Selector(ROOT).select(changed_files(ROOT, base), config.getoption("seconds"))
        config.pluginmanager.register(ChosenTests(selection))


@pytest.hookimpl(tryfirst=True)  # before -m leaves out slow tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make slow tests of the cases that a function marked `every(n)` leaves out."""
    numbers: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("every")
        if marker is None or item.get_closest_marker("slow") is not None:
            continue
        function = item.nodeid.partition("[")[0]
        row, place = divmod(numbers[function], marker.args[0])
        if (row + place) % marker.args[0]:  # another place in each row, so that no argument keeps a single value
            item.add_marker(pytest.mark.slow)
        numbers[function] += 1


def pytest_collection_finish() -> None:
    # `parity check` collects garbage after each part of a network: scanning all test items takes half a second.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """With --record-costs, count the processor seconds of a test, and of the processes that it started."""
    if not item.config.getoption("record_costs"):  # the clock itself takes half a millisecond
        return (yield)
    before = _processor_seconds()
    result = yield
    item.config.stash[SECONDS][item.path.relative_to(ROOT).as_posix()] += _processor_seconds() - before
    return result


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def pytest_sessionfinish(session: pytest.Session) -> None:
    measured_seconds = session.config.stash[SECONDS]
    if session.config.getoption("record_costs") and measured_seconds:
        seconds = json.loads(COSTS.read_text()) | {name: round(spent, 1) for name, spent in measured_seconds.items()}
        existing = {name: seconds[name] for name in sorted(seconds) if (ROOT / name).exists()}
        COSTS.write_text(json.dumps(existing, indent=0) + "\n")
