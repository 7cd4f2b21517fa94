"""Inputs that one of two torch modules changes in place, which its caller sees after the call."""

from __future__ import annotations

import numpy as np

from ...converter.capture.cell_hooks import input_slots
from ...runtime.ir.types import is_floating
from ..results.comparison import FAIL, Comparison
from ..sides.records import Array
from ..sides.torch_side import TorchSide
from ..verdicts.deviations import error, size
from ..verdicts.judge import MEANING_RELATIVE


def compare_changed_inputs(reference: TorchSide, candidate: TorchSide) -> list[Comparison]:
    """Return a failure for each input that has another value after the call of the candidate than of the reference."""
    names = dict(input_slots(reference.module, reference.args, reference.kwargs))
    own_names = dict(input_slots(candidate.module, candidate.args, candidate.kwargs))
    before, expected = reference.inputs_after_call()
    _, after = candidate.inputs_after_call()
    found = []
    for place, name in names.items():
        if place in after and not _agree(after[place], expected[place]):
            own = own_names.get(place, name)
            if _agree(expected[place], before[place]):
                reason = f"it changes its input {own} in place, and the reference doesn't"
            elif _agree(after[place], before[place]):
                reason = f"it leaves its input {own} as it is, and the reference changes it in place"
            else:
                reason = f"it leaves other numbers in its input {own} than the reference, and both change it"
            found.append(Comparison(candidate.name, "meaning", "end to end", "call", name, 0, FAIL, reason))
    return found


def _agree(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    if not is_floating(one.dtype):
        return bool(np.array_equal(one, other))
    return error(one, other)[0] <= MEANING_RELATIVE * size(other)
