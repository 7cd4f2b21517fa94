"""A torch module held against its port: a network written by hand as Cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..runtime.nn.cell import Cell
from .differences import explain
from .options import Options
from .pairing import Pairing, pair_up
from .progress import Progress
from .results import FAIL, CarriedWeight, Comparison, Report
from .sides.cell_side import CellSide
from .sides.eager import Eager
from .sides.frameworks import Framework
from .sides.records import INPUT, Array, Key, Records
from .sides.torch_side import TorchSide
from .trial import Trial
from .weights.mapping import Weights, carry


def framework_of(network: Any) -> Framework | None:
    """The framework whose Cell the network is; None if it is none."""
    if isinstance(network, Cell):
        return Eager()
    if any(
        base.__module__.partition(".")[0] == "mindspore" and base.__name__ == "Cell" for base in type(network).__mro__
    ):
        from .sides.mindspore import MindSpore

        return MindSpore()
    return None


def compare_port(
    module: torch.nn.Module,
    cell: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    framework: Framework,
    options: Options,
    progress: Progress,
    cells: Mapping[str, str] | None = None,
    weights: Mapping[Any, Any] | None = None,
) -> Report:
    """Hold a Cell against the module that it is the port of; see `parity.compare`."""
    working = getattr(torch, options.dtype)
    pairing = pair_up(module, cell, cells)
    carried = carry(module, cell, pairing, weights, working)
    reference = TorchSide(
        "torch",
        module,
        args,
        kwargs,
        train=options.train,
        loss=options.loss,
        working_dtype=options.dtype,
        seed=options.seed,
        watched=pairing.cell_of,
        ignored=carried.ignored | carried.unseen,
    )
    side = CellSide(
        framework, cell, module, args, kwargs, pairing, carried, train=options.train, working_dtype=options.dtype
    )
    trial = Trial(reference, options, progress)
    report = Report(
        model=options.model or type(module).__name__,
        reference=reference.name,
        sides=[side.name],
        dtype=options.dtype,
        train=options.train,
        grads=options.grads,
        seed=options.seed,
        cells=trial.cells,
        lone_cells=[f"{path} ({name})" for path, name in pairing.lone_cells.items()],
        weights=[CarriedWeight(entry.path, entry.source, entry.how) for entry in carried.carried],
    )
    for pair in pairing.pairs:
        if pair.module in report.cells:
            place = "" if pair.cell == pair.module else f" at {pair.cell}"
            report.cells[pair.module].counterpart = pair.cell_class + place
    for path, comparison in [*_misfits(side.name, carried, options), *trial.judge(side)]:
        report.cells[path].comparisons.append(comparison)
    report.notes += trial.notes + _notes(carried, side)
    _explain(report, module, cell, pairing, carried, trial.truth)
    return report


def _misfits(side: str, weights: Weights, options: Options) -> list[tuple[str, Comparison]]:
    """Parameters without counterpart."""
    return [
        (m.module, Comparison(side, "meaning", "isolated", "parameter", m.name, 0, FAIL, m.reason, shape=m.shape))
        for m in weights.misfits
        if options.selects(m.module)
    ]


def _notes(weights: Weights, side: CellSide) -> list[str]:
    notes = []
    if "meaning" not in side.framework.checks:
        notes.append(f"{side.name} was judged by rounding only: it has no kernels in float64 for many operators")
    if side.train and not side.framework.replays:
        notes.append(f"random draws of {side.name} can't be replayed: give Dropout p=0 on both sides in train mode")
    if weights.unseen:
        names = ", ".join(sorted(weights.unseen))
        notes.append(
            f"not compared: the gradients of {names}; the function given for them does more than move elements"
        )
    return notes


def _explain(
    report: Report, module: torch.nn.Module, cell: Any, pairing: Pairing, weights: Weights, truth: Records
) -> None:
    """Say of each Cell at fault what is known to differ between the two APIs, and what was only supposed."""
    cells = dict(cell.cells_and_names())
    for path in report.failing:
        lines = explain(module.get_submodule(path), cells[pairing.cell_of[path]], _inputs(truth, path))
        for entry in weights.carried:
            if entry.module == path and entry.square:
                lines.append(
                    f"{entry.path} is square and was taken as {entry.source} is; if it is stored with its axes "
                    f"exchanged, say so: weights={{{entry.path!r}: ({entry.source!r}, 'transpose')}}"
                )
        alone = [f"{inner} ({name})" for inner, name in pairing.lone_modules.items() if _parent(inner, pairing) == path]
        if alone:
            lines.append(f"no Cell is the port of {', '.join(alone)}: what that does is judged here")
        report.cells[path].explanations = lines


def _parent(path: str, pairing: Pairing) -> str:
    """The innermost module with a port that contains the one at `path`."""
    while path not in pairing.cell_of:
        path = path.rpartition(".")[0]
    return path


def _inputs(truth: Records, path: str) -> list[Array]:
    slots = truth.slots.get((path, 0, INPUT), [])
    return [truth.values[Key(path, 0, INPUT, slot)] for slot in slots]
