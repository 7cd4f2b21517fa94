"""Which side's gradients are wrong, in Cells that differ in gradients alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..causes.derivatives import DerivativeErrors, derivative_errors
from ..causes.diagnose import Diagnosis
from ..results.cell_report import CellReport
from ..results.comparison import FAIL, NOT_COMPARED, REFERENCE_WRONG, Comparison
from ..results.network_result import NetworkResult
from ..sides.abilities import KnowsGradientCode
from ..sides.records import Records
from ..sides.reported_cells import owners
from ..sides.run import Run
from ..sides.side import Side

GRADIENTS = ("input gradient", "passed gradient", "parameter gradient")


def find_wrong_side(
    report: NetworkResult,
    reference: tuple[Side, Records],
    candidate: tuple[Side, Records],
    paths: Sequence[str],
    run: Run,
    diagnosis: Diagnosis,
) -> None:
    """Find the side whose gradients aren't the derivative of its own forward pass, while the other's are.

    A reference whose gradients are those of its program means them so: it stops a gradient, for example. It also means
    those that its own code sets. What remains are errors of torch: such a difference isn't the candidate's failure.

    Args:
        report: the report, whose Cells get their `wrong_side`, and whose comparisons their status.
        reference: the reference, and its records in float64.
        candidate: the side that differs, and its records of an isolated run in float64.
        paths: paths of the Cells that differ in gradients alone.
        run: the isolated run in float64.
        diagnosis: tells whether the reference's program has its gradients.
    """
    owner_of = owners(report.cells, *reference)
    reference_errors, candidate_errors = (
        derivative_errors(*side_run, owner_of, report.seed) for side_run in _runs(reference, candidate, run)
    )
    torch_alone: dict[str, DerivativeErrors] = {}
    for path in paths:
        cell, first, second = report.cells[path], reference_errors.get(path), candidate_errors.get(path)
        if first is None or second is None:
            continue
        if first.is_wrong and second.is_right and not diagnosis.is_reference(path):
            _name(cell, reference[0].name, first)
            torch_alone[path] = second
        elif first.is_right and second.is_wrong:
            _name(cell, candidate[0].name, second)
    if torch_alone and isinstance(reference[0], KnowsGradientCode):
        meant = reference[0].cells_with_gradient_code()
        for path in torch_alone.keys() - meant:
            _excuse_cell(report, path, candidate[0].name, torch_alone[path])
        _excuse_behind(report, candidate[0].name)


def _name(cell: CellReport, side: str, errors: DerivativeErrors) -> None:
    cell.wrong_side, cell.derivative_error = side, errors.worst
    cell.wrong_side_reason = (
        "its gradients aren't the derivative of its own forward pass, by central differences in float64 "
        f"(off by {errors.worst:.1%}); the other side's are"
    )


def _runs(
    reference: tuple[Side, Records], candidate: tuple[Side, Records], run: Run
) -> list[tuple[Side, Run, Records]]:
    return [(reference[0], run, reference[1]), (candidate[0], run, candidate[1])]


def _excuse_cell(report: NetworkResult, path: str, side: str, errors: DerivativeErrors) -> None:
    """Mark what a side was compared with as the reference's error, as far as the side's gradient was tested."""
    reason = f"{report.reference}'s gradient is wrong here"

    def is_tested(c: Comparison) -> bool:
        return c.side == side and (c.kind != "parameter gradient" or c.tensor in errors.parameters)

    _mark(report, path, is_tested, reason)


def _excuse_behind(report: NetworkResult, side: str) -> None:
    """Mark gradients that differ end to end, if the reference's wrong gradients alone differ isolated."""
    own = [c for cell in report.cells.values() for c in cell.comparisons if c.side == side]
    if any(c.feeding == "isolated" and c.status in (FAIL, NOT_COMPARED) for c in own):
        return
    wrong = ", ".join(path or "(root)" for path in report.reference_wrong)
    reason = f"computed from {report.reference}'s gradients of {wrong}, which are wrong"
    for path in report.cells:
        _mark(report, path, lambda c: c.side == side and c.feeding == "end to end", reason)


def _mark(report: NetworkResult, path: str, applies: Callable[[Comparison], bool], reason: str) -> None:
    """Change the status of the failing gradients that this applies to."""
    cell = report.cells[path]
    cell.comparisons = [
        replace(c, status=REFERENCE_WRONG, reason=reason)
        if c.status == FAIL and c.kind in GRADIENTS and applies(c)
        else c
        for c in cell.comparisons
    ]
