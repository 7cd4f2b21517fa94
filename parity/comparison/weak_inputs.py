"""Inputs that show little: all elements are equal, so that much of what could be wrong makes no difference."""

from __future__ import annotations

from ..sides.records import INPUT, Array, Records


def weak_inputs(truth: Records) -> list[str]:
    """A note for each input of the root whose elements are all equal: what it can't show."""
    named = {key.slot: truth.values[key] for key in truth.root(INPUT)}
    return [
        f"{name} is {_shown(array)} in every element, which can't show {_hidden(array)}: give inputs that vary"
        for name, array in named.items()
        if array.size > 1 and (array == array.flat[0]).all()
    ]


def _shown(array: Array) -> str:
    return str(array.flat[0]) if array.dtype.kind in "biu" else f"{float(array.flat[0]):g}"


def _hidden(array: Array) -> str:
    value = array.flat[0]
    if value == 0:
        return "what it is multiplied by"
    if value == 1:
        return "whether it masks, or scales, the right elements"
    return "whether its elements are taken in the right order, along the right axis"
