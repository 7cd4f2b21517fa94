"""Where two scripts begin to compute something else from the outputs of networks that agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from .....runtime.programs.call import as_array
from ....sides.records import Array
from ....support.user_code import calling_line

MAX_CALLS = 1000
"""The most calls of a script that are recorded."""
SAME = 1e-9
"""The largest relative difference of results in float64 that are the same."""


@dataclass(frozen=True)
class TracedCall:
    """A function of torch that a script called outside of its network.

    Attributes:
        result: in float64.
        source: file, line and text of the call; empty if unknown.
    """

    result: Array
    source: str


class ScriptTrace(TorchFunctionMode):
    """A mode that records what a script computes from the network's outputs, up to the first backward pass.

    Attributes:
        calls: those whose result depends on parameters, outside of the network's forward pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[TracedCall] = []
        self.inside = 0
        self.ended = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ended |= func is torch.Tensor.backward
        result = func(*args, **(kwargs or {}))
        if self.inside or self.ended or len(self.calls) >= MAX_CALLS:
            return result
        if isinstance(result, torch.Tensor) and result.requires_grad and not result.is_complex():
            array = np.asarray(as_array(result.detach()), np.float64).copy()
            self.calls.append(TracedCall(array, calling_line()))
        return result


def parting(reference: Sequence[TracedCall], candidate: Sequence[TracedCall]) -> str:
    """Say at which lines two scripts part; empty if that isn't known."""
    in_candidate = _first_without_equal(candidate, reference)
    in_reference = _first_without_equal(reference, candidate)
    if in_candidate is None or in_reference is None or not in_candidate.source or not in_reference.source:
        return ""
    return (
        f"both scripts compute the same from the network's outputs, up to {in_candidate.source} in the candidate, and "
        f"{in_reference.source} in the reference"
    )


def _first_without_equal(calls: Sequence[TracedCall], others: Sequence[TracedCall]) -> TracedCall | None:
    """The first call whose result no call of the others has, in the shape of either."""
    return next((call for call in calls if not any(_equal(call.result, other.result) for other in others)), None)


def _equal(array: Array, other: Array) -> bool:
    if array.size != other.size:
        return False
    flat, scale = array.ravel() - other.ravel(), float(np.max(np.abs(other), initial=0.0))
    return bool(np.all(np.abs(flat) <= SAME * scale))
