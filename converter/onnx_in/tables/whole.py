"""Operators that are kept in one piece, with the ops that define them: see the op `onnx_function`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....runtime.ir.dims import symbols_in
from ....runtime.ir.types import Type
from ....runtime.ops.higher_order.onnx_function import onnx_function
from ....runtime.programs.subprograms import trace_subprogram
from ....runtime.tracing import SymbolicTensor


def kept_whole(
    operator: str,
    version: int,
    definition: Callable[..., Sequence[Any]],
    operands: Sequence[SymbolicTensor | None],
    attributes: Mapping[str, Any],
) -> tuple[Any, ...]:
    """What an operator of the standard domain computes, as one node that knows which operator it is.

    Args:
        operator: its name.
        version: the first opset that has it with this meaning.
        definition: the same in ops: takes the operands that are given, None for the others, and gives all outputs.
        operands: those of the operator; None for absent ones.
        attributes: of the operator; None for absent ones.
    """
    given = [x for x in operands if x is not None]
    types = [Type(x.dtype, tuple(x.shape)) for x in given]

    def body(*inputs: SymbolicTensor) -> Sequence[Any]:
        remaining = iter(inputs)
        return definition(*(None if x is None else next(remaining) for x in operands))

    if not _tell_their_sizes(types):
        return tuple(body(*given))
    results = onnx_function(
        *given,
        body=trace_subprogram(body, types, operator),
        operator=operator,
        version=version,
        slots=tuple(x is not None for x in operands),
        attributes=tuple(sorted((name, value) for name, value in attributes.items() if value is not None)),
    )
    return results if isinstance(results, tuple) else (results,)


def _tell_their_sizes(types: Sequence[Type]) -> bool:
    """Whether each symbolic size of operands is the size of one of their axes, where a sub-program reads it."""
    alone = {str(dim) for type in types for dim in type.shape if not isinstance(dim, int)}
    return all(symbols_in(type.shape) <= alone for type in types)
