"""Computes the shares that Cells have in the error of a network, from the records of runs that were made anyway."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ...runtime.ir.types import is_floating
from ..results.comparison import FAIL, Comparison
from ..results.error_shares import ErrorShares
from ..sides.records import INPUT, OUTPUT, Array, Key, Records, gradient_key
from ..verdicts.deviations import error, size
from .boundaries import OUTPUTS

MAX_BYTES = 2**30
"""Of the values inside a network, up to which they are recorded end to end too."""


@dataclass
class SharesOfError:
    """Collects the shares of sides whose outputs fail; sides that pass cost nothing.

    Attributes:
        truth: the reference's records in float64, with its gradients end to end.
        loss: whether the network has a loss.
        shares: the shares, one for each side at most.
    """

    truth: Records
    loss: bool
    shares: list[ErrorShares] = field(default_factory=list)
    _isolated: dict[str, tuple[str, dict[str, float]]] = field(default_factory=dict)

    def add_isolated(
        self, side: str, check: str, records: Records, comparisons: Iterable[tuple[str, Comparison]]
    ) -> None:
        """Compute the shares of a side, from the first isolated run in which a Cell's forward pass fails."""
        if side not in self._isolated and any(c.status == FAIL and c.kind in OUTPUTS for _, c in comparisons):
            self._isolated[side] = check, _shares(self.truth, records)

    def needs_inner_values(self, side: str, check: str) -> bool:
        """Whether the end-to-end run of a check should record the values inside the network too.

        It is made anyway. Only a side that fails takes the memory, and only if this is little. In float64 alone: ONNX
        Runtime computes otherwise if values inside are outputs.
        """
        if self._isolated.get(side, ("", {}))[0] != check or check != "meaning":
            return False
        return sum(array.nbytes for array in self.truth.values.values()) <= MAX_BYTES

    def add_end_to_end(self, side: str, check: str, records: Records) -> None:
        """Add the error that the shares are of, from the end-to-end run of the same check."""
        known, shares = self._isolated.get(side, ("", {}))
        if known != check or not shares or records.faults.raising:
            return
        total = _total(self.truth, records)
        if total is not None and all(map(math.isfinite, (total, *shares.values()))):
            errors = _end_to_end(self.truth, records) if self.needs_inner_values(side, check) else {}
            self.shares.append(ErrorShares(side, check, self.loss, total, shares, errors))


def _shares(truth: Records, isolated: Records) -> dict[str, float]:
    """Return the inner product of each Cell's own errors with the reference's gradients end to end.

    A value that enters a Cell was computed by the Cell that calls it.
    """
    calls = truth.calls
    callers = {(call.path, call.index): calls[call.parent].path for call in calls if call.parent is not None}
    shares: dict[str, float] = {}
    for key, value in truth.values.items():
        path = key.path if key.kind == OUTPUT else callers.get((key.path, key.call))
        if path is None or key.kind not in (INPUT, OUTPUT):
            continue
        product = _product(isolated.values.get(key), value, _gradient(truth, key))
        if product:
            shares[path] = shares.get(path, 0.0) + product
    return shares


def _end_to_end(truth: Records, records: Records) -> dict[str, float]:
    """Return the largest relative error of each Cell's outputs, over all its calls."""
    errors: dict[str, float] = {}
    for key, value in truth.values.items():
        other = records.values.get(key)
        if key.kind != OUTPUT or other is None or other.shape != value.shape or not is_floating(value.dtype):
            continue
        largest = size(value)
        if largest and is_floating(other.dtype):
            errors[key.path] = max(errors.get(key.path, 0.0), error(other, value)[0] / largest)
    return errors


def _total(truth: Records, end_to_end: Records) -> float | None:
    """Return the error of the sum of outputs times cotangents; None if an output is missing or has another shape."""
    total = 0.0
    for key in truth.root_keys(OUTPUT):
        product = _product(end_to_end.values.get(key), truth.values[key], _gradient(truth, key))
        if product is None:
            return None
        total += product
    return total


def _product(value: Array | None, truth: Array, gradient: Array | None) -> float | None:
    """Return the inner product of an error with a gradient: 0 if none arrives, None if there is no error to measure."""
    if value is None or value.shape != truth.shape:
        return None
    if gradient is None or not is_floating(truth.dtype) or not is_floating(value.dtype):
        return 0.0
    with np.errstate(all="ignore"):  # the caller looks for infinities
        return float(np.vdot(value.astype(np.float64) - truth.astype(np.float64), gradient.astype(np.float64)))


def _gradient(truth: Records, key: Key) -> Array | None:
    """Return the gradient, end to end, with respect to a value at a boundary: the cotangent for the root's output."""
    if key.path == "" and key.kind == OUTPUT:
        position = truth.root_keys(OUTPUT).index(key)
        return truth.gradients.cotangents[position] if position < len(truth.gradients.cotangents) else None
    return truth.values.get(gradient_key(key))
