"""The inputs of a program that is the reference, as those that probes are derived from."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from ....converter.dtypes import as_tensor
from ....runtime import tree
from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ...inputs.onnx_inputs import tables
from ...sides.interpreter_side import InterpreterSide
from .values import Inputs


def inputs_of_program(side: InterpreterSide) -> Inputs | None:
    """Return the given inputs of a program, as torch tensors; None if torch has no tensors of their dtypes."""
    try:
        tensors = [as_tensor(array) for array in side.inputs]
    except ConversionError:
        return None
    arguments = tree.unflatten(side.program.arguments, list(tensors))
    places = [n for n, leaf in enumerate(pytree.tree_leaves(arguments)) if isinstance(leaf, torch.Tensor)]
    names = [value.name for value in side.program.inputs]
    return Inputs.of(arguments, dict(zip(places, zip(names, tensors, strict=True), strict=True)))


def vocabularies_of(program: Program) -> list[int]:
    """The lengths of the tables in which the program looks up its inputs, or of all matrices; the largest first."""
    found = {length for value in program.inputs if value.dtype.kind in "iu" for length in tables(program, value)}
    matrices = {parameter.data.shape[0] for parameter in program.parameters.values() if parameter.data.ndim == 2}
    return sorted(found or matrices, reverse=True)
