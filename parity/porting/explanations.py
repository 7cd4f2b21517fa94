"""Why a port may be wrong: known differences between the APIs, and what was only supposed of pairs and weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..comparison.comparer import NOTHING_ARRIVES
from ..differences import explain
from ..pairing.cells import Pairing
from ..report.report import Report
from ..results.cell_report import CellReport
from ..sides.records import INPUT, Array, Key, Records
from ..weights.mapping import Weights


def explain_failures(
    report: Report, module: torch.nn.Module, cell: Any, pairing: Pairing, weights: Weights, truth: Records
) -> None:
    """Fill in the `explanations` of the Cells at fault.

    Args:
        report: of the comparison.
        module: the reference.
        cell: its port.
        pairing: of the two.
        weights: how its Parameters were filled.
        truth: records of the reference.
    """
    explainer = _Explainer(module, cell, pairing, weights, truth)
    for path in report.failing:
        report.cells[path].explanations = list(dict.fromkeys(explainer.lines(report.cells[path])))


class _Explainer:
    def __init__(self, module: torch.nn.Module, cell: Any, pairing: Pairing, weights: Weights, truth: Records) -> None:
        self.module = module
        self.cells = dict(cell.cells_and_names())
        self.pairing = pairing
        self.weights = weights
        self.truth = truth
        self.cell_of = pairing.cell_of | {pair.module: pair.cell for pair in pairing.apart}

    def lines(self, report: CellReport) -> Iterator[str]:
        """What may be the cause, the most telling first."""
        path = report.path
        if path in self.cell_of:
            inputs = [self.truth.values[key] for key in self._inputs(path)]
            yield from self._differences(path, inputs)
        for pair, how in self.pairing.apart.items():
            if self._judged_in(pair.module) == path:
                yield f"{pair.module} ({pair.module_class}) is not called as its port is, and judged here: {how}"
                yield from self._differences(pair.module, [])
        alone = [f"{p} ({name})" for p, name in self.pairing.lone_modules.items() if self._judged_in(p) == path]
        if alone:
            yield f"no Cell is the port of {', '.join(alone)}: what that does is judged here"
        yield from self._backward(report)
        yield from self._suppositions(report)
        if all(c.check == "rounding" for c in report.failures):
            yield from self._precision(path)

    def _differences(self, path: str, inputs: list[Array]) -> list[str]:
        return explain(self.module.get_submodule(path), self.cells[self.cell_of[path]], inputs)

    def _backward(self, report: CellReport) -> Iterator[str]:
        """A backward pass written by hand that says nothing of Parameters."""
        cell = self.cells.get(self.cell_of.get(report.path, ""))
        missing = any(c.kind == "parameter gradient" and c.reason.startswith(NOTHING_ARRIVES) for c in report.failures)
        if missing and getattr(cell, "bprop", None) is not None and not getattr(cell, "internal_params", ()):
            yield (
                "its bprop gives Parameters no gradient: name them in internal_params, a list, and return (gradients "
                "of the inputs, {parameter: gradient})"
            )

    def _suppositions(self, report: CellReport) -> Iterator[str]:
        """What the user may know better."""
        path = report.path
        forward = any(not c.kind.endswith("gradient") for c in report.failures)
        for entry in self.weights.carried:
            if entry.module == path and entry.square and forward:
                yield (
                    f"{entry.path} is square and was taken as {entry.source} is; if it is stored with its axes "
                    f"exchanged, say so: weights={{{entry.path!r}: ({entry.source!r}, 'transpose')}}"
                )
        if kept := self._kept(path):
            yield (
                f"{', '.join(kept)} kept what the Cell held, as it is not clear that the module's "
                f"{', '.join(kept.values())} go there; if they do, say so: weights={kept}"
            )
        for pair in self.pairing.pairs:
            if pair.module == path and pair.how == "class and order":
                yield (
                    f"that {pair.cell} is the port of {path} was concluded from classes and order; if it isn't, say "
                    f"which is: cells={{'path of the Cell': {path!r}}}"
                )

    def _kept(self, path: str) -> dict[str, str]:
        """Parameters that aren't trained and were made of nothing, with buffers of the module that may belong there."""
        left = [name for name in self.weights.left_buffers() if self._judged_in(name.rpartition(".")[0]) == path]
        kept: dict[str, str] = {}
        for entry in self.weights.carried:
            shape = tuple(entry.parameter.shape)
            if entry.module != path or entry.arrangement is not None or entry.parameter.requires_grad:
                continue
            likely = next((name for name in left if tuple(self.weights.arrays[name].shape) == shape), None)
            if likely is not None:
                left.remove(likely)
                kept[entry.path] = likely
        return kept

    def _precision(self, path: str) -> Iterator[str]:
        dtype = getattr(self.cells.get(self.cell_of.get(path, "")), "_compute_dtype", None)
        if dtype is not None:
            yield (
                f"it agrees in float64 and computes in {dtype}, as to_float says: compare in that dtype, "
                f"dtype={str(dtype)!r}, or give rtol and atol"
            )

    def _judged_in(self, path: str) -> str:
        """The innermost module with a port that contains the one at `path`."""
        while path and path not in self.pairing.cell_of:
            path = path.rpartition(".")[0]
        return path

    def _inputs(self, path: str) -> list[Key]:
        return [Key(path, 0, INPUT, slot) for slot in self.truth.slots.get((path, 0, INPUT), [])]
