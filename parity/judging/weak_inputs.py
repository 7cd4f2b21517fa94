"""Notes on weak inputs: if all elements are equal, many faults go unnoticed."""

from __future__ import annotations

from ..sides.records import INPUT, Array, Records


def weak_input_notes(truth: Records) -> list[str]:
    """Return a note on each input of the root whose elements are all equal."""
    arrays = {key.slot: truth.values[key] for key in truth.root_keys(INPUT)}
    return [
        f"{name} is {_value(array)} in every element, which can't show {_hidden_fault(array)}: give inputs that vary"
        for name, array in arrays.items()
        if array.size > 1 and (array == array.flat[0]).all()
    ]


def _value(array: Array) -> str:
    return str(array.flat[0]) if array.dtype.kind in "biu" else f"{float(array.flat[0]):g}"


def _hidden_fault(array: Array) -> str:
    value = array.flat[0]
    if value == 0:
        return "what it is multiplied by"
    if value == 1:
        return "whether it masks, or scales, the right elements"
    return "whether its elements are taken in the right order, along the right axis"
