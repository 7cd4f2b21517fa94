"""The pytest plugin: files named `parity_*.py` are model files, collected as one test item per Cell and side.

    $ pytest parity_resnet18.py
    parity_resnet18.py::layer1.0.conv1[interpreter] PASSED
    parity_resnet18.py::layer1.0.conv1[onnxruntime] PASSED

It loads in every pytest run of every user: torch and ONNX Runtime are imported when such a file is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .results import CellReport, Report

ROOT = "(root)"
SIDES = ("interpreter", "onnxruntime")

pytest.register_assert_rewrite("cellbridge.parity.assertions")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect `parity_*.py`."""
    if file_path.suffix == ".py" and file_path.name.startswith("parity_"):
        collector: pytest.Collector = ParityFile.from_parent(parent, path=file_path)
        return collector
    return None


class CellFailure(Exception):
    """A Cell that fails; its text is shown as it is."""


class ParityFile(pytest.File):
    """A model file. It is loaded when it is collected; captured and run once, by the first item that runs."""

    _outcome: Report | Exception | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """One item per Cell that could run, and side."""
        from ..converter.structure.program_names import named_modules
        from ..runtime.errors import CellbridgeError
        from . import model_file
        from .cells import can_run
        from .porting import framework_of

        try:
            self.model = model_file.load(str(self.path))
        except CellbridgeError as error:
            raise self.CollectError(str(error)) from error
        port = framework_of(self.model.cell)
        sides = SIDES if port is None else (*SIDES, port.name)
        for path, _, module in named_modules(self.model.module):
            if path == "" or can_run(module):
                for side in sides:
                    yield CellItem.from_parent(self, name=f"{path or ROOT}[{side}]", cell=path, side=side)

    def report(self) -> Report:
        """The report on the file's model, made once; what went wrong in making it is raised for every item."""
        from ..runtime.errors import CellbridgeError

        if self._outcome is None:
            from .engine import check

            model = self.model
            try:
                self._outcome = check(
                    model.module,
                    model.args,
                    model.kwargs,
                    loss=model.loss,
                    dynamic_shapes=model.dynamic_shapes,
                    cell=model.cell,
                    cells=model.cells,
                    weights=model.weights,
                    model=self.path.name,
                )
            except CellbridgeError as error:
                self._outcome = error
        if isinstance(self._outcome, Exception):
            raise CellFailure(str(self._outcome)) from self._outcome
        return self._outcome


class CellItem(pytest.Item):
    """One Cell, on one side."""

    parent: ParityFile

    def __init__(self, *, cell: str, side: str, **options: Any) -> None:
        super().__init__(**options)
        self.cell = cell
        self.side = side
        self.add_marker(pytest.mark.parity)

    def runtest(self) -> None:
        """Pass if every comparison of this Cell on this side passes; fail for a Cell that was never exercised."""
        from .results import FAIL, INLINED, NOT_REACHED

        report = self.parent.report()
        cell = report.cells[self.cell]
        if cell.presence == NOT_REACHED:
            raise CellFailure(
                f"the inputs never exercise the Cell {self.cell} ({cell.class_name}): nothing is known about it\n"
                "  what to do: give inputs that reach it, or take it out of the model"
            )
        if cell.presence == INLINED:
            pytest.skip("never called itself: its parameters are judged in the Cell that uses them")
        own = [comparison for comparison in cell.comparisons if comparison.side == self.side]
        if not own and self.side not in SIDES and self.is_unpaired(report):
            pytest.skip("no Cell is its port, or that is called otherwise: judged in the Cell around it")
        if not own:
            notes = "".join(f"\n  note: {note}" for note in report.notes)
            raise CellFailure(f"nothing of the Cell {self.cell or ROOT} was compared on the {self.side} side{notes}")
        judged = self._judged(report, cell)
        if judged.status == FAIL or judged.failures:
            from .report.detail import cell_detail

            raise CellFailure("\n".join(line.plain for line in cell_detail(judged, report, 80)))

    def is_unpaired(self, report: Report) -> bool:
        """Whether the module isn't held against a Cell of the port; a Sequential that the port hasn't is none."""
        return self.cell not in {pair.module for pair in report.pairs if pair.cell_class and not pair.apart}

    def _judged(self, report: Report, cell: CellReport) -> CellReport:
        """The Cell with this side's comparisons; an end-to-end failure that another Cell explains isn't its own."""
        from dataclasses import replace

        explained = bool(report.failing) and self.cell not in report.failing
        own = [
            comparison
            for comparison in cell.comparisons
            if comparison.side == self.side and not (explained and comparison.feeding == "end to end")
        ]
        return replace(cell, comparisons=own)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The Cell's detail without a traceback."""
        if isinstance(excinfo.value, CellFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands, for pytest's headings."""
        return self.path, None, self.name


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker that the items carry, so that `-m parity` selects them."""
    config.addinivalue_line("markers", "parity: one Cell of a parity_*.py file on one side")
