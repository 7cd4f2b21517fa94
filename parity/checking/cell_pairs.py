"""A torch module and its port to Cells, paired by names or, where these carry no weights, by what they compute."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch

from ...converter.structure.program_names import named_parameters
from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.programs.call import as_array
from ..correspondence.cells import Pairing, pair_up
from ..pairing.ports.results import common_results
from ..report.report import Report
from ..results.modes import mode_notes
from ..sides.cell_side import CellSide
from ..sides.frameworks import Framework
from ..support.messages import first_line
from ..weights.mapping import carry, own_weights
from .by_values import ENOUGH, Candidate, by_names_note, compare_by_values, share_of_cells
from .plan import Plan
from .ports_by_name import compare_port

LOOKED_FOR = 256
"""Numbers of a parameter that are looked for in the Cell."""


def compare_cell(plan: Plan, framework: Framework, is_loaded: bool = False) -> Report:
    """Compare a module with its port; see `parity.compare`.

    The module's weights are carried into the Cell by names and layouts. Where the user says nothing of them, and they
    can't be carried so, or into fewer than half of the Cells, a Cell that holds the module's weights already keeps its
    own: its program is aligned with the module by the values that it computes. So does one whose weights were loaded.

    Raises:
        UsageError: weights can't be carried, and the Cell doesn't hold them, or can't be captured.
    """
    module, cell = plan.reference, plan.candidate
    if is_loaded:
        return _by_values(plan, framework, "")
    pairing = pair_up(module, cell, plan.cells)
    try:
        carried = carry(module, cell, pairing, plan.weights, getattr(torch, plan.options.dtype))
    except UsageError as refusal:
        if not plan.may_pair_by_values or share_of_weights(module, cell) < ENOUGH:
            raise
        try:
            return _by_values(plan, framework, first_line(refusal).removesuffix(":"))
        except CellbridgeError as error:
            raise UsageError(f"{refusal}\n{by_names_note(error)}") from error
    share = share_of_cells(module, lambda _, names: any(map(carried.of, names)))
    lacks_weights = bool(carried.mismatches) and share < ENOUGH
    if not (plan.may_pair_by_values and lacks_weights) or share_of_weights(module, cell) < ENOUGH:
        return compare_port(plan, framework, pairing, carried)
    try:
        return _by_values(plan, framework, f"{carried.mismatches[0].name}: {carried.mismatches[0].reason}")
    except CellbridgeError as error:
        report = compare_port(plan, framework, pairing, carried)
        report.notes.append(by_names_note(error))
        return report


def _by_values(plan: Plan, framework: Framework, reason: str) -> Report:
    """Compare a Cell that keeps its own weights: the module's can't be carried for a reason, or are in it already."""
    module, cell, options = plan.reference, plan.candidate, plan.options
    root = Pairing(tuple(pair for pair in pair_up(module, cell).pairs if not pair.module), {}, {})

    def side(named: bool) -> CellSide:
        weights = own_weights(cell, named=named)
        how: dict[str, Any] = {"train": options.train, "working_dtype": options.dtype}
        return CellSide(framework, cell, module, plan.args, plan.kwargs, root, weights, {}, **how)

    def at_results(computed: Collection[str]) -> CellSide:
        return side(named=False)

    with common_results(plan.reference_side("torch", cell_paths=[""]), side(named=False), options) as answers:
        report = compare_by_values(plan, Candidate(side(named=True), at_results))
    if answers is not None:
        answers.note_in(report)
    report.notes += mode_notes(module, options.train)
    if reason:
        report.notes.append(f"the Cell kept its own weights, since the module's couldn't be carried by names: {reason}")
    return report


def share_of_weights(module: torch.nn.Module, cell: Any) -> float:
    """Return of which share of the module's parameters the Cell has the numbers, in any layout; 0 without any.

    Parameters all of whose numbers are equal don't count: those of every norm are at first.
    """
    cell_arrays = [np.asarray(parameter.asnumpy(), np.float32).reshape(-1) for parameter in cell.get_parameters()]
    numbers = np.unique(np.concatenate(cell_arrays)) if cell_arrays else np.zeros(0, np.float32)
    in_cell: list[bool] = []
    for _, parameter in named_parameters(module):
        own = as_array(parameter).astype(np.float32).reshape(-1)
        chosen = own[:: max(1, own.size // LOOKED_FOR)]
        if chosen.size and np.any(chosen != chosen[0]):
            in_cell.append(bool(np.isin(chosen, numbers).all()))
    return sum(in_cell) / len(in_cell) if in_cell else 0.0
