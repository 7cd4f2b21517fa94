"""Products of vectors, matrices and tensors. Operands must have the same dtype."""

from __future__ import annotations

from typing import Any

from ..ir.dims import product
from ..ops import contraction, elementwise, linear, reduction, shaping
from ..ops.common import normalize_axis
from ..ops.linear_algebra import matrix
from .arguments import integer, integers
from .creation import eye
from .operands import as_tensor, require_one_dtype
from .permuting import swapaxes
from .public_op import Primitive, public_op, tensor_method


def _check_operands(*operands: tuple[Any, str], of: str, ranks: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    """Check the operands of a matrix product: tensors of one dtype, of these ranks."""
    xs = tuple(as_tensor(x, name, of=of) for x, name in operands)
    if ranks is not None and tuple(x.ndim for x in xs) != ranks:
        raise ValueError(f"For '{of}', needed operands of {ranks} dimensions, but got {tuple(x.ndim for x in xs)}")
    require_one_dtype(*xs, of=of if "MatMul" in of else f"{of} (MatMul)")
    return xs


# ---- matrices ----


@public_op(method=("matmul", "__matmul__"))
def matmul(input: Any, other: Any) -> Any:
    """Matrix product over the last axis of `input` and the second to last of `other`; the leading axes broadcast.

    A vector is a row on the left and a column on the right, and the result doesn't have its axis.

    Args:
        input: (..., n, k) or (k).
        other: (..., k, m) or (k), of the same dtype.

    Raises:
        TypeError: the dtypes differ.
        ValueError: the shapes don't fit, or an operand has no dimensions.
    """
    return linear.matmul(*_check_operands((input, "input"), (other, "other"), of="MatMul"))


@public_op(primitive=Primitive("MatMul", init_args=("transpose_a", "transpose_b")))
def mat_mul(input: Any, mat2: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """Product of two matrices, transposed first if a flag is set. Errors are those of `matmul`."""
    a, b = _check_operands((input, "input"), (mat2, "mat2"), of="MatMul", ranks=(2, 2))
    return linear.matmul(_transpose_if(transpose_a, a), _transpose_if(transpose_b, b))


@public_op(primitive=Primitive("BatchMatMul", init_args=("transpose_a", "transpose_b")))
def batch_mat_mul(x: Any, y: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """Products of the matrices (..., n, k) and (..., k, m), transposed first if a flag is set."""
    a, b = _check_operands((x, "x"), (y, "y"), of="BatchMatMul")
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError(f"For 'BatchMatMul', needed at least two dimensions, but got {a.ndim} and {b.ndim}")
    return linear.matmul(_transpose_if(transpose_a, a), _transpose_if(transpose_b, b))


def _transpose_if(flag: bool, x: Any) -> Any:
    return swapaxes(x, -2, -1) if flag else x


@public_op(method="bmm")
def bmm(input_x: Any, mat2: Any) -> Any:
    """Products of the matrices of two batches: (b, n, k) and (b, k, m)."""
    a, b = _check_operands((input_x, "input_x"), (mat2, "mat2"), of="bmm")
    if a.ndim != b.ndim or a.ndim < 3:
        raise ValueError(f"For 'bmm', needed batches of matrices, but got {a.ndim} and {b.ndim} dimensions")
    return linear.matmul(a, b)


@public_op(method="mm")
def mm(input: Any, mat2: Any) -> Any:
    """Product of two matrices."""
    return linear.matmul(*_check_operands((input, "input"), (mat2, "mat2"), of="mm", ranks=(2, 2)))


@public_op()
def mv(mat: Any, vec: Any) -> Any:
    """Product of a matrix and a vector."""
    return linear.matmul(*_check_operands((mat, "mat"), (vec, "vec"), of="mv", ranks=(2, 1)))


@public_op(primitive="Dense")
def dense(input: Any, weight: Any, bias: Any = None) -> Any:
    """`input @ weight.T + bias`: (..., k) with weight (m, k) and bias (m) gives (..., m)."""
    operands = [(input, "input"), (weight, "weight"), *([] if bias is None else [(bias, "bias")])]
    return linear.linear(*_check_operands(*operands, of="dense"))


# ---- vectors and tensors ----


@public_op(method="outer", alias="ger", primitive="Ger")
def outer(input: Any, vec2: Any) -> Any:
    """Outer product of two vectors, (n) and (m): (n, m)."""
    a, b = _check_operands((input, "input"), (vec2, "vec2"), of="outer", ranks=(1, 1))
    return elementwise.mul(shaping.reshape(a, shape=(a.shape[0], 1)), b)


@tensor_method("ger")
def _ger(self: Any, vec2: Any) -> Any:
    """Same as `outer`."""
    return outer(self, vec2)


@public_op(method="inner")
def inner(input: Any, other: Any) -> Any:
    """Inner product: the sum of products over the last axes of both; if either is 0-d, the product."""
    a, b = _check_operands((input, "input"), (other, "other"), of="inner")
    if not a.ndim or not b.ndim:
        return elementwise.mul(a, b)
    return tensor_dot(a, b, ((-1,), (-1,)))


@public_op(method="dot")
def dot(input: Any, other: Any) -> Any:
    """Sum of products over the last axis of `input` and the second to last (of a vector, the only) axis of `other`."""
    a, b = _check_operands((input, "input"), (other, "other"), of="dot")
    if not a.ndim or not b.ndim:
        raise ValueError("For 'dot', needed operands of at least one dimension, but got a 0-d tensor")
    return tensor_dot(a, b, ((-1,), (-2 if b.ndim > 1 else -1,)))


@public_op()
def vecdot(x: Any, y: Any, *, axis: int = -1) -> Any:
    """Dot products of vectors along `axis`; the operands broadcast."""
    a, b = _check_operands((x, "x"), (y, "y"), of="vecdot")
    return reduction.reduce_sum(elementwise.mul(a, b), axes=(axis,))


@public_op()
def tensor_dot(x1: Any, x2: Any, axes: Any) -> Any:
    """Tensor contraction: the sum of products over axes of both operands.

    Args:
        x1: any tensor.
        x2: any tensor of the same dtype.
        axes: the axes of `x1` and those of `x2`, as a pair of tuples (or ints); an int n means the last n axes of `x1`
            and the first n of `x2`, and 0 the outer product.

    Returns:
        The other axes of `x1`, then those of `x2`.

    Raises:
        ValueError: the axes differ in number or sizes.
    """
    a, b = _check_operands((x1, "x1"), (x2, "x2"), of="tensor_dot")
    first, second = _contracted_axes(axes, a.ndim, b.ndim)
    rows = [i for i in range(a.ndim) if i not in first]
    columns = [i for i in range(b.ndim) if i not in second]
    if [a.shape[i] for i in first] != [b.shape[i] for i in second]:
        raise ValueError(f"For 'tensor_dot', shapes {tuple(a.shape)} and {tuple(b.shape)} don't fit along axes {axes}")
    shape = (*(a.shape[i] for i in rows), *(b.shape[i] for i in columns))
    inner_size = product(a.shape[i] for i in first)
    left = shaping.reshape(
        shaping.transpose(a, permutation=(*rows, *first)), shape=(product(a.shape[i] for i in rows), inner_size)
    )
    right = shaping.reshape(
        shaping.transpose(b, permutation=(*second, *columns)), shape=(inner_size, product(b.shape[i] for i in columns))
    )
    return shaping.reshape(linear.matmul(left, right), shape=shape)


def _contracted_axes(axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise ValueError(f"For 'tensor_dot', 'axes' must lie between 0 and {min(rank_a, rank_b)}, but got {axes}")
        return list(range(rank_a - axes, rank_a)), list(range(axes))
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise TypeError(f"For 'tensor_dot', 'axes' must be an int or a pair of axes, but got {axes!r}")
    of_a, of_b = (integers(side, "axes", of="tensor_dot") for side in axes)
    if len(of_a) != len(of_b):
        raise ValueError(f"For 'tensor_dot', there must be as many axes on both sides, but got {axes}")
    return [normalize_axis(i, rank_a) for i in of_a], [normalize_axis(i, rank_b) for i in of_b]


@public_op()
def einsum(equation: str, *operands: Any) -> Any:
    """Einstein summation: the sum of products, with letters for axes: `einsum("bij,bjk->bik", a, b)`.

    `...` means any axes, which broadcast; a repeated letter in one operand means a diagonal; without `->` the result
    has the letters that occur once, in alphabetical order.

    Raises:
        ValueError: the equation doesn't fit the operands.
    """
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    if not isinstance(equation, str):
        raise TypeError(f"For 'einsum', 'equation' must be str, but got {type(equation).__name__}: {equation!r}")
    return contraction.einsum(equation, list(_check_operands(*((x, "operands") for x in operands), of="einsum")))


@public_op(primitive=Primitive("Einsum", init_args=("equation",)))
def einsum_of(inputs: Any, equation: str) -> Any:
    """`einsum` of a tuple of tensors."""
    return einsum(equation, *inputs)


@public_op()
def kron(input: Any, other: Any) -> Any:
    """Kronecker product: each element of `input` times all of `other`."""
    a, b = _check_operands((input, "input"), (other, "other"), of="kron")
    rank = max(a.ndim, b.ndim)
    sizes_a = (1,) * (rank - a.ndim) + tuple(a.shape)
    sizes_b = (1,) * (rank - b.ndim) + tuple(b.shape)
    left = shaping.reshape(a, shape=tuple(n for size in sizes_a for n in (size, 1)))
    right = shaping.reshape(b, shape=tuple(n for size in sizes_b for n in (1, size)))
    shape = tuple(m * n for m, n in zip(sizes_a, sizes_b, strict=True))
    return shaping.reshape(elementwise.mul(left, right), shape=shape)


@public_op(method="matrix_power", primitive=Primitive("MatrixPower", init_args=("n",)))
def matrix_power(input: Any, n: int) -> Any:
    """Powers of matrices (..., m, m); for negative `n`, powers of their inverses."""
    x = as_tensor(input, of="matrix_power")
    power = integer(n, "n", of="matrix_power")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"For 'matrix_power', needed square matrices, but got shape {tuple(x.shape)}")
    if power < 0:
        x, power = matrix.inverse(x), -power
    result = shaping.expand(eye(x.shape[-1], dtype=x.dtype), shape=tuple(x.shape))
    for _ in range(power):
        result = linear.matmul(result, x)
    return result


# ---- sums with products ----


def _sum(input: Any, addend: Any, beta: float, alpha: float, of: str) -> Any:
    """beta * input + alpha * addend, where `input` broadcasts to the addend."""
    x = as_tensor(input, of=of)
    require_one_dtype(x, addend, of=of)
    lead = addend.ndim - x.ndim
    if lead < 0 or any(size not in (1, to) for size, to in zip(x.shape, addend.shape[lead:], strict=True)):
        raise ValueError(f"For '{of}', 'input' {tuple(x.shape)} must broadcast to the product {tuple(addend.shape)}")
    scaled = addend if alpha == 1 else elementwise.mul(addend, alpha)
    return scaled if beta == 0 else elementwise.add(x if beta == 1 else elementwise.mul(x, beta), scaled)


@public_op(method="addmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2), of matrices; `input` broadcasts."""
    return _sum(input, mm(mat1, mat2), beta, alpha, "addmm")


@public_op(method="addmv")
def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (mat @ vec), of a matrix and a vector; `input` broadcasts."""
    return _sum(input, mv(mat, vec), beta, alpha, "addmv")


@public_op(method="addr")
def addr(x: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * x + alpha * outer(vec1, vec2); `x` broadcasts."""
    return _sum(x, outer(vec1, vec2), beta, alpha, "addr")


@public_op(method="baddbmm")
def baddbmm(input: Any, batch1: Any, batch2: Any, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (batch1 @ batch2), of batches of matrices; `input` broadcasts."""
    return _sum(input, bmm(batch1, batch2), beta, alpha, "baddbmm")


@public_op(method="addbmm")
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (the sum of batch1 @ batch2 over the batch); `input` broadcasts."""
    return _sum(input, reduction.reduce_sum(bmm(batch1, batch2), axes=(0,)), beta, alpha, "addbmm")
