"""`own_gradient`: tensors whose gradient is what a sub-program computes, in place of the derivative."""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedPython
from ...ir.program import Program
from ..registry import Array, OnnxGraph, Tensor, Type, operator
from .subprogram_rules import as_tuple, cotangents_of, for_floating_operands


@operator
def own_gradient(*tensors: Tensor, outputs: int, backward: Program | None, refusal: str = "") -> tuple[Tensor, ...]:
    """The first tensors as they are; their cotangents go to the others, as a sub-program makes them.

    What it says of the derivative is what a `bprop` says, or an `autograd.Function` of torch.

    Args:
        tensors: `outputs` tensors that pass, then the operands: those that get a cotangent before those that don't.
        outputs: how many pass.
        backward: takes the operands, the tensors that pass, and a cotangent for each floating-point one of these; gives
            cotangents of floating-point operands, of the first ones. None: the gradient is refused.
        refusal: why there is no `backward`.

    Raises:
        UnsupportedPython: the gradient is asked for and there is no `backward`.
    """


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
    operands, passed = tensors[outputs:], as_tuple(y)
    found = apply_program(backward, [*operands, *passed, *cotangents_of(as_tuple(g), passed)])
    return *(None for _ in passed), *for_floating_operands(operands, [*found, *(None for _ in operands)])


@own_gradient.onnx
def _(graph: OnnxGraph, *tensors: str, outputs: int, backward: Program | None, refusal: str) -> tuple[str, ...]:
    return tensors[:outputs]
