"""Parts of matrices: triangles, diagonals, bands, traces."""

from __future__ import annotations

from typing import Any

from ..ir.dims import product
from ..ops import creation, elementwise, reduction, shaping, slicing
from ..ops.common import normalize_axes, normalize_axis
from ..ops.diagonals import extract_diagonal, replace_diagonal
from .arguments import integer, known_size
from .joining import cat
from .operands import as_numeric, as_tensor, common_dtype
from .permuting import roll
from .public_op import Primitive, public_op, tensor_method
from .shapes import atleast_2d


def _matrices(input: Any, of: str) -> Any:
    x = as_tensor(input, of=of)
    if x.ndim < 2:
        raise ValueError(f"For '{of}', the rank of 'input' must be at least 2, but got {x.ndim}")
    return x


@public_op(method="tril", primitive=Primitive("Tril", init_args=("diagonal",)))
def tril(input: Any, diagonal: int = 0) -> Any:
    """Lower triangles of matrices (..., n, m): elements above the `diagonal`-th diagonal become 0."""
    return shaping.triangle(_matrices(input, "tril"), k=integer(diagonal, "diagonal", of="tril"), upper=False)


@public_op(method="triu", primitive=Primitive("Triu", init_args=("diagonal",)))
def triu(input: Any, diagonal: int = 0) -> Any:
    """Upper triangles of matrices (..., n, m): elements below the `diagonal`-th diagonal become 0."""
    return shaping.triangle(_matrices(input, "triu"), k=integer(diagonal, "diagonal", of="triu"), upper=True)


@public_op(primitive="MatrixBandPart")
def matrix_band_part(x: Any, lower: int, upper: int) -> Any:
    """Bands of matrices (..., n, m): all but `lower` diagonals below the main one, and `upper` above it, become 0.

    -1 keeps all diagonals on that side.
    """
    band = _matrices(x, "matrix_band_part")
    below = integer(lower, "lower", of="matrix_band_part")
    above = integer(upper, "upper", of="matrix_band_part")
    if above >= 0:
        band = shaping.triangle(band, k=above, upper=False)
    return shaping.triangle(band, k=-below, upper=True) if below >= 0 else band


@public_op(method="diagonal")
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of the axes `dim1` and `dim2`, as the last axis.

    It lies `offset` above the main diagonal, or below it if `offset` is negative.

    Raises:
        ValueError: the axes are the same, or there is no such diagonal.
    """
    x = _matrices(input, "diagonal")
    first, second = (normalize_axis(integer(axis, "dim", of="diagonal"), x.ndim) for axis in (dim1, dim2))
    normalize_axes((first, second), x.ndim)
    rows, columns = (known_size(x.shape[axis], "For 'diagonal', the size of an axis") for axis in (first, second))
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    if not length:
        others = tuple(size for axis, size in enumerate(x.shape) if axis not in (first, second))
        return as_tensor(creation.full_like(x, 0, (*others, 0)))
    return extract_diagonal(x, first, second, integer(offset, "offset", of="diagonal"), length)


@public_op(method="diagonal_scatter")
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """`input` with its diagonal replaced by `src`; see `diagonal`."""
    x = _matrices(input, "diagonal_scatter")
    values = elementwise.cast(as_tensor(src, "src", of="diagonal_scatter"), dtype=x.dtype)
    expected = tuple(diagonal(x, offset, dim1, dim2).shape)
    if tuple(values.shape) != expected:
        raise ValueError(f"For 'diagonal_scatter', 'src' must have shape {expected}, but got {tuple(values.shape)}")
    first, second = (normalize_axis(axis, x.ndim) for axis in (dim1, dim2))
    return replace_diagonal(x, values, first, second, offset) if expected[-1] else x


@public_op()
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices, in the axes `dim1` and `dim2`, with the last axis of `input` on a diagonal and zeros elsewhere."""
    x = as_tensor(input, of="diag_embed")
    if not x.ndim:
        raise ValueError("For 'diag_embed', 'input' must have at least one dimension, but got a 0-d tensor")
    rank = x.ndim + 1
    first, second = normalize_axis(dim1, rank), normalize_axis(dim2, rank)
    if first == second:
        raise ValueError(f"For 'diag_embed', 'dim1' and 'dim2' must differ, but got {dim1} and {dim2}")
    count = known_size(x.shape[-1], "For 'diag_embed', the size of the last axis")
    size = count + abs(integer(offset, "offset", of="diag_embed"))
    zeros = as_tensor(creation.full_like(x, 0, (*x.shape[:-1], size, size)))
    matrices = replace_diagonal(zeros, x, rank - 2, rank - 1, offset) if count else zeros
    order = list(range(rank - 2))
    for axis, source in sorted(((first, rank - 2), (second, rank - 1))):
        order.insert(axis, source)
    return shaping.transpose(matrices, permutation=tuple(order))


@public_op(method="diag", primitive="Diag")
def diag(input: Any) -> Any:
    """The matrix with a vector on its diagonal and zeros elsewhere.

    For an `input` of any shape s, the result has shape (*s, *s); the elements of `input` are where both halves of the
    index are equal.
    """
    x = as_tensor(input, of="diag")
    if not x.ndim:
        raise ValueError("For 'diag', 'input' must have at least one dimension, but got a 0-d tensor")
    flat = shaping.reshape(x, shape=(product(x.shape),))
    return shaping.reshape(diag_embed(flat), shape=(*x.shape, *x.shape))


@public_op(primitive="DiagPart")
def _diag_part(input_x: Any) -> Any:
    """The inverse of `diag`: from (*s, *s) to s; for a square matrix, its diagonal."""
    x = as_tensor(input_x, "input_x", of="DiagPart")
    half = x.ndim // 2
    if not half or x.shape[:half] != x.shape[half:]:
        raise ValueError(f"For 'DiagPart', the halves of the shape of 'input_x' must be equal, but got {x.shape}")
    count = product(x.shape[:half])
    return shaping.reshape(diagonal(shaping.reshape(x, shape=(count, count))), shape=x.shape[:half])


@public_op(method="diagflat")
def diagflat(input: Any, offset: int = 0) -> Any:
    """The matrix with `input`, flattened, on its diagonal with number `offset`: positive above the main diagonal."""
    x = as_tensor(input, of="diagflat")
    return diag_embed(shaping.reshape(x, shape=(product(x.shape),)), offset)


@public_op()
def block_diag(*inputs: Any) -> Any:
    """Block-diagonal matrix: blocks on the diagonal, zeros elsewhere; a vector is a row, a 0-d tensor a 1x1 block."""
    blocks = [atleast_2d(as_tensor(x, "inputs", of="block_diag")) for x in inputs]
    for block in blocks:
        if block.ndim != 2:
            raise ValueError(f"For 'block_diag', 'inputs' must have at most 2 dimensions, but got {block.ndim}")
    width, before, rows = sum(block.shape[1] for block in blocks), 0, []
    for block in common_dtype(blocks):
        after = width - before - block.shape[1]
        rows.append(slicing.pad(block, before=(0, before), after=(0, after)))
        before += block.shape[1]
    return cat(rows)


@public_op(primitive="Trace")
def trace(input: Any) -> Any:
    """Sum of the diagonal of a matrix."""
    x = as_tensor(input, of="trace")
    if x.ndim != 2:
        raise ValueError(f"For 'trace', 'input' must be a matrix, but got {x.ndim} dimensions")
    return reduction.reduce_sum(diagonal(as_numeric(x, of="trace")), axes=(0,))


@tensor_method("trace")
def _trace(self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Sums of the diagonals in two axes."""
    return reduction.reduce_sum(as_numeric(diagonal(self, offset, axis1, axis2), of="trace"), axes=(-1,))


@public_op(method="cross", primitive=Primitive("Cross", init_args=("dim",)))
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross products along the axis `dim` of size 3 (None: the first axis of size 3); the operands broadcast."""
    a, b = as_tensor(input, of="cross"), as_tensor(other, "other", of="cross")
    sizes = [i for i, size in enumerate(a.shape) if size == 3]
    if dim is None and not sizes:
        raise ValueError(f"For 'cross', needed an axis of size 3, but got shape {tuple(a.shape)}")
    at = normalize_axis(sizes[0] if dim is None else dim, a.ndim)
    if a.shape[at] != 3 or b.shape[at] != 3:
        raise ValueError(f"For 'cross', axis {dim} must have size 3, but got {tuple(a.shape)} and {tuple(b.shape)}")
    return roll(a, -1, at) * roll(b, -2, at) - roll(a, -2, at) * roll(b, -1, at)
