"""ATen decompositions of matrices: QR, eigenvalues, singular values, and functions computed by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ops import boundary, comparison, reduction, shaping
from ....runtime.ops.complex_numbers import Complex
from ....runtime.ops.linear_algebra import matrix_functions, orthogonal, spectral
from ....runtime.ops.matrices import adjoint, each, identity_like, lower, matmul, on_numbers, squares
from ....runtime.tracing import SymbolicTensor
from ...torch_version import has_change
from ...unsupported import Unsupported
from .complex_table import aten_complex
from .linear_algebra import aten_real_and_complex, zeros
from .table import Context, cast


def factors(op: Any, x: Any, kinds: str, **attributes: Any) -> tuple[Any, ...]:
    """The results of an op for a real or complex tensor; `kinds` has a letter for each: n like the operand, r real."""
    if isinstance(x, Complex):
        results = op(x.pair(), paired=True, **attributes)
    else:
        results, kinds = op(x, **attributes), kinds.replace("n", "r")
    return tuple(y if kind == "r" else Complex.from_pair(y) for y, kind in zip(results, kinds, strict=True))


# ---- QR ----


@aten_real_and_complex("aten.linalg_qr.default")
def qr(context: Context, a: Any, mode: str = "reduced") -> Any:
    """linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)"""
    q, r = factors(orthogonal.qr, a, "nn", complete=mode == "complete")
    if mode == "r":  # torch returns an empty q
        q = Complex.from_real(_empty(context)) if isinstance(a, Complex) else _empty(context)
    return q, r


def _empty(context: Context) -> Any:
    return zeros(context, (0,), context.dtype)


@aten_real_and_complex("aten.geqrf.default")
def geqrf(context: Context, self: Any) -> Any:
    """geqrf(Tensor self) -> (Tensor a, Tensor tau)"""
    return factors(orthogonal.householder_qr, self, "nn")


@aten_real_and_complex("aten.linalg_householder_product.default", "aten.orgqr.default")
def householder_product(context: Context, input: Any, tau: Any) -> Any:
    """linalg_householder_product(Tensor input, Tensor tau) -> Tensor"""
    return orthogonal.apply_reflections(input, tau, each(input, lambda x: x * 0.0) + identity_like(input))


@aten_real_and_complex("aten.ormqr.default")
def ormqr(context: Context, self: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> Any:
    """ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor"""
    if left:
        return orthogonal.apply_reflections(self, input2, input3, transpose=transpose)
    return adjoint(orthogonal.apply_reflections(self, input2, adjoint(input3), transpose=not transpose))


# ---- eigenvalues and singular values ----


@aten_real_and_complex("aten._linalg_eigh.default")
def eigh(context: Context, a: Any, uplo: str = "L", compute_v: bool = True) -> Any:
    """_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    return factors(spectral.eigh, adjoint(a) if uplo.upper() == "U" else a, "rn")


@aten_complex("aten.linalg_eig.default")
def eig(context: Context, self: Any) -> Any:
    """linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    values, vectors = spectral.eig(self.pair(), paired=True) if isinstance(self, Complex) else spectral.eig(self)
    return Complex.from_pair(values), Complex.from_pair(vectors)


@aten_complex("aten.linalg_eigvals.default", "aten._linalg_eigvals.default")
def eigvals(context: Context, self: Any) -> Any:
    """linalg_eigvals(Tensor self) -> Tensor"""
    return eig(context, self)[0]


@aten_real_and_complex("aten._linalg_svd.default")
def svd(
    context: Context, a: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> Any:
    """_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (U, S, Vh)"""
    return factors(spectral.svd, a, "nrn", full=full_matrices and compute_uv)


# ---- pseudoinverse, exponential ----


@aten_real_and_complex("aten.linalg_pinv.atol_rtol_tensor")
def pinv(
    context: Context,
    self: Any,
    *,
    atol: SymbolicTensor | None = None,
    rtol: SymbolicTensor | None = None,
    hermitian: bool = False,
) -> Any:
    """linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False)"""
    bounds = [None if bound is None else cast(bound, context.dtype) for bound in (atol, rtol)]
    x = self
    if hermitian:  # only a triangle is read, but the gradient, like ATen's, is that of the whole matrix
        symmetric = lower(self) + adjoint(lower(self, -1))
        x = self + each(symmetric - self, boundary.stop_gradient)
    return _pseudo_inverse(x, *bounds)


@aten_real_and_complex("aten.linalg_lstsq.default")
def lstsq(context: Context, self: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor
    residuals, Tensor rank, Tensor singular_values)

    Computed by the pseudoinverse, like ATen's gradient; "gels" uses all singular values, since it assumes matrices of
    full rank.
    """
    _, residuals, rank, _ = context.types
    assert residuals is not None
    assert rank is not None
    if context.used[1] and driver in ("gelsd", "gelss") and residuals.shape != (0,):
        raise Unsupported(f"with the residuals by {driver!r}, which exist only if the matrices have full rank")
    if rcond is not None and rcond < 0:
        raise Unsupported("a negative rcond")
    share = 0.0 if driver == "gels" else rcond
    bound = None if share is None else context.builder.constant(share, context.dtype)
    columns = (
        each(b, lambda part: shaping.reshape(part, shape=(*part.shape, 1))) if len(context.shape) < self.ndim else b
    )
    solution = matmul(_pseudo_inverse(self, None, bound), columns)
    results = [each(solution, lambda part: shaping.reshape(part, shape=context.shape)), *[None] * 3]
    if context.used[1]:
        of_columns = reduction.reduce_sum(squares(matmul(self, solution) - columns), axes=(-2,))
        empty = residuals.shape == (0,)
        results[1] = (
            zeros(context, (0,), residuals.dtype) if empty else shaping.reshape(of_columns, shape=residuals.shape)
        )
    if context.used[2] or context.used[3]:
        if not all(isinstance(size, int) for size in self.shape[-2:]):
            raise Unsupported("with ranks or singular values of matrices of symbolic size")
        _, values, _ = factors(spectral.svd, each(self, boundary.stop_gradient), "nrn")
        least = np.finfo(values.dtype).eps * max(self.shape[-2:]) if rcond is None else rcond
        counted = comparison.greater(values, reduction.reduce_max(values, axes=(-1,), keepdims=True) * float(least))
        ranks = reduction.reduce_sum(cast(counted, rank.dtype), axes=(-1,))
        results[2] = zeros(context, (0,), rank.dtype) if driver == "gels" else ranks
        results[3] = values if driver in ("gelsd", "gelss") else zeros(context, (0,), values.dtype)
    return tuple(results)


def _pseudo_inverse(x: Any, *bounds: SymbolicTensor | None) -> Any:
    if isinstance(x, Complex):
        return Complex.from_pair(matrix_functions.pseudo_inverse(x.pair(), *bounds, paired=True))
    return matrix_functions.pseudo_inverse(x, *bounds)


@aten_real_and_complex("aten.linalg_matrix_exp.default", "aten.matrix_exp.default")
def matrix_exp(context: Context, self: Any) -> Any:
    """linalg_matrix_exp(Tensor self) -> Tensor"""
    return on_numbers(matrix_functions.matrix_exp, self, truncated=not has_change("exponential of small matrices"))
