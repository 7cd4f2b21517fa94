"""Numbers that may have been rounded to float32 on only one side, or differently on the two sides.

For example, a file has 1 / sqrt(2) in float32, or divides by sqrt(2) instead; code has 0.79788456 for sqrt(2 / pi); a
port holds the scale of its attention as a tensor, and its module as a Python number; a table of positions is computed
by torch on one side, and by NumPy on the other. Such a network isn't wrong, but the difference is visible in float64.
Its effect on the results is measured by perturbing these numbers. Of two files, one may hold weights that the other has
multiplied by the scale of a batch norm, each product rounded: that effect is measured by perturbing the weights that
only one file has, each up or down at random.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...converter.dtypes import is_real
from ...converter.structure.program_names import named_buffers, named_parameters
from ...runtime.ir.program import Program
from ...runtime.ir.types import FLOAT32, Constant, Node
from ...runtime.programs.call import as_array
from .records import Array

EXACT_BITS = 12
"""Mantissa bits of a number that isn't perturbed because it needs no rounding, such as 0.5 or 3."""
PERTURBATION = 1 + 2.0**-27
"""Factor on the other numbers: `judge` allows many times the effect of this in double precision."""
SAMPLES = 4
"""Number of perturbations of weights: a single one may hardly affect a result of few elements."""


def perturb(array: Array) -> Array:
    """Return the numbers in float64, slightly perturbed, except for those that need no rounding."""
    exact = array.astype(np.float64)
    mantissa = np.ldexp(np.frexp(exact)[0], EXACT_BITS)
    return np.where((mantissa == np.round(mantissa)) | ~np.isfinite(exact), exact, exact * PERTURBATION)


def perturb_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Apply `perturb` to a torch tensor; integers, and tensors that require gradients, stay unchanged."""
    if tensor.requires_grad:
        return tensor
    if tensor.is_complex():
        return torch.view_as_complex(perturb_tensor(torch.view_as_real(tensor.resolve_conj())))
    if not is_real(tensor):
        return tensor
    return torch.from_numpy(np.asarray(perturb(tensor.double().numpy(force=True))))


def perturb_operand(operand: Any) -> Any:
    """Apply `perturb` to a Python number that may be another one rounded, as 0.79788456 is sqrt(2 / pi).

    Such a number has 7 to 12 digits, or a value of float32. With fewer digits it is meant as it is, and with all
    digits of float64 it isn't rounded.
    """
    if not isinstance(operand, float):
        return operand
    has_few_digits = float(f"{operand:.6g}") == operand
    is_rounded = float(f"{operand:.12g}") == operand or float(np.float32(operand)) == operand
    return float(perturb(np.asarray(operand))) if is_rounded and not has_few_digits else operand


def perturb_angle(angle: torch.Tensor) -> torch.Tensor:
    """Return perturbed angles of a table of sines: rounding to float32 causes a large error in a large angle.

    For example, a position times a frequency must be rounded, even if the position is a whole number. Angles that
    require gradients are computed by the network, and stay unchanged.
    """
    return angle if angle.requires_grad or not angle.is_floating_point() else angle * PERTURBATION


def up_or_down(data: Array, generator: np.random.Generator, *, is_computed: bool) -> Array:
    """Return numbers in float64, each slightly larger or smaller, at random.

    Args:
        data: the numbers.
        generator: decides which way each goes.
        is_computed: whether they were computed from others; else those that need no rounding stay as they are.
    """
    exact = data.astype(np.float64)
    changed = exact * PERTURBATION if is_computed else perturb(data)
    signs = generator.choice([-1.0, 1.0], exact.shape)
    finite = np.isfinite(exact)  # a mask may be of infinities
    result: Array = exact.copy()
    result[finite] += signs[finite] * (changed - exact)[finite]
    return result


def perturb_weights(module: torch.nn.Module, names: Collection[str], sample: int) -> None:
    """Perturb parameters that were computed from those of another network, each number up or down, as `sample` says."""
    generator = np.random.default_rng(sample)
    for name, parameter in named_parameters(module):
        if name in names:
            changed = up_or_down(parameter.detach().double().numpy(), generator, is_computed=True)
            parameter.data = torch.from_numpy(changed).to(parameter.dtype)


def perturb_program(
    program: Program, weights: Collection[str] = (), sample: int = 1, computed: Collection[str] = ()
) -> Program:
    """Return the program with its scalar constants perturbed, and of its tensors only those in `weights`.

    Attributes are perturbed that a file held in float32, and that nobody wrote: they have more than seven digits.

    Args:
        program: a program.
        weights: names of constants and parameters, float32 tensors, whose elements are perturbed too, each up or down.
        sample: seed that decides which elements go up, and which down.
        computed: those of `weights` that were computed from a parameter: even -2 may be the rounded -exp(log 2).
    """
    generator = np.random.default_rng(sample)

    def changed(name: str, data: Array) -> Array:
        return up_or_down(data, generator, is_computed=name in computed)

    def constant(item: Constant) -> Constant:
        if item.value.dtype != FLOAT32:
            return item
        if item.data.size == 1:
            return replace(item, data=perturb(item.data))
        name = item.value.name
        return replace(item, data=changed(name, item.data)) if name in weights else item

    parameters = {
        name: replace(parameter, data=changed(parameter.value.name, parameter.data))
        if parameter.value.name in weights
        else parameter
        for name, parameter in program.parameters.items()
    }
    nodes = tuple(map(_perturb_attributes_of_node, program.nodes))
    return program.replace(constants=tuple(map(constant, program.constants)), parameters=parameters, nodes=nodes)


def _perturb_attributes_of_node(node: Node) -> Node:
    rounded = {name: number for name, number in node.attributes.items() if isinstance(number, float)}
    rounded = {name: number for name, number in rounded.items() if float(f"{number:.7g}") != number}
    changed = {name: float(perturb(np.asarray(x))) for name, x in rounded.items() if float(np.float32(x)) == x}
    if not changed:
        return node
    return Node(node.op, node.inputs, {**node.attributes, **changed}, node.outputs, node.cell, node.source)


def weights_of_one(program: Program, other: Program) -> frozenset[str]:
    """Names of a program's float32 tensor constants whose elements, in whatever order, aren't in the other program."""

    def tensors(program: Program) -> dict[str, bytes]:
        constants = [
            constant for constant in program.constants if constant.value.dtype == FLOAT32 and constant.data.size > 1
        ]
        return {constant.value.name: np.sort(constant.data, axis=None).tobytes() for constant in constants}

    other_tensors = set(tensors(other).values())
    return frozenset(name for name, elements in tensors(program).items() if elements not in other_tensors)


def unmatched_buffers(module: torch.nn.Module, others: Iterable[Array]) -> frozenset[str]:
    """Names of a module's floating-point buffers whose elements, in whatever order, no array of another side has.

    A single number may be a rounded one of the program, and an exact one of the code that was captured.
    """

    def elements(array: Array) -> bytes:
        return np.sort(array.astype(np.float32), axis=None).tobytes()

    known = {elements(array) for array in others if array.dtype.kind == "f" and array.size > 1}
    buffers = ((name, as_array(buffer)) for name, buffer in named_buffers(module))
    return frozenset(name for name, data in buffers if data.dtype.kind == "f" and elements(data) not in known)


def perturb_attributes(module: torch.nn.Module, buffers: Collection[str]) -> None:
    """Perturb the tensors that modules hold as attributes, and the buffers with these names."""
    for path, inner in module.named_modules():
        for name, buffer in inner._buffers.items():
            if buffer is not None and f"{path}.{name}".lstrip(".") in buffers:
                inner._buffers[name] = perturb_tensor(buffer)
        attributes: dict[str, Any] = vars(inner)
        attributes.update(
            {name: perturb_tensor(value) for name, value in attributes.items() if type(value) is torch.Tensor}
        )
