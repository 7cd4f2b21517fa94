"""The pytest plugin: files named `parity_*.py` are model files, collected as one test item per Cell and side.

    $ pytest parity_resnet18.py
    parity_resnet18.py::layer1.0.conv1[interpreter] PASSED
    parity_resnet18.py::layer1.0.conv1[onnxruntime] PASSED

It loads in every pytest run of every user: torch and ONNX Runtime are imported when such a file is collected. Files of
that name that don't define `model` and `inputs` are left alone, without being run.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .inputs.contract import NEEDED, missing
from .pytest_options import add_options, settings_of
from .sides.names import CONVERSIONS

ROOT = "(root)"
SETTINGS = pytest.StashKey[dict[str, Any]]()
LEFT_ALONE = pytest.StashKey[list[str]]()

pytest.register_assert_rewrite("cellbridge.parity.assertions")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options and ini settings that say how Cells are compared."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings, and declare the marker that the items carry, so that `-m parity` selects them."""
    config.stash[SETTINGS] = settings_of(config)
    config.stash[LEFT_ALONE] = []
    config.addinivalue_line("markers", "parity: one Cell of a parity_*.py file on one side")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect `parity_*.py`, if it is a model file."""
    if file_path.suffix != ".py" or not file_path.name.startswith("parity_"):
        return None
    try:
        absent = missing(file_path.read_bytes())
    except OSError as error:
        absent = [f"nothing that can be read ({error.strerror})"]
    if not absent:
        collector: pytest.Collector = ParityFile.from_parent(parent, path=file_path)
        return collector
    asked_for = parent.session.isinitpath(file_path) or parent.config.getoption("verbose") > 0
    if asked_for or len(absent) < len(NEEDED):
        note = f"parity: {file_path.name} is left alone, since it defines no {' and no '.join(absent)}"
        parent.config.stash[LEFT_ALONE].append(note)
    return None


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Which files are no model files, of those that were asked for or that define half of what is needed."""
    return config.stash[LEFT_ALONE]


class CellFailure(Exception):
    """A Cell that fails; its text is shown as it is."""


class ParityFile(pytest.File):
    """A model file. It is loaded when it is collected; captured and run once, by the first item that runs."""

    _found: dict[str, Any] | None = None
    _told_by = ""

    def collect(self) -> Iterator[pytest.Item]:
        """One item per Cell that could run, and side; one that fails for a file that can't be loaded."""
        from ..runtime.errors import CellbridgeError

        try:
            self._load()
        except (CellbridgeError, ImportError) as error:
            yield BrokenFile.from_parent(self, name="model", reason=str(error))
        else:
            for path, side in self.items:
                yield CellItem.from_parent(self, name=_name(path, side), cell=path, side=side)

    def _load(self) -> None:
        """Run the file; its model, and which items it has."""
        from ..converter.structure.program_names import named_modules
        from .comparison.cells import can_run
        from .inputs import model_file
        from .options import Options
        from .sides.known_frameworks import framework_of
        from .support.user_code import errors_shown

        settings = self.config.stash[SETTINGS]
        model = model_file.load(str(self.path))
        port = framework_of(model.cell)
        sides = [*CONVERSIONS, *([] if port is None else [port.name])]
        sides = [side for side in sides if side in (settings["sides"] or sides)]
        chosen = Options(only=settings["only"], skip=settings["skip"])
        with errors_shown(self.path.name, "when its modules were listed"):
            modules = list(named_modules(model.module))
        paths = [path for path, _, module in modules if path == "" or can_run(module)]
        self.items = [(path, side) for path in paths if chosen.selects(path) for side in sides]
        self.sides = sides
        self._model = model

    def outcome(self, item: CellItem) -> tuple[str, str]:
        """PASS, FAIL or SKIPPED, and the reason, of the check that all items and all of xdist's workers share.

        Raises:
            CellFailure: the check couldn't be made. What went wrong is told in full once.
        """
        from .support.once import ATTEMPTS, EndedBefore, once

        if self._found is None:
            shared = self._shared()
            try:
                self._found = self._checked() if shared is None else once(shared, self._checked)
            except EndedBefore:
                crashed = f"{ATTEMPTS} workers ended while they checked {self.path.name}"
                self._found = {"refused": f"{crashed}; see what ends them with: parity run {self.path}"}
            except Exception as error:
                self._found = {"refused": f"{type(error).__name__}: {error}"}
                self._told_by = item.nodeid
                raise
        if refused := self._found.get("refused"):
            if self._told_by:
                refused = f"{refused.splitlines()[0]}\n  in full at {self._told_by}"
            self._told_by = self._told_by or item.nodeid
            raise CellFailure(refused)
        status, reason = self._found["outcomes"][item.name]
        return status, reason

    def _checked(self) -> dict[str, Any]:
        """The outcomes by the names of items, or why there are none."""
        from ..runtime.errors import CellbridgeError
        from .checking.engine import check
        from .commands.command import quiet
        from .report.items import outcomes

        model = self._model
        settings = self.config.stash[SETTINGS] | {"sides": self.sides}
        try:
            with quiet(verbose=False):  # what torch logs while it captures would stand in the first item's report
                report = check(
                    model.module,
                    model.args,
                    model.kwargs,
                    loss=model.loss,
                    dynamic_shapes=model.dynamic_shapes,
                    cell=model.cell,
                    cells=model.cells,
                    weights=model.weights,
                    more_inputs=model.more_inputs,
                    model=self.path.name,
                    **settings,
                )
        except CellbridgeError as error:
            return {"refused": str(error)}
        return {"outcomes": {_name(*item): found for item, found in outcomes(report, self.items).items()}}

    def _shared(self) -> Path | None:
        """Where this file's outcomes are for all workers of xdist on this machine; None for a process of its own.

        xdist gives each worker here a folder in pytest's own temporary folder, which all of them therefore share.
        """
        worker = getattr(self.config, "workerinput", None)
        own = self.config.getoption("basetemp", None)
        if worker is None or own is None:
            return None
        python = [sys.executable, sys.version]  # `--dist each` may run several
        key = [worker["testrunuid"], str(self.path), self.config.stash[SETTINGS], python]
        return Path(own).parent / f"parity-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]}.json"


class ParityItem(pytest.Item):
    """An item of a model file, whose failures are shown without a traceback."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_marker(pytest.mark.parity)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The text of a failure of ours; other exceptions as pytest shows them."""
        if isinstance(excinfo.value, CellFailure):
            from ..runtime.visible import shorten_names, visible_text

            return shorten_names(visible_text(str(excinfo.value)))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands, for pytest's headings."""
        return self.path, None, self.name


class BrokenFile(ParityItem):
    """A model file that can't be loaded: an error of its own, not one that ends the run."""

    def __init__(self, *, reason: str, **options: Any) -> None:
        super().__init__(**options)
        self.reason = reason

    def setup(self) -> None:
        """Raise the reason."""
        raise CellFailure(self.reason)

    def runtest(self) -> None:
        """Nothing is left to do."""


class CellItem(ParityItem):
    """One Cell, on one side."""

    parent: ParityFile

    def __init__(self, *, cell: str, side: str, **options: Any) -> None:
        super().__init__(**options)
        self.cell = cell
        self.side = side

    def runtest(self) -> None:
        """Pass if every comparison of this Cell on this side passes; fail for a Cell that was never exercised."""
        from .results.comparison import FAIL, SKIPPED

        status, reason = self.parent.outcome(self)
        if status == SKIPPED:
            pytest.skip(reason)
        if status == FAIL:
            raise CellFailure(reason)


def _name(path: str, side: str) -> str:
    from ..runtime.visible import visible_name

    return f"{visible_name(path) or ROOT}[{side}]"
