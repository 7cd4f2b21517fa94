"""Operators that become a single node with their definition in ops; see the op `onnx_function`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....runtime.ir.dims import symbols_in
from ....runtime.ir.types import Type
from ....runtime.ops.higher_order.onnx_function import onnx_function
from ....runtime.programs.subprograms import trace_subprogram
from ....runtime.tracing import SymbolicTensor


def as_single_node(
    operator: str,
    version: int,
    definition: Callable[..., Sequence[Any]],
    operands: Sequence[SymbolicTensor | None],
    attributes: Mapping[str, Any],
) -> tuple[Any, ...]:
    """Translate an operator of the standard domain to one node that remembers the operator.

    Args:
        operator: name of the operator.
        version: the first opset that has it with this meaning.
        definition: the operator in ops: takes the operands, None for absent ones, and returns all outputs.
        operands: the operands; None for absent ones.
        attributes: the attributes; None for absent ones.
    """
    present = [x for x in operands if x is not None]
    types = [Type(x.dtype, tuple(x.shape)) for x in present]

    def body(*inputs: SymbolicTensor) -> Sequence[Any]:
        remaining = iter(inputs)
        return definition(*(None if x is None else next(remaining) for x in operands))

    if not _are_sizes_readable(types):
        return tuple(body(*present))
    results = onnx_function(
        *present,
        body=trace_subprogram(body, types, operator),
        operator=operator,
        version=version,
        slots=tuple(x is not None for x in operands),
        attributes=tuple(sorted((name, value) for name, value in attributes.items() if value is not None)),
    )
    return results if isinstance(results, tuple) else (results,)


def _are_sizes_readable(types: Sequence[Type]) -> bool:
    """Whether each symbol in the operands is the size of one of their axes, from which a sub-program can read it."""
    alone = {str(dim) for type in types for dim in type.shape if not isinstance(dim, int)}
    return all(symbols_in(type.shape) <= alone for type in types)
