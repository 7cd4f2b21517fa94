"""`runtime_shaped`: operators whose output shapes depend on the values of their operands, known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dim_parser import parse
from ...ir.program import Program
from ...ir.types import Type, is_floating
from ...onnx_functions.registry import get_onnx_function
from ...tracing import Builder, SymbolicTensor
from ..creation import full_like
from ..registry import Array, OnnxGraph, Tensor
from ..registry import operator as declare_op

Options = tuple[tuple[str, Any], ...]
Types = tuple[tuple[Any, ...], ...]


@declare_op
def runtime_shaped(*operands: Tensor, operator: str, options: Options, types: Types) -> Tensor:
    """An ONNX operator whose structural operands (a shape, axes, bounds) are known only at run time.

    Args:
        *operands: the operands of the operator's newest version, in order; None for an absent one.
        operator: name of the operator, and of its function in `onnx_functions`.
        options: its attributes, as pairs of name and value.
        types: `(dtype, shape)` of each output; the dtype None means that of the first operand, and a symbolic size is
            given as text and may be one that this node determines.
    """


@runtime_shaped.infer
def _(*operands: Type | None, operator: str, options: Options, types: Types) -> tuple[Type, ...]:
    get_onnx_function(operator)
    first = operands[0]
    assert first is not None, "only operands after the first may be absent"
    return tuple(
        Type(dtype or first.dtype, tuple(parse(size) if isinstance(size, str) else size for size in shape))
        for dtype, shape in types
    )


@runtime_shaped.native_kernel
def _(*operands: Array | None, operator: str, options: Options, types: Types) -> Any:
    return _apply(operator, operands, operands, dict(options))


@runtime_shaped.vjp
def _(g: Any, y: Any, *operands: Tensor | None, operator: str, options: Options, types: Types) -> Any:
    output_cotangents = g if isinstance(g, tuple) else (g,)
    outputs = y if isinstance(y, tuple) else (y,)
    function = get_onnx_function(operator)
    flows = [
        x is not None and not structural and is_floating(x.dtype)
        for x, structural in zip(operands, function.flags(len(operands)), strict=True)
    ]
    if not any(flows):
        return (None,) * len(operands)
    pairs = [(h, out) for h, out in zip(output_cotangents, outputs, strict=True) if is_floating(out.dtype)]
    cotangents = [full_like(out, 0) if h is None else h for h, out in pairs]
    gradients = runtime_shaped_gradient(*operands, *cotangents, operator=operator, options=options, count=len(operands))
    gradients = iter(gradients if isinstance(gradients, tuple) else (gradients,))
    result = tuple(next(gradients) if flow else None for flow in flows)
    return result if len(result) > 1 else result[0]


@runtime_shaped.onnx
def _(graph: OnnxGraph, *operands: str, operator: str, options: Options, types: Types) -> Any:
    return graph.op(operator, *operands, outputs=len(types), **dict(options))


@declare_op
def runtime_shaped_gradient(*operands: Tensor, operator: str, options: Options, count: int) -> Tensor:
    """The gradient of `runtime_shaped`.

    Args:
        *operands: the `count` operands of `runtime_shaped`, then one cotangent per floating-point output.
        operator: see `runtime_shaped`.
        options: see `runtime_shaped`.
        count: the number of operands of the operator.

    Returns:
        The gradient of each floating-point operand that isn't structural, in order.
    """


def _differentiable_positions(operator: str, operands: tuple[Any, ...]) -> list[int]:
    structural = get_onnx_function(operator).flags(len(operands))
    return [
        i
        for i, (x, fixed) in enumerate(zip(operands, structural, strict=True))
        if x is not None and not fixed and is_floating(x.dtype)
    ]


@runtime_shaped_gradient.infer
def _(*operands: Type | None, operator: str, options: Options, count: int) -> tuple[Type, ...]:
    return tuple(operands[i] for i in _differentiable_positions(operator, operands[:count]))  # type: ignore[misc]


@runtime_shaped_gradient.native_kernel
def _(*operands: Array | None, operator: str, options: Options, count: int) -> Any:
    from ...programs.gradient_program import differentiate  # which imports the ops
    from ...programs.interpreter import execute

    forward_operands, cotangents = operands[:count], operands[count:]
    program = _trace(operator, forward_operands, dict(options))
    backward = differentiate(program)
    needed = [v for v in backward.input_gradients if v is not None]
    inputs = [operands[i] for i in _differentiable_positions(operator, forward_operands)]
    computed = dict(zip(needed, execute(backward.program, [*inputs, *cotangents], wanted=needed), strict=True))  # type: ignore[list-item]
    pairs = zip(backward.input_gradients, inputs, strict=True)
    gradients = tuple(np.zeros_like(x) if v is None else computed[v] for v, x in pairs)
    return gradients if len(gradients) > 1 else gradients[0]


runtime_shaped_gradient.no_vjp("second derivatives of an operator with a runtime shape are not implemented")
runtime_shaped_gradient.no_onnx("ONNX has no gradients")


def contents(x: Any) -> Any:
    """Return the elements of an array or torch tensor as Python numbers: one, or a tuple (of tuples); None for None."""
    return None if x is None else _to_tuple(x.tolist())


def _to_tuple(items: Any) -> Any:
    return tuple(_to_tuple(item) for item in items) if isinstance(items, list) else items


def _apply(operator: str, tensors: Sequence[Any], arrays: Sequence[Array | None], options: dict[str, Any]) -> Any:
    """Apply the function to tensors, and to the contents of arrays for structural operands."""
    function = get_onnx_function(operator)
    arguments = [
        contents(array) if structural else x
        for x, array, structural in zip(tensors, arrays, function.flags(len(arrays)), strict=True)
    ]
    return function.function(*arguments, **options)


def _trace(operator: str, operands: tuple[Array | None, ...], options: dict[str, Any]) -> Program:
    """Trace the function as a program from the operands with gradients to the floating-point outputs."""
    from ...programs.subprograms import build_subprogram  # which imports the ops

    builder = Builder()
    tensors: list[Any] = list(operands)
    inputs: list[SymbolicTensor] = []
    for i in _differentiable_positions(operator, operands):
        inputs.append(builder.new_value(f"operand_{i}", Type(tensors[i].dtype, tensors[i].shape)))
        tensors[i] = inputs[-1]
    outputs = _apply(operator, tensors, operands, options)
    outputs = [x for x in (outputs if isinstance(outputs, tuple) else (outputs,)) if is_floating(x.dtype)]
    return build_subprogram(builder, inputs, outputs, operator)
