"""Branches and loops: their sub-programs are graphs of the module."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.types import Type
from ...dtypes import torch_dtype
from ...rows import Row
from ..calls import control
from .table import Context, no_torch_form, pass_on, torch_form


@torch_form("cond")
def _(
    context: Context, predicate: Any, *operands: Any, then_branch: Any, else_branch: Any, symbols: tuple[str, ...]
) -> Any:
    result = context.call(control.cond, predicate, then_branch, else_branch, operands)
    return tuple(result[i] for i in range(len(context.outputs)))


@torch_form("loop")
def _(
    context: Context, limit: Any, going: Any, *operands: Any, body: Any, carried: int, symbols: tuple[str, ...]
) -> Any:
    empty = tuple(map(_empty, context.outputs[carried:]))
    result = context.call(control.loop, limit, going, operands, body, carried, empty)
    return tuple(result[i] for i in range(len(context.outputs)))


@torch_form("scan")
def _(context: Context, *operands: Any, body: Any, carried: int, scanned: int, reverse: bool) -> Any:
    empty = tuple(map(_empty, context.outputs[carried:]))
    result = context.call(control.scan, operands, body, carried, scanned, reverse, empty)
    return tuple(result[i] for i in range(len(context.outputs)))


def _empty(type: Type) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype of a stacked result with no rows."""
    return (0, *(size if isinstance(size, int) else 0 for size in type.shape[1:])), torch_dtype(type.dtype)


@torch_form("own_gradient")
def _(context: Context, *tensors: Any, outputs: int, backward: Any, refusal: str) -> Any:
    result = context.call(control.own_gradient, tensors, outputs, backward, refusal)
    return tuple(result[i] for i in range(outputs))


no_torch_form("onnx_function", "its definition is converted instead")


ROWS: dict[str, Row] = {
    "guard": (control.guard, "x, condition, message"),
}
pass_on(ROWS)
