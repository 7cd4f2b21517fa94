"""Of how many of a module's parameters a comparison has compared the gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ...converter.structure.program_names import named_parameters
from ..options import Options
from ..report.report import Report
from ..results.coverage import HALF, Coverage
from ..sides.reported_cells import owner
from ..sides.run import Run, Wanted
from ..sides.torch_side import TorchSide


def add_coverage(
    report: Report,
    side: str,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Options,
) -> None:
    """Say in a report of how many of the reference's parameters the gradients of a side were compared.

    These are the parameters that are trained and belong to Cells that are to be judged. Where fewer than half were
    compared, the module is run once more, and those don't count that get no gradient: the inputs don't reach them, or
    the module computes none.

    Args:
        report: the whole report.
        side: the side.
        module: the reference.
        args: its positional inputs.
        kwargs: its keyword inputs.
        options: options of the run.
    """
    if not report.grads:
        return
    names = [
        name
        for name, parameter in named_parameters(module)
        if parameter.requires_grad and options.selects(owner(name, report.cells))
    ]
    comparisons = (c for cell in report.cells.values() for c in cell.comparisons if c.side == side)
    compared = {c.tensor for c in comparisons if c.kind == "parameter gradient"}
    missing = [name for name in names if name not in compared]
    if missing and len(missing) > HALF * len(names):
        reference = TorchSide.of_options("reference", module, args, kwargs, options)
        gradients = reference.run(Run("float64", Wanted(inner=False))).gradients.parameters
        missing = [name for name in missing if (gradient := gradients.get(name)) is not None and np.any(gradient)]
    report.coverage[side] = Coverage(sum(name in compared for name in names), missing)
