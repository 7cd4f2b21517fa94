"""A report as test cases, for the formats of continuous integration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..results.cell_report import CellReport
from ..results.comparison import (
    AFFECTED,
    FAIL,
    INLINED,
    NOT_COMPARED,
    NOT_KNOWN,
    NOT_REACHED,
    PASS,
    PASSED_ON,
    REFERENCE_WRONG,
    SKIPPED,
    UNPAIRED,
    Comparison,
)
from ..results.correspondence import PairedCell
from ..results.network_result import NetworkResult
from ..results.training_result import KINDS, TrainingResult
from .detail import cause_lines, cell_detail, group_by_fault
from .hunks import cell_of_pair, way_in_words
from .training import SEVERAL, worst_lines

REASONS = {
    INLINED: "never called itself: its parameters are judged in the Cell that uses them",
    UNPAIRED: "it has no counterpart, or one that is called differently: judged in the Cell around it",
    NOT_REACHED: "never reached by the inputs: nothing is known about it",
    SKIPPED: "left out by --only or --skip, or not reached after a failure with --fail-fast",
}
WIDTH = 120


@dataclass(frozen=True)
class Case:
    """One test case.

    Attributes:
        name: name of the case, e.g. `layer1.0.conv1[interpreter]`.
        outcome: "passed", "failure", "skipped", or "error" for what can't be judged.
        message: the reason in one line; empty for a case that passed.
        status: `FAIL` or `NOT_COMPARED` for a failure, `NOT_COMPARED` for an error.
        detail: lines that explain a failure.
    """

    name: str
    outcome: Literal["passed", "failure", "skipped", "error"] = "passed"
    message: str = ""
    status: str = ""
    detail: str = ""


def network_cases(report: NetworkResult) -> Iterator[Case]:
    """Yield a case `path[side]` for each Cell and side.

    A comparison that fails or couldn't be made is a failure of its Cell. A Cell without comparisons is skipped, with
    the reason, unless it only passes on what was judged elsewhere. So is a Cell that differs end to end only, because
    of failing Cells.
    """
    verdicts = report.verdicts
    groups = group_by_fault(report, [report.cells[path] for path in report.failing])
    faults = {cell.path: [other.path for other in group] for group in groups for cell in group if cell.causes}
    for cell in report.cells.values():
        fault = faults.get(cell.path, [])
        for side in report.sides:
            yield _network_case(f"{cell.path or '(root)'}[{side}]", cell, side, report, verdicts[cell.path], fault)


def network_properties(report: NetworkResult) -> list[tuple[str, str]]:
    """Return the verdict on the network, the port of each module, and the source of each Parameter's value."""
    pairs = report.correspondence
    properties = [("the network as a whole", report.network_verdict.sentence)]
    properties += [(f"port of {p.module or '(root)'}", _counterpart(p)) for p in pairs.cells if p.module_class]
    return properties + [(f"Parameter {w.parameter}", f"{w.source} ({way_in_words(w)})") for w in pairs.parameters]


def training_cases(report: TrainingResult) -> Iterator[Case]:
    """Yield a case `kind[side]` for each kind of tensor and side, and one for differences other than in numbers."""
    for kind in KINDS:
        for side in report.sides:
            of_case = [c for c in report.comparisons if (c.kind, c.side) == (kind, side)]
            if of_case:
                yield _training_case(f"{SEVERAL[kind]}[{side}]", of_case, report)
    if report.problems or not report.comparisons:
        yield Case("training", "failure", "; ".join(report.problems) or "no step was compared", FAIL)


def _network_case(
    name: str, cell: CellReport, side: str, report: NetworkResult, verdict: str, fault: Sequence[str]
) -> Case:
    """Return the case of a Cell on a side; the first of the Cells with the same `fault` has the causes."""
    comparisons = [c for c in cell.comparisons if c.side == side]
    differing = [c for c in comparisons if c.status != PASS]
    failed = [c for c in differing if c.status not in (REFERENCE_WRONG, NOT_KNOWN)]
    if not failed and (unknown := next((c for c in differing if c.status == NOT_KNOWN), None)):
        return Case(name, "skipped", f"not known: {unknown.kind} {unknown.tensor}: {unknown.reason}")
    if differing and not failed:
        return Case(name, "skipped", reference_wrong(cell, report))
    if failed and verdict == AFFECTED:
        culprits = ", ".join(path or "(root)" for path in report.failing)
        return Case(name, "skipped", f"differs end to end only, because of {culprits}")
    if failed:
        worst = FAIL if any(c.status == FAIL for c in failed) else NOT_COMPARED
        first = f"{failed[0].kind} {failed[0].tensor}: {failed[0].reason}"
        first += f", with {failed[0].probe}" if failed[0].probe else ""
        message = f"{len(failed)} of {len(comparisons)} comparisons: {first}"
        first_path, *others = fault or [cell.path]
        is_first = first_path == cell.path
        detail = cell_detail(
            replace(cell, comparisons=failed), report, WIDTH, everything=True,
            alike=others if is_first else (), same_as=None if is_first else first_path,
        )  # fmt: skip
        return Case(name, "failure", message, worst, "\n".join(line.plain for line in detail))
    if not cell.path and report.not_known:
        return Case(name, "error", f"parity is not known: {report.not_known}", NOT_COMPARED)
    if not comparisons and cell.presence != PASSED_ON:
        presence = cell.presence or (UNPAIRED if cell.path in report.correspondence.unpaired else "")
        return Case(name, "skipped", REASONS.get(presence, f"nothing of it was compared on the {side} side"))
    return Case(name)


def reference_wrong(cell: CellReport, report: NetworkResult) -> str:
    """Say that the reference's own gradients are wrong in the Cell, or in others that its gradients come from."""
    if cell.is_reference_wrong:
        return f"{report.reference}'s gradient is wrong here: {cell.wrong_side_in_words}"
    culprits = ", ".join(path or "(root)" for path in report.reference_wrong)
    return f"differs end to end only, because {report.reference}'s gradient is wrong in {culprits}"


def _training_case(name: str, comparisons: list[Comparison], report: TrainingResult) -> Case:
    failed = [c for c in comparisons if c.status != PASS]
    if not failed:
        return Case(name)
    first = [c for c in failed if c.call == min(other.call for other in failed)]
    where = f"from step {first[0].call} on, in {', '.join(dict.fromkeys(c.tensor for c in first))}"
    message = f"{len(failed)} of {len(comparisons)} comparisons: {first[0].reason}, {where}"
    detail = [line for cause in report.causes for line in cause_lines(cause, WIDTH)]
    detail += worst_lines(first, WIDTH, report.conditions.tolerance)
    return Case(name, "failure", message, FAIL, "\n".join(line.plain for line in detail))


def _counterpart(pair: PairedCell) -> str:
    if not pair.cell_class:
        return "none"
    return f"{cell_of_pair(pair)} ({pair.cell_class}, {way_in_words(pair)})" + (f"; {pair.apart}" if pair.apart else "")
