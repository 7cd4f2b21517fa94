"""Adds the causes of wrong results of ONNX Runtime to a report."""

from __future__ import annotations

from collections.abc import Callable

from ..causes.budget import Budget
from ..causes.runtime_faults.experiment import Expected, Experiment
from ..causes.runtime_faults.find import find_cause
from ..results.cell_report import CellReport
from ..results.comparison import FAIL, Comparison
from ..results.network_result import NetworkResult
from ..sides.abilities import RunsInOnnxRuntime
from ..sides.records import Records
from ..sides.run import Run
from ..sides.runtime_model import RuntimeModel
from .boundaries import OUTPUTS, boundary_of


def add_runtime_causes(
    report: NetworkResult, side: RunsInOnnxRuntime, truth: Records, run_of: Callable[[str], Run], budget: Budget
) -> None:
    """Look for what makes ONNX Runtime fail in the Cells in which no other side fails.

    Args:
        report: the report, whose failing Cells get their `causes`.
        side: the side that runs in ONNX Runtime.
        truth: the reference's records in float64.
        run_of: the settings of the side's run, for "isolated" or "end to end".
        budget: the time for the search; how many settings are tried doesn't depend on it.
    """
    models: dict[str, RuntimeModel] = {}
    for path in report.failing:
        cell = report.cells[path]
        failed = _failures(cell, side.name)
        if not failed or any(c.side != side.name and c.status == FAIL and c.kind in OUTPUTS for c in cell.comparisons):
            continue
        feeding = min((c.feeding for c in failed), key=("isolated", "end to end").index)
        if feeding not in models:
            models[feeding] = side.runtime_model(run_of(feeding))
        model = models[feeding]
        expected: dict[str, Expected] = {}
        for c in failed:
            key = boundary_of(path, c, model.outputs)
            if c.feeding == feeding and key is not None and key in truth.values:
                expected[model.outputs[key]] = Expected(truth.values[key], c.bar)
        cause = find_cause(Experiment(model, expected, budget)) if expected else None
        if cause is not None:
            cell.causes.append(cause)


def _failures(cell: CellReport, side: str) -> list[Comparison]:
    """Return the comparisons of a Cell's results that fail by their numbers."""
    return [
        c
        for c in cell.comparisons
        if (c.side, c.status, c.check) == (side, FAIL, "rounding")
        and c.feeding in ("isolated", "end to end")
        and c.kind in OUTPUTS
        and c.index is not None
    ]
