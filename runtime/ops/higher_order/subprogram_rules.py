"""Helpers of ops with sub-programs: running a sub-program, the common type of two results, cotangents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...ir.dims import Dim, symbol, symbols_in
from ...ir.program import Program
from ...ir.types import is_floating
from .. import creation
from ..registry import Array, Tensor, Type, require


def run(program: Program, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Run a sub-program and return its outputs."""
    from ...programs.interpreter import execute

    return tuple(execute(program, operands))


def common_type(a: Type, b: Type, inner_symbols: set[str], fresh: Iterator[str]) -> Type:
    """Return a type that covers both: dimensions that differ, or that only a run determines, become new symbols."""
    require(a.dtype == b.dtype and a.rank == b.rank, f"needed results of one dtype and rank, given {a} and {b}")
    dims: list[Dim] = []
    for x, y in zip(a.shape, b.shape, strict=True):
        if x == y and not symbols_in(x) & inner_symbols:
            dims.append(x)
            continue
        name = next(fresh, None)
        require(name is not None, f"needed a symbol for each size in which the results {a} and {b} differ")
        dims.append(symbol(str(name)))
    return Type(a.dtype, tuple(dims))


def as_tuple(x: Any) -> tuple[Any, ...]:
    """Return the outputs of an op as a tuple, also for a single output."""
    return x if isinstance(x, tuple) else (x,)


def floating_cotangents(output_cotangents: Sequence[Any], outputs: Sequence[Tensor]) -> list[Any]:
    """Return one cotangent per floating-point output, zeros for None."""
    pairs = ((g, y) for g, y in zip(output_cotangents, outputs, strict=True) if is_floating(y.dtype))
    return [creation.full_like(y, 0) if g is None else g for g, y in pairs]


def align_cotangents(operands: Sequence[Tensor], cotangents: Sequence[Any]) -> list[Any]:
    """Return the cotangents of the floating-point operands, with None for the others."""
    remaining = iter(cotangents)
    return [next(remaining) if is_floating(x.dtype) else None for x in operands]
