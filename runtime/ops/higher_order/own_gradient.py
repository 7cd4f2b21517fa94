"""`own_gradient`: tensors whose gradient a sub-program computes instead of the derivative."""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedPython
from ...ir.program import Program
from ...traits import Traits
from ..registry import Array, OnnxGraph, Tensor, Type, operator
from .subprogram_rules import align_cotangents, as_tuple, floating_cotangents


@operator
def own_gradient(*tensors: Tensor, outputs: int, backward: Program | None, refusal: str = "") -> tuple[Tensor, ...]:
    """Return the first tensors unchanged; a sub-program maps their cotangents to those of the other tensors.

    It represents a `bprop`, or the backward function of a torch `autograd.Function`.

    Args:
        tensors: the `outputs` tensors to return, then the operands: those that get a cotangent before those that don't.
        outputs: the number of tensors to return.
        backward: takes the operands, the returned tensors, and a cotangent for each returned floating-point tensor;
            returns cotangents for the first floating-point operands. None: the gradient is refused.
        refusal: why there is no `backward`.

    Raises:
        UnsupportedPython: the gradient is needed and there is no `backward`.
    """


own_gradient.traits = Traits(mixed_precision="as given")


@own_gradient.infer
def _(*tensors: Type, outputs: int, backward: Program | None, refusal: str) -> tuple[Type, ...]:
    return tensors[:outputs]


@own_gradient.native_kernel
def _(*tensors: Array, outputs: int, backward: Program | None, refusal: str) -> tuple[Array, ...]:
    return tensors[:outputs]


@own_gradient.vjp
def _(
    g: Any, y: Any, *tensors: Tensor, outputs: int, backward: Program | None, refusal: str
) -> tuple[Tensor | None, ...]:
    from ...programs.subprograms import apply_program

    if backward is None:
        raise UnsupportedPython(refusal)
    operands, returned = tensors[outputs:], as_tuple(y)
    gradients = apply_program(backward, [*operands, *returned, *floating_cotangents(as_tuple(g), returned)])
    return *(None for _ in returned), *align_cotangents(operands, [*gradients, *(None for _ in operands)])


@own_gradient.onnx
def _(graph: OnnxGraph, *tensors: str, outputs: int, backward: Program | None, refusal: str) -> tuple[str, ...]:
    return tensors[:outputs]
