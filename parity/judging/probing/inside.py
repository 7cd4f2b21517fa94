"""Other values inside the network: what activations are given, and what layers with weights return.

Inputs of the network can't put just any value there, since normalizations keep what comes after them in a narrow range.
A layer with other weights would: so a Cell answers for these values too. Only Cells are changed whose values may be any
number, unlike those of a softmax or a normalization.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import torch
from torch import nn

from ....converter.structure.program_names import named_modules
from ....runtime.ir.program import Program
from ....runtime.ir.types import is_floating
from ....runtime.ops.registry import ops_with
from ...sides.abilities import RunsModule, RunsProgram
from ...sides.records import INPUT, OUTPUT, Array, Key, Records
from ...sides.side import Side
from .probe import Change

AFFINE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.modules.batchnorm._BatchNorm)
MULTIPLYING = ops_with(lambda of: of.products) | {"batch_norm"}
"""Ops that an affine layer of a program consists of, with those that add and arrange."""
ARRANGING = ops_with(lambda of: of.moves == "first") | {"add"}


@dataclass(frozen=True)
class Layers:
    """Paths of the Cells of a network, by what they may be given or return.

    Attributes:
        affine: layers that multiply by their weights, and return any number.
        plain: Cells without parameters, some of which are activations.
    """

    affine: AbstractSet[str]
    plain: AbstractSet[str]


def layers_of(reference: Side) -> Layers:
    """Return the layers of a module or a program; none of other sides."""
    if isinstance(reference, RunsModule):
        modules = {path: inner for path, _, inner in named_modules(reference.module)}
        affine = {path for path, inner in modules.items() if isinstance(inner, AFFINE)}
        return Layers(affine, {path for path, inner in modules.items() if not any(True for _ in inner.parameters())})
    return _of_program(reference.own_program()) if isinstance(reference, RunsProgram) else Layers(set(), set())


def _of_program(program: Program) -> Layers:
    parameters = {parameter.value for parameter in program.parameters.values()}
    ops: dict[str, set[str]] = {call.path: set() for call in program.calls}
    with_parameters: set[str] = set()
    for node in program.nodes:
        path = program.calls[node.cell].path
        ops[path].add(node.op)
        if node.op != "boundary" and not parameters.isdisjoint(node.inputs):
            with_parameters.add(path)
    affine = {path for path in with_parameters if ops[path] & MULTIPLYING and ops[path] <= MULTIPLYING | ARRANGING}
    return Layers(affine, ops.keys() - with_parameters)


def with_other_values(records: Records, layers: Layers, change: Change) -> Records | None:
    """Return a feed with other values at inputs of activations and outputs of affine layers; None if there are none.

    Args:
        records: the reference's records of all boundaries, in float64.
        layers: the layers of the reference.
        change: returns other values for a tensor.
    """
    parents = {call.parent for call in records.calls}
    changed: dict[Key, Array] = {}
    for number, call in enumerate(records.calls):
        if number in parents or not call.path:
            continue
        inputs, outputs = (
            [Key(call.path, call.index, kind, slot) for slot in records.slots.get((call.path, call.index, kind), [])]
            for kind in (INPUT, OUTPUT)
        )
        is_activation = call.path in layers.plain and _keeps_shape(inputs, outputs, records)
        keys = outputs if call.path in layers.affine else inputs if is_activation else []
        for key in keys:
            if key in records.values and is_floating(records.values[key].dtype):
                changed[key] = change(torch.from_numpy(records.values[key])).numpy()
    return replace(records, values=records.values | changed) if changed else None


def _keeps_shape(inputs: list[Key], outputs: list[Key], records: Records) -> bool:
    """Whether a Cell turns one tensor into another of its shape."""
    if len(inputs) != 1 or len(outputs) != 1:
        return False
    given, returned = records.values.get(inputs[0]), records.values.get(outputs[0])
    return given is not None and returned is not None and given.shape == returned.shape
