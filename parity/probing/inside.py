"""Other values inside the network: what activations are given, and what layers with weights return.

Inputs of the network can't put just any value there, since normalizations keep what comes after them in a narrow range.
A layer with other weights would: so a Cell answers for these values too. Only Cells are changed whose values may be any
number, unlike those of a softmax or a normalization.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from ...converter.structure.program_names import named_modules
from ...runtime.ir.types import is_floating
from ..sides.records import INPUT, OUTPUT, Array, Key, Records
from .probe import Change

AFFINE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.modules.batchnorm._BatchNorm)


def with_other_values(records: Records, module: nn.Module, change: Change) -> Records | None:
    """Return a feed with other values at inputs of activations and outputs of affine layers; None if there are none.

    Args:
        records: the reference's records of all boundaries, in float64.
        module: the reference.
        change: returns other values for a tensor.
    """
    modules = {path: inner for path, _, inner in named_modules(module)}
    parents = {call.parent for call in records.calls}
    changed: dict[Key, Array] = {}
    for number, call in enumerate(records.calls):
        inner = modules.get(call.path)
        if number in parents or not call.path or inner is None:
            continue
        inputs, outputs = (
            [Key(call.path, call.index, kind, slot) for slot in records.slots.get((call.path, call.index, kind), [])]
            for kind in (INPUT, OUTPUT)
        )
        keys = (
            outputs if isinstance(inner, AFFINE) else inputs if _is_activation(inner, inputs, outputs, records) else []
        )
        for key in keys:
            if key in records.values and is_floating(records.values[key].dtype):
                changed[key] = change(torch.from_numpy(records.values[key])).numpy()
    return replace(records, values=records.values | changed) if changed else None


def _is_activation(inner: nn.Module, inputs: list[Key], outputs: list[Key], records: Records) -> bool:
    """Whether a Cell without parameters turns one tensor into another of its shape."""
    if any(True for _ in inner.parameters()) or len(inputs) != 1 or len(outputs) != 1:
        return False
    given, returned = records.values.get(inputs[0]), records.values.get(outputs[0])
    return given is not None and returned is not None and given.shape == returned.shape
