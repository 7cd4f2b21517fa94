"""Helpers for ops on matrices: rules that serve both real and complex matrices, and some matrix algebra.

A rule is written for both kinds of numbers: `adjoint(q) @ g`. For an op with the attribute `paired`, a complex matrix
(m, n) is a tensor (m, n, 2); its kernel gets a complex array, its gradient rule gets `Complex` tensors.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..ir.types import at_least_float32, is_floating
from . import creation, elementwise, linear, reduction, shaping, slicing
from .common import in_float32
from .complex_numbers import Complex, as_complex, as_pairs, magnitude
from .registry import OnnxGraph, Op, Rule, Type, require


@dataclass(frozen=True)
class Numbers:
    """Which operands and results of an op are complex numbers, with decorators for its rules.

    Each operand or result has a letter: n is complex if the op is paired, c always, r never (nor i, an integer).
    """

    operands: str
    results: str

    def infer(self, rule: Rule) -> Rule:
        """Decorate an infer rule, which takes and returns the types of the parts."""

        @functools.wraps(rule)
        def wrapper(*types: Any, paired: bool = False, **attributes: Any) -> Any:
            bare = [self._strip_pair_axis(t, letter, paired) for t, letter in zip(types, self.operands, strict=False)]
            inferred = rule(*bare, **attributes)
            results = inferred if isinstance(inferred, tuple) else (inferred,)
            return tuple(
                t.with_shape((*t.shape, 2)) if _complex(letter, paired) else t
                for t, letter in zip(results, self.results, strict=True)
            )

        return wrapper

    def _strip_pair_axis(self, type: Type | None, letter: str, paired: bool) -> Type | None:
        if type is None or not _complex(letter, paired):
            return type
        require(type.rank > 0 and type.shape[-1] == 2, f"needed pairs of reals, a last axis of 2, given {type.shape}")
        return type.with_shape(type.shape[:-1])

    def kernel(self, rule: Rule) -> Rule:
        """Decorate a kernel, which takes and returns complex arrays."""

        @functools.wraps(rule)
        def wrapper(*arrays: Any, paired: bool = False, **attributes: Any) -> Any:
            dtype = next(x.dtype for x in arrays if x is not None and is_floating(x.dtype))
            numbers = (
                as_complex(x) if x is not None and _complex(letter, paired) else x
                for x, letter in zip(arrays, self.operands, strict=False)
            )
            computed = rule(*numbers, **attributes)
            results = computed if isinstance(computed, tuple) else (computed,)
            return tuple(
                as_pairs(y, dtype)
                if _complex(letter, paired)
                else np.asarray(y)
                if letter == "i"
                else np.asarray(y, dtype)
                for y, letter in zip(results, self.results, strict=True)
            )

        return wrapper

    def onnx(self, composition: Rule) -> Rule:
        """Return the ONNX rule for a composition of ops, which takes and returns real or `Complex` tensors.

        Half precision is computed in float32.
        """

        @functools.wraps(composition)
        def wrapper(graph: OnnxGraph, *operands: str, paired: bool = False, **attributes: Any) -> Any:
            def compose(*tensors: Any) -> list[Any]:
                remaining = iter(tensors)
                arguments = [next(remaining) if name else None for name in operands]
                arguments = [_wrap(x, letter, paired) for x, letter in zip(arguments, self.operands, strict=False)]
                computed = composition(*arguments, **attributes)
                results = computed if isinstance(computed, tuple) else (computed,)
                return [_unwrap(y, letter, paired) for y, letter in zip(results, self.results, strict=True)]

            dtypes = [(name, graph.type(name).dtype) for name in operands if name]
            dtype = next(dtype for _, dtype in dtypes if is_floating(dtype))
            wide = [graph.cast(name, at_least_float32(d)) if is_floating(d) else name for name, d in dtypes]
            results = graph.compose(compose, wide)
            return tuple(
                y if letter == "i" else graph.cast(y, dtype) for y, letter in zip(results, self.results, strict=True)
            )

        wrapper.is_composition = True  # type: ignore[attr-defined]
        return wrapper

    def vjp(self, rule: Rule) -> Rule:
        """Decorate a gradient rule, which takes and returns `Complex` tensors; it gets half precision as float32."""

        @in_float32
        @functools.wraps(rule)
        def wrapper(g: Any, y: Any, *inputs: Any, paired: bool = False, **attributes: Any) -> Any:
            is_tuple = isinstance(y, tuple)
            gs, ys = (g, y) if is_tuple else ((g,), (y,))
            gs, ys = ([_wrap(x, letter, paired) for x, letter in zip(xs, self.results, strict=True)] for xs in (gs, ys))
            operands = [_wrap(x, letter, paired) for x, letter in zip(inputs, self.operands, strict=False)]
            cotangents = rule(
                tuple(gs) if is_tuple else gs[0], tuple(ys) if is_tuple else ys[0], *operands, **attributes
            )
            if not isinstance(cotangents, tuple):
                return _unwrap(cotangents, self.operands[0], paired)
            return tuple(_unwrap(x, letter, paired) for x, letter in zip(cotangents, self.operands, strict=False))

        return wrapper


def _complex(letter: str, paired: bool) -> bool:
    return letter == "c" or (letter == "n" and paired)


def _wrap(x: Any, letter: str, paired: bool) -> Any:
    return Complex.from_pair(x) if x is not None and _complex(letter, paired) else x


def _unwrap(x: Any, letter: str, paired: bool) -> Any:
    if x is None:
        return None
    if _complex(letter, paired):
        return Complex.from_real(x).pair()
    return x.real if isinstance(x, Complex) else x


def on_numbers(op: Op, *operands: Any, **attributes: Any) -> Any:
    """Apply an op with the attribute `paired` to real tensors, or to `Complex` ones if any operand is."""
    if not any(isinstance(x, Complex) for x in operands):
        return op(*operands, **attributes)
    return Complex.from_pair(op(*(Complex.from_real(x).pair() for x in operands), paired=True, **attributes))


# ---- algebra of matrices, real or complex, which are the last two axes of a tensor ----


def require_square(x: Type) -> Type:
    """Return the type of a tensor of square matrices; `ShapeError` for any other type."""
    require_matrices(x)
    require(x.shape[-1] == x.shape[-2], f"needed square matrices, given shape {x.shape}")
    return x


def require_matrices(x: Type) -> Type:
    """Return the type of a tensor of floating-point matrices; `ShapeError` for any other type."""
    require(is_floating(x.dtype), f"needed floating-point numbers, given {x}; cast first")
    require(x.rank >= 2, f"needed matrices, given shape {x.shape}")
    return x


def each(x: Any, function: Any) -> Any:
    """Apply a function of real tensors to a real tensor or to both parts of a complex one."""
    return x.each(function) if isinstance(x, Complex) else function(x)


def block(x: Any, rows: Any, columns: Any, *, first_row: Any = 0, first_column: Any = 0) -> Any:
    """Return the block of each matrix from the first row and column up to `rows` and `columns`, exclusive."""
    bounds = {"starts": (first_row, first_column), "stops": (rows, columns), "steps": (1, 1)}
    axes = (x.ndim - 2, x.ndim - 1)
    return each(x, lambda y: slicing.slice(y, **bounds, axes=axes))


def concatenate(a: Any, b: Any, *, axis: int) -> Any:
    """Concatenate two tensors, both real or both complex, along an axis."""
    if isinstance(a, Complex):
        return Complex(slicing.concat(a.real, b.real, axis=axis), slicing.concat(a.imaginary, b.imaginary, axis=axis))
    return slicing.concat(a, b, axis=axis)


def real(x: Any) -> Any:
    """The real part."""
    return x.real if isinstance(x, Complex) else x


def conjugate(x: Any) -> Any:
    """The complex conjugate; a real tensor is returned unchanged."""
    return x.conjugate() if isinstance(x, Complex) else x


def matrix_transpose(x: Any) -> Any:
    """The transpose of each matrix."""
    rank = x.ndim
    return each(x, lambda part: shaping.transpose(part, permutation=(*range(rank - 2), rank - 1, rank - 2)))


def adjoint(x: Any) -> Any:
    """The conjugate transpose of each matrix; the transpose of a real one."""
    return matrix_transpose(conjugate(x))


def matmul(a: Any, b: Any) -> Any:
    """The product of matrices; leading axes broadcast."""
    return a @ b if isinstance(a, Complex) or isinstance(b, Complex) else linear.matmul(a, b)


def lower(x: Any, k: int = 0) -> Any:
    """The matrices with zeros above the diagonal `k`."""
    return each(x, lambda part: shaping.triangle(part, k=k, upper=False))


def upper(x: Any, k: int = 0) -> Any:
    """The matrices with zeros below the diagonal `k`."""
    return each(x, lambda part: shaping.triangle(part, k=k, upper=True))


def identity(like: Any, shape: tuple[Dim, ...]) -> Any:
    """Matrices with ones on the diagonal, in the dtype of `like`, complex if `like` is."""
    ones = lower(upper(creation.full_like(real(like), 1, shape=shape)))
    return Complex.from_real(ones) if isinstance(like, Complex) else ones


def identity_like(x: Any) -> Any:
    """The real identity matrix with the shape and dtype of each matrix in `x`."""
    return identity(real(x), tuple(x.shape[-2:]))


def as_columns(s: Any) -> Any:
    """Vectors (..., n) as columns (..., n, 1), which scale the rows of a matrix in a product."""
    return each(s, lambda part: shaping.reshape(part, shape=(*part.shape, 1)))


def as_rows(s: Any) -> Any:
    """Vectors (..., n) as rows (..., 1, n), which scale the columns of a matrix in a product."""
    return each(s, lambda part: shaping.reshape(part, shape=(*part.shape[:-1], 1, part.shape[-1])))


def for_each_matrix(s: Any) -> Any:
    """Numbers (...), one for each matrix, as 1x1 matrices, which scale the matrices in a product."""
    return each(s, lambda part: shaping.reshape(part, shape=(*part.shape, 1, 1)))


def absolute(x: Any) -> Any:
    """The absolute values, real."""
    return magnitude(x.real, x.imaginary) if isinstance(x, Complex) else elementwise.abs(x)


def squares(x: Any) -> Any:
    """The squares of the absolute values, real."""
    return x.squared_magnitude() if isinstance(x, Complex) else x * x


def off_diagonal(x: Any) -> Any:
    """Square matrices with zeros on the diagonal."""
    return lower(x, -1) + upper(x, 1)


def diagonal_matrix(s: Any, like: Any) -> Any:
    """Square diagonal matrices with the diagonals (..., n), of the size of `like`."""
    return as_rows(s) * identity_like(like)


def diagonal(x: Any) -> Any:
    """The diagonals of matrices (..., m, n) with m <= n."""
    return each(x, lambda part: reduction.reduce_sum(part * identity_like(part), axes=(-1,)))


def mirror_triangle(x: Any) -> Any:
    """x plus its adjoint, but with the real diagonal of `x`: for triangular `x`, a Hermitian matrix."""
    return x + adjoint(x) - real(x) * identity_like(x)


def differences(s: Any) -> Any:
    """The numbers s[j] - s[i] at row i and column j for vectors s (..., n), with ones on the diagonal."""
    result = as_rows(s) - as_columns(s)
    return result + identity_like(result)
