"""Possible causes of a port's failures: known differences of the APIs, and assumptions about pairs and weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ..causes.api_differences import explain
from ..correspondence.cells import Pairing
from ..judging.comparer import NO_GRADIENT
from ..report.report import Report
from ..results.cell_report import CellReport
from ..results.comparison import PASS
from ..sides.records import INPUT, Array, Key, Records
from ..weights.mapping import Weights


def explain_failures(
    report: Report, module: torch.nn.Module, cell: Any, pairing: Pairing, weights: Weights, truth: Records
) -> None:
    """Fill in the `explanations` of the failing Cells.

    Args:
        report: the report of the comparison.
        module: the reference.
        cell: its port.
        pairing: the pairing of the two.
        weights: the sources of the port's Parameters.
        truth: records of the reference.
    """
    explainer = _Explainer(module, cell, pairing, weights, truth)
    for path in report.failing:
        report.cells[path].explanations = list(dict.fromkeys(explainer.lines(report.cells[path])))


def notes_on_passing(
    report: Report, module: torch.nn.Module, cell: Any, pairing: Pairing, weights: Weights, truth: Records
) -> list[str]:
    """Return notes on the differences of passing Cells that show at other sizes of their inputs."""
    explainer = _Explainer(module, cell, pairing, weights, truth)
    passing = [
        path for path, cell_report in report.cells.items() if cell_report.status == PASS and path in explainer.cell_of
    ]
    lines = [(path, line) for path in passing for line in explainer.at_another_size(path)]
    return [f"{path or '(root)'} agrees at this size, not at all sizes: {line}" for path, line in lines]


class _Explainer:
    def __init__(self, module: torch.nn.Module, cell: Any, pairing: Pairing, weights: Weights, truth: Records) -> None:
        self.module = module
        self.cells = dict(cell.cells_and_names())
        self.pairing = pairing
        self.weights = weights
        self.truth = truth
        self.cell_of = pairing.cell_of | {pair.module: pair.cell for pair in pairing.apart}

    def lines(self, report: CellReport) -> Iterator[str]:
        """Yield possible causes, the most likely first."""
        path = report.path
        if path in self.cell_of:
            inputs = [self.truth.values[key] for key in self._inputs(path)]
            yield from self._differences(path, inputs)
            if any(c.probe for c in report.failures):
                yield from self.at_another_size(path)
        for pair, how in self.pairing.apart.items():
            if self._judging_module(pair.module) == path:
                yield f"{pair.module} ({pair.module_class}) is called differently from its port, and judged here: {how}"
                yield from self._differences(pair.module, [])
        alone = [f"{p} ({name})" for p, name in self.pairing.lone_modules.items() if self._judging_module(p) == path]
        if alone:
            yield f"no Cell is the port of {', '.join(alone)}: its computation is judged here"
        yield from self._backward(report)
        yield from self._suppositions(report)
        if all(c.check == "rounding" for c in report.failures):
            yield from self._precision(path)

    def at_another_size(self, path: str) -> list[str]:
        """Return the known differences of a pair of layers that only show if spatial sizes are larger by 1."""
        inputs = [self.truth.values[key] for key in self._inputs(path)]
        larger = [np.pad(x, [(0, int(axis > 1)) for axis in range(x.ndim)]) for x in inputs]
        known = self._differences(path, inputs)
        return [line for line in self._differences(path, larger) if line not in known] if larger else []

    def _differences(self, path: str, inputs: list[Array]) -> list[str]:
        return explain(self.module.get_submodule(path), self.cells[self.cell_of[path]], inputs)

    def _backward(self, report: CellReport) -> Iterator[str]:
        """Yield a hint for a custom backward that returns no gradients of Parameters."""
        cell = self.cells.get(self.cell_of.get(report.path, ""))
        missing = any(c.kind == "parameter gradient" and c.reason.startswith(NO_GRADIENT) for c in report.failures)
        if missing and getattr(cell, "bprop", None) is not None and not getattr(cell, "internal_params", ()):
            yield (
                "its bprop returns no gradients of its Parameters: list them in internal_params, and return (gradients "
                "of the inputs, {parameter: gradient})"
            )

    def _suppositions(self, report: CellReport) -> Iterator[str]:
        """Yield assumptions that the user may know to be wrong."""
        path = report.path
        forward = any(not c.kind.endswith("gradient") for c in report.failures)
        for entry in self.weights.entries:
            if entry.module == path and entry.square and forward:
                yield (
                    f"{entry.path} is square and was assumed to have {entry.source}'s layout; if its axes are "
                    f"exchanged, give weights={{{entry.path!r}: ({entry.source!r}, 'transpose')}}"
                )
        if unset := self._unset_parameters(path):
            yield (
                f"{', '.join(unset)} kept the Cell's own values, since they may not correspond to the module's "
                f"{', '.join(unset.values())}; if they do, give weights={unset}"
            )
        for pair in self.pairing.pairs:
            if pair.module == path and pair.how == "class and order":
                yield (
                    f"{pair.cell} was assumed to be the port of {path} because of its class and order; if it isn't, "
                    f"give cells={{'path of the Cell': {path!r}}}"
                )

    def _unset_parameters(self, path: str) -> dict[str, str]:
        """Return untrained Parameters that kept their own values, with module buffers that may belong there."""
        unassigned = [
            name for name in self.weights.unmatched_buffers() if self._judging_module(name.rpartition(".")[0]) == path
        ]
        result: dict[str, str] = {}
        for entry in self.weights.entries:
            shape = tuple(entry.parameter.shape)
            if entry.module != path or entry.arrangement is not None or entry.parameter.requires_grad:
                continue
            likely = next((name for name in unassigned if tuple(self.weights.arrays[name].shape) == shape), None)
            if likely is not None:
                unassigned.remove(likely)
                result[entry.path] = likely
        return result

    def _precision(self, path: str) -> Iterator[str]:
        dtype = getattr(self.cells.get(self.cell_of.get(path, "")), "_compute_dtype", None)
        if dtype is not None:
            yield (
                f"it agrees in float64 and computes in {dtype}, which to_float set: compare in that dtype, "
                f"dtype={str(dtype)!r}, or give rtol and atol"
            )

    def _judging_module(self, path: str) -> str:
        """Return the innermost module with a port that contains the module at `path`."""
        while path and path not in self.pairing.cell_of:
            path = path.rpartition(".")[0]
        return path

    def _inputs(self, path: str) -> list[Key]:
        return [Key(path, 0, INPUT, slot) for slot in self.truth.slots.get((path, 0, INPUT), [])]
