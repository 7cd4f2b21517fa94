"""The pytest plugin: files named `parity_*.py` are model files, collected as one test item per Cell and side.

    $ pytest parity_resnet18.py
    parity_resnet18.py::layer1.0.conv1[interpreter] PASSED
    parity_resnet18.py::layer1.0.conv1[onnxruntime] PASSED

It is loaded in every pytest run: torch and ONNX Runtime are imported only when such a file is collected. Files of that
name that don't define `model` and `inputs` are ignored without being run.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from .inputs.contract import NEEDED, missing_definitions
from .options import OptionKeywords, Options
from .pytest_failures import hide_inner_frames, name_the_cause
from .pytest_options import add_options, settings_of
from .pytest_pages import SUMMARY, Overview, add_page, name_of_file, summary_of, summary_without_report, write_page
from .sides.names import CONVERSIONS

ROOT = "(root)"
IN_SETTINGS = "given in pytest's settings"
SETTINGS = pytest.StashKey[dict[str, Any]]()
SKIPPED_FILES = pytest.StashKey[list[str]]()

pytest.register_assert_rewrite("cellbridge.parity.assertions")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options and ini settings of the comparison."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings, and declare the marker of the items, so that `-m parity` selects them."""
    config.stash[SETTINGS] = settings_of(config)
    config.stash[SKIPPED_FILES] = []
    if (folder := config.stash[SETTINGS]["html"]) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Overview(folder))
    config.addinivalue_line("markers", "parity: one Cell of a parity_*.py file on one side")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect `parity_*.py`, if it is a model file."""
    if file_path.suffix != ".py" or not file_path.name.startswith("parity_"):
        return None
    try:
        absent = missing_definitions(file_path.read_bytes())
    except OSError as error:
        note = f"parity: {file_path.name} is ignored, since it can't be read: {error.strerror}"
        parent.config.stash[SKIPPED_FILES].append(note)
        return None
    if not absent:
        collector: pytest.Collector = ParityFile.from_parent(parent, path=file_path)
        return collector
    is_explicit = parent.session.isinitpath(file_path) or parent.config.getoption("verbose") > 0
    if is_explicit or len(absent) < len(NEEDED):
        note = f"parity: {file_path.name} is ignored, since it defines no {' and no '.join(absent)}"
        parent.config.stash[SKIPPED_FILES].append(note)
    return None


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Report a tolerance that the Cells are judged by, and the files that are ignored.

    Of these, those that were given explicitly, or define only one of `model` and `inputs`.
    """
    if not any(isinstance(item, CellItem) for item in items):
        return config.stash[SKIPPED_FILES]
    from .results.conditions import Conditions

    tolerances = {name: config.stash[SETTINGS][name] for name in ("rtol", "atol")}
    within = Conditions(Options(**tolerances), dict.fromkeys(tolerances, IN_SETTINGS)).within
    return [*config.stash[SKIPPED_FILES], *([f"parity: Cells are judged {within}"] if within else [])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show an error of ours as one for users; with --parity-html, write a page on a failing comparison, too."""
    is_short = not item.config.getoption("fulltrace")
    if is_short:
        hide_inner_frames(call)
    shown = yield
    if is_short:
        name_the_cause(call, shown)
    if folder := item.config.stash[SETTINGS]["html"]:
        add_page(call, shown, folder)
        if isinstance(item, ParityItem):
            vars(shown)[SUMMARY] = item.summary
    return shown


class CellFailure(Exception):
    """A failing Cell; its text is shown unchanged."""


class ParityFile(pytest.File):
    """A model file, which is loaded when it is collected, and checked once, by the first item that runs."""

    _result: dict[str, Any] | None = None
    _reported_by = ""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item per Cell that could run and side, or one failing item for a file that can't be loaded."""
        from ..runtime.errors import CellbridgeError

        try:
            self._load()
        except (CellbridgeError, ImportError) as error:
            yield BrokenFile.from_parent(self, name="model", reason=str(error))
        else:
            for path, side in self.items:
                name = _name(path, side)
                # pytest 9.2 parses the ids of its cache (--lf), and knows an item by a text that is parsed alike alone
                yield CellItem.from_parent(self, name=name, nodeid=f"{self.nodeid}::{name}", cell=path, side=side)

    def _load(self) -> None:
        """Run the file, and set its model and items."""
        from ..converter.structure.program_names import named_modules
        from ..runtime.visible import visible_name
        from .inputs import model_file
        from .sides.known_frameworks import name_of_port
        from .sides.reported_cells import can_run
        from .support.user_code import report_user_errors

        settings = self.config.stash[SETTINGS]
        model = model_file.load(str(self.path), with_port=True)
        port = name_of_port(model.cell)
        sides = [*CONVERSIONS, *([] if port is None else [port])]
        if model.recording is not None:
            sides = [visible_name(model.recording.name)]
        sides = [side for side in sides if side in (settings["sides"] or sides)]
        chosen = Options(only=settings["only"], skip=settings["skip"])
        with report_user_errors(self.path.name, "when its modules were listed"):
            modules = list(named_modules(model.module))
        paths = [path for path, _, module in modules if path == "" or can_run(module)]
        self.items = [(path, side) for path in paths if chosen.selects(path) for side in sides]
        self.sides = sides
        self._model = replace(model, name=self.path.name)

    def outcome(self, item: CellItem) -> tuple[str, str]:
        """Return PASS, FAIL or SKIPPED, and the reason, from the check that all items and xdist workers share.

        Raises:
            CellFailure: the check couldn't be made. Only one item gets the full message.
        """
        from .support.once import ATTEMPTS, EndedBefore, once

        if self._result is None:
            path = self._shared_result_path()
            try:
                self._result = self._check() if path is None else once(path, self._check)
            except EndedBefore:
                message = f"{ATTEMPTS} workers ended while they checked {self.path.name}"
                self._result = {"refused": f"{message}; see what ends them with: parity run {self.path}"}
            except Exception as error:
                self._result = {"refused": f"{type(error).__name__}: {error}"}
                self._reported_by = item.nodeid
                raise
        if problem := self._result.get("refused"):
            if self._reported_by:
                problem = f"{problem.splitlines()[0]}\n  in full at {self._reported_by}"
            self._reported_by = self._reported_by or item.nodeid
            raise CellFailure(problem)
        status, reason = self._result["outcomes"][item.name]
        return status, reason

    def _check(self) -> dict[str, Any]:
        """Return the outcomes by item name, or the reason why there are none."""
        from ..runtime.errors import CellbridgeError
        from .checking.model_files import judge_model_file
        from .commands.command import quiet
        from .report.items import outcomes
        from .results.comparison import FAIL
        from .support import files

        model = self._model
        settings = self.config.stash[SETTINGS]
        folder, least = settings["html"], settings["min_coverage"]
        options = {name: settings[name] for name in settings.keys() & OptionKeywords.__annotations__}
        started = time.monotonic()
        try:
            if folder is not None:
                files.make_folder(folder)
            with quiet(verbose=False):  # otherwise torch's logs would appear in the first item's report
                report = judge_model_file(model, None, cast(OptionKeywords, options), sides=self.sides)
            names = [name for name in ("rtol", "atol", "only", "skip") if settings[name] not in (None, [])]
            report.conditions.sources |= dict.fromkeys(names, IN_SETTINGS)
            results = {_name(*item): outcome for item, outcome in outcomes(report, self.items, least).items()}
            if folder is None:
                return {"outcomes": results}
            page = "" if report.ok else name_of_file(self.nodeid)
            if page:
                hint = f"\n  {write_page(report, folder, page)}"
                results = {
                    name: (status, reason + hint * (status == FAIL)) for name, (status, reason) in results.items()
                }
            seconds = time.monotonic() - started
            return {"outcomes": results, "summary": summary_of(report, self.nodeid, seconds, page and f"{page}.html")}
        except CellbridgeError as error:
            return {"refused": str(error)}

    @property
    def summary(self) -> dict[str, Any] | None:
        """Its line of the overview; None before it was checked."""
        if self._result is None or "outcomes" in self._result:
            return None if self._result is None else self._result.get("summary")
        return summary_without_report(self.nodeid, self._result["refused"])

    def _shared_result_path(self) -> Path | None:
        """Return the path of this file's outcomes for all xdist workers on this machine; None without xdist.

        xdist gives each worker a folder within pytest's temporary folder, which they therefore share.
        """
        worker = getattr(self.config, "workerinput", None)
        base = self.config.getoption("basetemp", None)
        if worker is None or base is None:
            return None
        python = [sys.executable, sys.version]  # `--dist each` may run several Pythons
        key = [worker["testrunuid"], str(self.path), self.config.stash[SETTINGS], python]
        return Path(base).parent / f"parity-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]}.json"


class ParityItem(pytest.Item):
    """An item of a model file, whose failures are shown without a traceback."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_marker(pytest.mark.parity)

    @property
    def summary(self) -> dict[str, Any] | None:
        """The line of its file in the overview; None if it isn't known yet."""
        raise NotImplementedError

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text of a `CellFailure`, and pytest's own form of other exceptions."""
        if isinstance(excinfo.value, CellFailure):
            from ..runtime.visible import shorten_names, visible_text

            return shorten_names(visible_text(str(excinfo.value)))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return its place, for pytest's headings."""
        return self.path, None, self.name


class BrokenFile(ParityItem):
    """A model file that can't be loaded, which is a failing item instead of an error that ends the run."""

    def __init__(self, *, reason: str, **options: Any) -> None:
        super().__init__(**options)
        self.reason = reason

    @property
    def summary(self) -> dict[str, Any]:
        """The line of its file in the overview: it couldn't be judged."""
        return summary_without_report(str(self.parent.nodeid if self.parent else self.name), self.reason)

    def setup(self) -> None:
        """Raise the reason."""
        raise CellFailure(self.reason)

    def runtest(self) -> None:
        """Do nothing."""


class CellItem(ParityItem):
    """One Cell, on one side."""

    parent: ParityFile

    def __init__(self, *, cell: str, side: str, **options: Any) -> None:
        super().__init__(**options)
        self.cell = cell
        self.side = side

    @property
    def summary(self) -> dict[str, Any] | None:
        """The line of its file in the overview; None if it isn't known yet."""
        return self.parent.summary

    def runtest(self) -> None:
        """Pass if every comparison of this Cell on this side passes; fail for a Cell that no input reached."""
        from .results.comparison import FAIL, SKIPPED

        status, reason = self.parent.outcome(self)
        if status == SKIPPED:
            pytest.skip(reason)
        if status == FAIL:
            raise CellFailure(reason)


def _name(path: str, side: str) -> str:
    from ..runtime.visible import visible_name

    return f"{visible_name(path) or ROOT}[{side}]"
