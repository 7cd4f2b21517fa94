"""`onnx_function`: an ONNX operator that is defined by other ops, kept as one node."""

from __future__ import annotations

from typing import Any

from ...ir.program import Program
from ...ir.types import FLOAT16, FLOAT32, is_floating
from ...traits import Traits
from ..registry import Array, OnnxGraph, Tensor, Type, operator, require
from .subprogram_rules import align_cotangents, as_tuple, floating_cotangents, run


@operator
def onnx_function(
    *operands: Tensor,
    body: Program,
    operator: str,
    version: int,
    slots: tuple[bool, ...],
    attributes: tuple[tuple[str, Any], ...] = (),
) -> tuple[Tensor, ...]:
    """The results of `body`, which defines an operator of ONNX's standard domain.

    Execution and differentiation use the body. ONNX files contain the operator itself if their opset has it.

    Args:
        operands: the operands of the operator that are present.
        body: the definition of the operator on these operands, which returns its outputs.
        operator: its name, such as "RotaryEmbedding".
        version: the first opset in which the operator has this definition.
        slots: for each operand of the operator, whether it is present.
        attributes: names and values of the operator's attributes.
    """


onnx_function.traits = Traits(mixed_precision="as given")


@onnx_function.infer
def _(*operands: Type, body: Program, slots: tuple[bool, ...], **named: Any) -> tuple[Type, ...]:
    from ...programs.subprograms import result_types

    require(sum(slots) == len(operands), f"{len(operands)} operands for the slots {slots}")
    return tuple(result_types(body, operands))


@onnx_function.native_kernel
def _(*operands: Array, body: Program, **named: Any) -> tuple[Array, ...]:
    return run(body, operands)


@onnx_function.vjp
def _(g: Any, y: Any, *operands: Tensor, body: Program, **named: Any) -> tuple[Any, ...]:
    from ...programs.subprograms import apply_program, gradient

    gradients = apply_program(gradient(body), [*operands, *floating_cotangents(as_tuple(g), as_tuple(y))])
    return tuple(align_cotangents(operands, gradients))


@onnx_function.onnx
def _(
    graph: OnnxGraph,
    *operands: str,
    body: Program,
    operator: str,
    version: int,
    slots: tuple[bool, ...],
    attributes: tuple[tuple[str, Any], ...],
) -> Any:
    from ...programs.subprograms import apply_program

    dtypes = [graph.type(name).dtype for name in operands]
    # ONNX Runtime lacks kernels for other dtypes, or the operator's schema doesn't allow them
    is_supported = all(dtype in (FLOAT32, FLOAT16) for dtype in dtypes if is_floating(dtype))
    if is_supported and graph.has(operator, version):
        remaining = iter(operands)
        inputs = [next(remaining) if slot else "" for slot in slots]
        return graph.op(operator, *inputs, outputs=len(body.outputs), **dict(attributes))
    outputs = graph.compose(lambda *tensors: apply_program(body, tensors), operands)
    return outputs if len(outputs) > 1 else outputs[0]
