"""Two torch modules, paired by the names of their Cells or, where a port has other names, by what they compute."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace

import torch

from ...converter.structure.program_names import named_modules
from ...runtime.errors import CellbridgeError
from ...runtime.programs.call import as_array
from ..pairing.modules.answers import common_answers
from ..pairing.modules.changed_inputs import compare_changed_inputs
from ..pairing.modules.prefixes import Prefixes
from ..report.report import Report
from ..sides.rounded_numbers import unmatched_buffers
from ..sides.torch_side import TorchSide
from .by_values import ENOUGH, Candidate, by_names_note, compare_by_values, share_of_cells
from .modules_by_name import compare_modules
from .onnx_files.module_and_file import CANDIDATE
from .plan import Plan


def compare_pair(plan: Plan) -> Report:
    """Compare two torch modules; see `parity.compare`.

    Where the user says nothing of names, and names pair fewer than half of the Cells, or Cells that take other tensors,
    the candidate's program is aligned with the reference by the values that it computes. The candidate itself, as it
    runs, is then compared at its results.
    """
    reference, candidate = plan.reference, plan.candidate
    answers = common_answers(reference, candidate, plan.args, plan.kwargs, plan.options)
    with contextlib.nullcontext() if answers is None else answers.applied(reference, candidate):
        fewest = ENOUGH if plan.may_pair_by_values else 0.0
        by_names = not fewest or share_of_names(reference, candidate) >= fewest
        report = compare_modules(plan, fewest) if by_names else None
        if report is None:
            try:
                report = _by_values(plan)
            except CellbridgeError as error:
                report = compare_modules(plan)
                assert report is not None, "no share of Cells is asked for"
                report.notes.append(by_names_note(error))
    if answers is not None:
        answers.note_in(report)
    return report


def share_of_names(reference: torch.nn.Module, candidate: torch.nn.Module) -> float:
    """Return which share of the reference's Cells with parameters has a partner by name; 1 without any."""
    with Prefixes.between(reference, candidate).applied(candidate):
        there = {name for path, _, inner in named_modules(candidate) for name, _ in inner.named_parameters(path, False)}
        return share_of_cells(reference, lambda _, names: not there.isdisjoint(names))


def _by_values(plan: Plan) -> Report:
    side = TorchSide.of_options(CANDIDATE, plan.candidate, plan.args, plan.kwargs, plan.options)

    def at_results(computed: Collection[str]) -> TorchSide:
        names = [name for name, _ in plan.candidate.named_parameters()]
        of_reference = (*plan.reference.parameters(), *plan.reference.buffers())
        rounded = unmatched_buffers(plan.candidate, map(as_array, of_reference))
        return replace(side, cell_paths=[""], lone=names, catches=True, computed=computed, rounded=rounded)

    report = compare_by_values(plan, Candidate(side, at_results), "reference")
    if report.ok:
        report.cells[""].comparisons += compare_changed_inputs(plan.reference_side("reference"), side)
    return report
