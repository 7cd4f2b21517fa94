"""Numbers that may have been rounded to float32 on one side and not, or otherwise, on the other.

A file has 1 / sqrt(2), say, in float32, or divides by sqrt(2) instead; a port holds the scale of its attention as a
tensor, and its module as a Python number; a table of positions is computed by torch here, and by NumPy there. That
makes no wrong network, and is seen in float64. What such a rounding makes of the results is measured, by moving the
numbers. Of two files, one may hold weights that the other has multiplied by the scale of a batch norm, each product
rounded: what that makes is measured by moving the weights that are in one file alone, each up or down at random.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...runtime.ir.program import Program
from ...runtime.ir.types import FLOAT32, Constant
from .records import Array

SHORT = 12
"""Bits of a number that is written without rounding, such as 0.5 or 3."""
PERTURBATION = 1 + 2.0**-27
"""By how much other numbers are moved: `judge` allows many times what that makes in double precision."""
SAMPLES = 4
"""How often weights are moved: a result of few elements may be hit by little once."""


def perturbed(array: Array) -> Array:
    """The numbers in float64, a little off, but for those that need no rounding."""
    exact = array.astype(np.float64)
    mantissa = np.ldexp(np.frexp(exact)[0], SHORT)
    return np.where((mantissa == np.round(mantissa)) | ~np.isfinite(exact), exact, exact * PERTURBATION)


def perturbed_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """`perturbed`, of a torch tensor; one that holds integers, or is differentiated, is itself."""
    if tensor.requires_grad:
        return tensor
    if tensor.is_complex():
        return torch.view_as_complex(perturbed_tensor(torch.view_as_real(tensor.resolve_conj())))
    if not tensor.is_floating_point():
        return tensor
    return torch.from_numpy(np.asarray(perturbed(tensor.double().numpy(force=True))))


def perturbed_angle(angle: torch.Tensor) -> torch.Tensor:
    """The angles of a table of sines, off: a large one is off by much where it was made in float32.

    A position times a frequency, say, has to be rounded, even where the position itself is a whole number. Angles that
    are differentiated are what the network computes, and stay.
    """
    return angle if angle.requires_grad or not angle.is_floating_point() else angle * PERTURBATION


def perturbed_program(program: Program, weights: Collection[str] = (), sample: int = 1) -> Program:
    """The same with its numbers moved. Tensors of a program are weights, and stay what they are but for some.

    Args:
        program: a program.
        weights: names of constants, tensors of float32 that are moved as well, each element up or down.
        sample: seeds which go up, and which go down.
    """
    generator = np.random.default_rng(sample)

    def constant(held: Constant) -> Constant:
        if held.value.dtype != FLOAT32:
            return held
        if held.data.size == 1:
            return replace(held, data=perturbed(held.data))
        if held.value.name not in weights:
            return held
        exact = held.data.astype(np.float64)
        signs = generator.choice([-1.0, 1.0], exact.shape)
        return replace(held, data=exact + signs * (perturbed(held.data) - exact))

    return program.replace(constants=tuple(map(constant, program.constants)))


def weights_of_one(program: Program, other: Program) -> frozenset[str]:
    """Names of the constants of a program, tensors of float32, whose elements the other holds in no order."""

    def tensors(held: Program) -> dict[str, bytes]:
        constants = [each for each in held.constants if each.value.dtype == FLOAT32 and each.data.size > 1]
        return {each.value.name: np.sort(each.data, axis=None).tobytes() for each in constants}

    theirs = set(tensors(other).values())
    return frozenset(name for name, elements in tensors(program).items() if elements not in theirs)


def perturb_attributes(module: torch.nn.Module, buffers: Collection[str]) -> None:
    """Put moved tensors in place of those that modules hold as attributes, and of the buffers with these names."""
    for path, inner in module.named_modules():
        for name, buffer in inner._buffers.items():
            if buffer is not None and f"{path}.{name}".lstrip(".") in buffers:
                inner._buffers[name] = perturbed_tensor(buffer)
        held: dict[str, Any] = vars(inner)
        held.update({name: perturbed_tensor(value) for name, value in held.items() if type(value) is torch.Tensor})
