"""ATen arithmetic of complex numbers: sums, products, quotients, comparisons, reductions, matrix products."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ops import comparison, creation, reduction, shaping
from ....runtime.ops.common import normalize_axis
from ....runtime.ops.complex_numbers import Complex, magnitude
from ....runtime.ops.matrices import concatenate
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .complex_moves import truth
from .complex_table import aten_complex, numbers, register_multilinear
from .linear import matmul
from .reduction import axes_of, root_of, var_correction
from .shaping import expand
from .slicing import part as cut
from .table import TABLE, Context, cast, promote

# ---- two or three operands ----


@aten_complex("aten.add.Tensor", "aten.add.Scalar")
def add(context: Context, self: Any, other: Any, alpha: Any = 1) -> Any:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    a, b = numbers(context, self, other)
    return _broadcast(context, a + (b if alpha == 1 else _scale(context, b, alpha)))


@aten_complex("aten.sub.Tensor", "aten.sub.Scalar")
def sub(context: Context, self: Any, other: Any, alpha: Any = 1) -> Any:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    a, b = numbers(context, self, other)
    return _broadcast(context, a - (b if alpha == 1 else _scale(context, b, alpha)))


@aten_complex("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(context: Context, self: Any, other: Any, alpha: Any = 1) -> Any:
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return sub(context, other, self, alpha)


def _scale(context: Context, x: Any, factor: Any) -> Any:
    return x if factor == 1 else x * numbers(context, factor)[0]


def _broadcast(context: Context, x: Any) -> Complex:
    """The parts broadcast to the shape of the result: one of them may have the shape of a single operand."""
    return Complex.from_real(x).each(lambda part: expand(context, part))


register_multilinear("self other", "mul.Tensor", "mul.Scalar", "matmul.default", "linalg_matmul.default")
register_multilinear("self other mat2 vec vec2 tensor", "mm.default", "bmm.default", "mv.default", "dot.default")
register_multilinear("self vec2", "outer.default", "ger.default")
register_multilinear("tensors", "einsum.default")


@aten_complex("aten.vdot.default")
def vdot(context: Context, self: Complex, other: Any) -> Any:
    """vdot(Tensor self, Tensor other) -> Tensor"""
    return _matmul(context, self.conjugate(), other)


@aten_complex("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar")
def div(context: Context, self: Any, other: Any) -> Any:
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    a, b = numbers(context, self, other)
    return Complex.from_real(a) / b


@aten_complex("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(context: Context, self: Any, other: Any, *, rounding_mode: str | None) -> Any:
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    return div(context, self, other)  # torch has no rounding of complex numbers


@aten_complex("aten.addcmul.default")
def addcmul(context: Context, self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    x, a, b = numbers(context, self, tensor1, tensor2)
    return _broadcast(context, x + _scale(context, a * b, value))


@aten_complex("aten.addcdiv.default")
def addcdiv(context: Context, self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    x, a, b = numbers(context, self, tensor1, tensor2)
    return _broadcast(context, x + _scale(context, Complex.from_real(a) / b, value))


@aten_complex("aten.lerp.Tensor", "aten.lerp.Scalar")
def lerp(context: Context, self: Any, end: Any, weight: Any) -> Any:
    """lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    x, end, weight = numbers(context, self, end, weight)
    return _broadcast(context, x + (end - x) * weight)


# ---- matrix products plus a term ----


def _matmul(context: Context, a: Any, b: Any) -> Any:
    a, b = numbers(context, a, b)
    return Complex.from_real(a) @ b if isinstance(a, Complex) or isinstance(b, Complex) else matmul(context, a, b)


@aten_complex("aten.linear.default")
def linear(context: Context, input: Any, weight: Any, bias: Any = None) -> Any:
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    weight = Complex.from_real(weight)
    if weight.ndim == 2:
        weight = weight.each(lambda part: shaping.transpose(part, permutation=(1, 0)))
    y = _matmul(context, input, weight)
    return y if bias is None else y + Complex.from_real(bias)


@aten_complex("aten.addmm.default", "aten.addmv.default", "aten.baddbmm.default")
def addmm(context: Context, self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _add_scaled(context, self, _matmul(context, mat1, mat2), beta, alpha)


@aten_complex("aten.addbmm.default")
def addbmm(context: Context, self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    products = Complex.from_real(_matmul(context, batch1, batch2))
    return _add_scaled(context, self, products.each(lambda part: reduction.reduce_sum(part, axes=(0,))), beta, alpha)


@aten_complex("aten.addr.default")
def addr(context: Context, self: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    a, b = (Complex.from_real(x) for x in (vec1, vec2))
    column = a.each(lambda part: shaping.reshape(part, shape=(*a.shape, 1)))
    return _add_scaled(context, self, column * b, beta, alpha)


def _add_scaled(context: Context, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    """beta * x + alpha * y; if beta is 0, `x` is ignored, even its NaN."""
    scaled = _scale(context, y, alpha)
    if beta == 0:
        return _broadcast(context, scaled)
    return _broadcast(context, scaled + _scale(context, numbers(context, x)[0], beta))


# ---- comparisons and logic ----


@aten_complex("aten.eq.Tensor", "aten.eq.Scalar")
def eq(context: Context, self: Any, other: Any) -> Any:
    """eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = promote(self, other)
    a, b = (
        Complex.from_real(x if isinstance(x, (Complex, SymbolicTensor)) else context.builder.constant(x.real, dtype))
        if not isinstance(x, complex)
        else Complex(context.builder.constant(x.real, dtype), context.builder.constant(x.imag, dtype))
        for x in (self, other)
    )
    same = (comparison.equal(cast(p, dtype), cast(q, dtype)) for p, q in ((a.real, b.real), (a.imaginary, b.imaginary)))
    return comparison.logical_and(*same)


@aten_complex("aten.ne.Tensor", "aten.ne.Scalar")
def ne(context: Context, self: Any, other: Any) -> Any:
    """ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    return comparison.logical_not(eq(context, self, other))


def _register_on_truth(name: str) -> None:
    """Register operators that depend only on whether each number is zero."""

    @aten_complex(f"aten.{name}")
    def translation(context: Context, *operands: Any, **options: Any) -> Any:
        truths = (truth(x) if isinstance(x, (Complex, SymbolicTensor)) else x for x in operands)
        return TABLE[f"aten.{name}"](context, *truths, **options)


for _name in ("logical_and", "logical_or", "logical_xor", "logical_not", "any", "all", "nonzero", "argwhere"):
    _register_on_truth(f"{_name}.default")
for _name in ("any.dim", "any.dims", "all.dim", "all.dims"):
    _register_on_truth(_name)


@aten_complex("aten.isnan.default")
def isnan(context: Context, self: Complex) -> Any:
    """isnan(Tensor self) -> Tensor"""
    return comparison.logical_or(comparison.isnan(self.real), comparison.isnan(self.imaginary))


@aten_complex("aten.isinf.default")
def isinf(context: Context, self: Complex) -> Any:
    """isinf(Tensor self) -> Tensor"""
    return comparison.logical_or(comparison.isinf(self.real), comparison.isinf(self.imaginary))


@aten_complex("aten.isfinite.default")
def isfinite(context: Context, self: Complex) -> Any:
    """isfinite(Tensor self) -> Tensor"""
    return comparison.logical_and(comparison.isfinite(self.real), comparison.isfinite(self.imaginary))


# ---- reductions ----


@aten_complex("aten.cumprod.default")
def cumprod(context: Context, self: Any, dim: int, *, dtype: Any = None) -> Any:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = Complex.from_real(numbers(context, self)[0])
    if x.ndim == 0:
        return x
    axis = normalize_axis(dim, x.ndim)
    size, reach = _require_known(x.shape[axis]), 1
    while reach < size:  # each element is multiplied by the one `reach` before it; `reach` doubles each time
        longer = _split_at(x, axis, reach, size) * _split_at(x, axis, 0, size - reach)
        x = concatenate(_split_at(x, axis, 0, reach), longer, axis=axis)
        reach *= 2
    return x


@aten_complex("aten.prod.default")
def prod(context: Context, self: Any, *, dtype: Any = None) -> Any:
    """prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    flat = (product(self.shape),)
    return prod_dim(context, Complex.from_real(self).each(lambda part: shaping.reshape(part, shape=flat)), 0)


@aten_complex("aten.prod.dim_int")
def prod_dim(context: Context, self: Any, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    x = Complex.from_real(numbers(context, self)[0])
    axis = normalize_axis(dim, x.ndim)
    if x.ndim and x.shape[axis] == 0:
        return Complex.from_real(creation.full_like(x.real, 1, shape=context.shape))
    while x.ndim and (size := _require_known(x.shape[axis])) > 1:
        half = size // 2
        halves = _split_at(x, axis, 0, half) * _split_at(x, axis, half, 2 * half)
        x = concatenate(halves, _split_at(x, axis, size - 1, size), axis=axis) if size % 2 else halves
    return x.each(lambda part: shaping.reshape(part, shape=context.shape))


def _split_at(x: Complex, axis: int, start: int, stop: int) -> Complex:
    return x.each(lambda part: cut(part, axis, start, stop))


def _require_known(size: Any) -> int:
    if not isinstance(size, int):
        raise Unsupported("a product of complex numbers over an axis of symbolic size")
    return size


@aten_complex("aten.var.correction")
def var(context: Context, self: Complex, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    variances = self.each(lambda part: var_correction(context, part, dim, correction=correction, keepdim=keepdim))
    return variances.real + variances.imaginary


@aten_complex("aten.std.correction")
def std(context: Context, self: Complex, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return root_of(context, var(context, self, dim, correction=correction, keepdim=keepdim))


@aten_complex("aten.var_mean.correction")
def var_mean(context: Context, self: Complex, dim: Any = None, *, keepdim: bool = False, **options: Any) -> Any:
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"""
    mean = self.each(lambda part: reduction.reduce_mean(part, axes=axes_of(dim), keepdims=keepdim))
    return var(context, self, dim, keepdim=keepdim, **options), mean


@aten_complex("aten.std_mean.correction")
def std_mean(context: Context, self: Complex, dim: Any = None, **options: Any) -> Any:
    """std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"""
    variance, mean = var_mean(context, self, dim, **options)
    return root_of(context, variance), mean


def _register_norm(name: str) -> None:
    """Register norms, which are the norms of the absolute values."""

    @aten_complex(f"aten.{name}")
    def translation(context: Context, self: Complex, *args: Any, **kwargs: Any) -> Any:
        return TABLE[f"aten.{name}"](context, magnitude(self.real, self.imaginary), *args, **kwargs)


for _name in ("linalg_vector_norm.default", "norm.Scalar"):
    _register_norm(_name)
for _name in ("norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype"):
    _register_norm(_name)
