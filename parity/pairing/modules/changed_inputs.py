"""Inputs that one of two torch modules changes in place, which its caller sees after the call."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ....converter.capture.cell_hooks import input_slots
from ....converter.capture.export_errors import eager_error
from ....converter.seed import manual_seed
from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import is_floating
from ....runtime.programs.call import as_array
from ...results.comparison import FAIL, Comparison
from ...sides.precision import DoublePrecision, in_dtype
from ...sides.records import Array
from ...sides.torch_contexts import inputs_in
from ...sides.torch_side import TorchSide
from ...verdicts.deviations import error, size
from ...verdicts.judge import MEANING_RELATIVE


def compare_changed_inputs(reference: TorchSide, candidate: TorchSide) -> list[Comparison]:
    """Return a failure for each input that has another value after the call of the candidate than of the reference."""
    names = dict(input_slots(reference.module, reference.args, reference.kwargs))
    own_names = dict(input_slots(candidate.module, candidate.args, candidate.kwargs))
    before, expected = _inputs_after_call(reference)
    _, after = _inputs_after_call(candidate)
    failures = []
    for place, name in names.items():
        if place in after and not _agree(after[place], expected[place]):
            own = own_names.get(place, name)
            if _agree(expected[place], before[place]):
                reason = f"it changes its input {own} in place, and the reference doesn't"
            elif _agree(after[place], before[place]):
                reason = f"it leaves its input {own} as it is, and the reference changes it in place"
            else:
                reason = f"it leaves other numbers in its input {own} than the reference, and both change it"
            failures.append(Comparison(candidate.name, "meaning", "end to end", "call", name, 0, FAIL, reason))
    return failures


def _inputs_after_call(side: TorchSide) -> tuple[dict[int, Array], dict[int, Array]]:
    """Return the tensors of the given arguments before and after a call in float64, by place among all leaves.

    Raises:
        UsageError: the module doesn't run on them.
    """
    manual_seed(side.seed)
    inputs = inputs_in(side.module, side.arguments, torch.float64, side.dtype, grads=False)
    with (
        in_dtype(side.module, torch.float64, through=side.dtype, train=side.train) as kept,
        DoublePrecision(side.dtype, kept),
        torch.no_grad(),
    ):
        leaves = dict(enumerate(pytree.tree_leaves((inputs.args, inputs.kwargs))))
        tensors = {place: leaf for place, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
        before = {place: as_array(tensor).copy() for place, tensor in tensors.items()}
        try:
            side.module(*inputs.args, **inputs.kwargs)
        except CellbridgeError:
            raise
        except Exception as error:  # raised by the model's code
            raise eager_error(error, side.module, inputs.args, inputs.kwargs) from error
        return before, {place: as_array(tensor).copy() for place, tensor in tensors.items()}


def _agree(first: Array, second: Array) -> bool:
    if first.shape != second.shape:
        return False
    if not is_floating(first.dtype):
        return bool(np.array_equal(first, second))
    return error(first, second)[0] <= MEANING_RELATIVE * size(second)
