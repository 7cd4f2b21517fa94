"""Iterative compositions of ops: Python functions of real or complex tensors, traced as bodies of loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...ir.dims import Dim
from ...ir.types import INT64
from ...tracing import SymbolicTensor
from .. import creation, elementwise
from ..complex_numbers import Complex
from ..matrices import real
from ..registry import Type
from .loops import loop, scan
from .subprogram_rules import as_tuple


def scan_slices(
    step: Callable[..., tuple[Sequence[Any], Sequence[Any]]], carried: Sequence[Any], sliced: Sequence[Any],
    captured: Sequence[Any] = (), *, reverse: bool = False,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Apply a step to each slice of tensors along their first axis.

    Args:
        step: takes the carried values, the slices and `captured`; returns the new carried values, and values to stack.
        carried: the initial carried values.
        sliced: the tensors to slice, all of one length along the first axis.
        captured: values that are the same in every step.
        reverse: whether to go from the last slice to the first.

    Returns:
        The carried values after the last step, and the values stacked along a new first axis.
    """
    from ...programs.subprograms import trace_subprogram

    operands = [*carried, *sliced, *captured]
    types = [_type(x) for x in _split_parts(carried)]
    types += [_type(x).with_shape(tuple(x.shape[1:])) for x in _split_parts(sliced)]
    types += [_type(x) for x in _split_parts(captured)]
    stacked_like: list[Any] = []

    def body(*parts: Any) -> list[Any]:
        new_carried, stacked = step(*_join_parts(parts, operands))
        stacked_like.extend(stacked)
        return _split_parts([*new_carried, *stacked])

    traced_body = trace_subprogram(body, types, "step")
    counts = {"carried": len(_split_parts(carried)), "scanned": len(_split_parts(sliced))}
    results = scan(*_split_parts(operands), body=traced_body, reverse=reverse, **counts)
    tensors = _join_parts(as_tuple(results), [*carried, *stacked_like])
    return tensors[: len(carried)], tensors[len(carried) :]


def repeat_step(step: Callable[..., tuple[Any, Sequence[Any]]], carried: Sequence[Any], limit: Any) -> list[Any]:
    """Repeat a step while it returns that there are more steps.

    Args:
        step: takes the carried values; returns whether to continue (bool, without dimensions) and their new values.
        carried: the initial carried values.
        limit: the largest number of steps; int64, without dimensions.

    Returns:
        The carried values after the last step.
    """
    from ...programs.subprograms import trace_subprogram

    def body(_: Any, *parts: Any) -> list[Any]:
        going, now = step(*_join_parts(parts, carried))
        return [going, *_split_parts(now)]

    operands = _split_parts(carried)
    traced_body = trace_subprogram(body, [Type(INT64, ()), *map(_type, operands)], "steps")
    results = loop(limit, np.asarray(True), *operands, body=traced_body, carried=len(operands))
    return _join_parts(as_tuple(results), carried)


def positions(like: Any, size: Dim) -> Any:
    """Return the integers from 0 to `size`, exclusive, int64, symbolic if `like` is."""
    attributes: dict[str, Any] = {"start": 0, "stop": size, "step": 1, "dtype": INT64}
    first = real(like)
    if isinstance(first, SymbolicTensor):
        return first.builder.create(creation.arange, **attributes)
    return creation.arange(**attributes)


def choose(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` where a condition is true and `b` elsewhere, for numbers or tensors, both real or both complex."""
    if isinstance(a, Complex) or isinstance(b, Complex):
        a, b = (x if isinstance(x, Complex) else Complex(x, 0.0) for x in (a, b))
        return Complex(choose(condition, a.real, b.real), choose(condition, a.imaginary, b.imaginary))
    dtype = next(x.dtype for x in (a, b) if hasattr(x, "dtype"))
    a, b = (x if hasattr(x, "dtype") else np.asarray(x, dtype) for x in (a, b))
    return elementwise.where(condition, a, b)


def _type(x: Any) -> Type:
    return Type(x.dtype, tuple(x.shape))


def _split_parts(items: Iterable[Any]) -> list[Any]:
    """Split complex tensors into real and imaginary parts; keep real tensors."""
    parts: list[Any] = []
    for x in items:
        parts += [x.real, x.imaginary] if isinstance(x, Complex) else [x]
    return parts


def _join_parts(parts: Iterable[Any], like: Iterable[Any]) -> list[Any]:
    """Join parts into tensors that are real or complex as those of `like` are."""
    remaining = iter(parts)
    return [Complex(next(remaining), next(remaining)) if isinstance(x, Complex) else next(remaining) for x in like]
