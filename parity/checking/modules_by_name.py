"""The comparison of two torch modules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch

from ...converter.structure.program_names import named_modules
from ..judging.judging import judge_sides
from ..pairing.modules.alignment import align, joining
from ..pairing.modules.call_differences import Apart
from ..pairing.modules.changed_inputs import compare_changed_inputs
from ..pairing.modules.correspondence import correspondence
from ..pairing.modules.lone_parameters import LoneParameters
from ..pairing.modules.modes import mode_differences
from ..pairing.modules.other_classes import class_notes
from ..pairing.modules.prefixes import Prefixes
from ..pairing.modules.rearranged import RearrangedSide, Rearrangements
from ..report.globs import list_names
from ..report.report import Report
from ..results.cell_report import is_inside
from ..results.structure import CALLED_DIFFERENTLY, OTHER_PARTS, OTHER_RESULT, StructureDifference
from ..sides.reported_cells import owner
from ..sides.torch_side import TorchSide
from .by_values import share_of_cells
from .other_operators import operator_notes
from .plan import Plan


def compare_modules(plan: Plan, fewest: float = 0.0) -> Report | None:
    """Compare two torch modules; see `parity.compare`.

    Args:
        plan: the comparison.
        fewest: the share of the reference's Cells with parameters that the candidate must call, and not with other
            tensors.

    Returns:
        The report; None if fewer are.
    """
    prefixes = Prefixes.between(plan.reference, plan.candidate, plan.cells)
    rearrangements = Rearrangements.between(plan.reference, plan.candidate, plan.weights, prefixes)
    with prefixes.applied(plan.candidate):
        return _compare(plan, prefixes, rearrangements, fewest)


def _compare(plan: Plan, prefixes: Prefixes, rearrangements: Rearrangements, fewest: float) -> Report | None:
    reference, candidate, options = plan.reference, plan.candidate, plan.options
    lone = LoneParameters.of(reference, candidate, rearrangements.names)

    def how(module: torch.nn.Module, apart: Collection[str]) -> dict[str, Any]:
        return {"cell_paths": [path for path, _, _ in named_modules(module) if path not in apart]}

    def sides(apart: Collection[str], shared: Collection[str] = ()) -> tuple[TorchSide, RearrangedSide]:
        both: dict[str, Any] = {"lone": lone.names, "shared": shared}
        reference_side = plan.reference_side("reference", ties=rearrangements.ties, **how(reference, apart), **both)
        candidate_side = RearrangedSide.of_options(
            "candidate", candidate, plan.args, plan.kwargs, options,
            rearrangements=rearrangements, reference=reference_side, catches=True, **how(candidate, apart), **both,
        )  # fmt: skip
        return reference_side, candidate_side

    plan.progress.stage("align", None)
    alignment = align(sides, grads=options.grads)
    apart = alignment.apart
    if share_of_cells(reference, lambda path, _: path not in apart or not apart[path].has_other_tensors) < fewest:
        return None
    shared = rearrangements.shared(alignment.used_elsewhere | {n for side in sides(apart) for n in side.shared_names})
    reference_side, candidate_side = joining(sides(apart, shared), alignment.joined)
    candidate_side = replace(candidate_side, unreturned=alignment.unreturned)
    report = judge_sides(reference_side, [candidate_side], options, plan.progress, [reference_side, candidate_side])
    if report.ok:
        report.cells[""].comparisons += compare_changed_inputs(reference_side, candidate_side)
    report.correspondence = correspondence(plan.candidate, prefixes, rearrangements, report.cells)
    inner = {path: why for path, why in apart.items() if not prefixes.is_wrapper(path)}
    report.structure += [*prefixes.differences(), *_differences(inner, report)]
    report.structure += _results_of_one_side(alignment.unreturned)
    report.structure += mode_differences(reference, candidate, options.train, report.cells)
    report.structure += [
        StructureDifference(OTHER_PARTS, name, owner(name, report.cells), text)
        for name, text in rearrangements.differences()
    ]
    report.notes += class_notes(reference, candidate, report.cells)
    if report.ok:
        report.notes += operator_notes(reference_side, candidate_side, report.cells)
    plain = plan.reference_side("reference", **how(reference, apart))
    lone.judge(report, candidate_side.name, plain)
    for difference in report.structure:
        _explain(report, difference)
    return report


def _differences(apart: Mapping[str, Apart], report: Report) -> list[StructureDifference]:
    """Return the Cells that are set apart, each with the Cell that was judged for it.

    Of Cells that one side alone calls, those inside aren't listed, too.
    """
    differences = []
    for path, why in apart.items():
        outer = [apart[other] for other in apart if is_inside(path, other)]
        if not any(other.kind == why.kind != CALLED_DIFFERENTLY for other in outer):
            around = owner(path, report.cells)
            text = f"{path} is {why.reason}; it was judged in {around or '(root)'}"
            differences.append(StructureDifference(why.kind, path, around, text))
    return differences


def _results_of_one_side(unreturned: Collection[tuple[str, str]]) -> list[StructureDifference]:
    """Return a difference for each Cell that returns more in the reference."""
    slots: dict[str, list[str]] = {}
    for path, slot in sorted(unreturned):
        slots.setdefault(path, []).append(slot)
    return [
        StructureDifference(
            OTHER_RESULT,
            path,
            path,
            f"{path} returns {list_names(names)} in the reference alone; the rest is compared",
        )
        for path, names in slots.items()
    ]


def _explain(report: Report, difference: StructureDifference) -> None:
    """If the Cell around a difference is wrong by itself, say that this may be why."""
    cell = report.cells[difference.around]
    if any(c.feeding == "isolated" for c in cell.failures):
        cell.explanations.append(difference.text)
