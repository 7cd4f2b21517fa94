"""Linear algebra and Fourier transforms of the ops: complex numbers are pairs of reals (`paired`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ....runtime.ops import taylor
from ...torch_version import has_change


def _to_complex(x: Tensor, paired: bool) -> Tensor:
    return torch.view_as_complex(x.contiguous()) if paired else x


def _from_complex(x: Tensor, paired: bool) -> Tensor:
    return torch.view_as_real(x) if paired and x.is_complex() else x


def dft(x: Tensor, axes: Sequence[int], inverse: bool, norm: str) -> Tensor:
    """Discrete Fourier transform along axes of a tensor whose last axis has pairs (or single reals)."""
    complex_x = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else torch.complex(x[..., 0], 0 * x[..., 0])
    dims = [axis if axis >= 0 else axis + 1 for axis in axes]
    function = torch.fft.ifftn if inverse else torch.fft.fftn
    modes = {
        "none": "forward" if inverse else "backward",
        "size": "backward" if inverse else "forward",
        "root": "ortho",
    }
    return torch.view_as_real(function(complex_x, dim=dims, norm=modes[norm]))


def magnitude(real: Tensor, imaginary: Tensor) -> Tensor:
    """Absolute values of complex numbers. The gradient at 0 is 0; that of `torch.hypot` is NaN there."""
    return torch.complex(real, imaginary).abs()


def inverse(x: Tensor, paired: bool) -> Tensor:
    """Inverses of square matrices."""
    return _from_complex(torch.linalg.inv(_to_complex(x, paired)), paired)


def determinant(x: Tensor, paired: bool) -> Tensor:
    """Determinants of square matrices."""
    return _from_complex(torch.linalg.det(_to_complex(x, paired)), paired)


def log_determinant(x: Tensor, paired: bool) -> tuple[Tensor, Tensor]:
    """Signs of determinants, and the logarithms of their absolute values."""
    sign, logarithm = torch.linalg.slogdet(_to_complex(x, paired))
    return _from_complex(sign, paired), logarithm


def cholesky(x: Tensor, paired: bool) -> Tensor:
    """Lower triangular factors of positive definite matrices."""
    return _from_complex(torch.linalg.cholesky(_to_complex(x, paired)), paired)


def solve(a: Tensor, b: Tensor, paired: bool) -> Tensor:
    """Solutions of linear systems; `b` gets as many axes as `a`, since torch takes one axis less for vectors."""
    if b.dim() < a.dim():
        b = b[(None,) * (a.dim() - b.dim())]
    return _from_complex(torch.linalg.solve(_to_complex(a, paired), _to_complex(b, paired)), paired)


def eig(x: Tensor, paired: bool) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors, as pairs of reals."""
    values, vectors = torch.linalg.eig(_to_complex(x, paired))
    return torch.view_as_real(values), torch.view_as_real(vectors)


def eigh(x: Tensor, paired: bool) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    values, vectors = torch.linalg.eigh(_to_complex(x, paired))
    return values, _from_complex(vectors, paired)


def svd(x: Tensor, full: bool, paired: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Singular value decomposition."""
    u, s, v = torch.linalg.svd(_to_complex(x, paired), full_matrices=full)
    return _from_complex(u, paired), s, _from_complex(v, paired)


def qr(x: Tensor, complete: bool, paired: bool) -> tuple[Tensor, Tensor]:
    """Orthogonal and triangular factors."""
    q, r = torch.linalg.qr(_to_complex(x, paired), "complete" if complete else "reduced")
    return _from_complex(q, paired), _from_complex(r, paired)


def householder_qr(x: Tensor, paired: bool) -> tuple[Tensor, Tensor]:
    """The factors in LAPACK's packed form."""
    packed, scales = torch.geqrf(_to_complex(x, paired))
    return _from_complex(packed, paired), _from_complex(scales, paired)


def lu(x: Tensor, pivot: bool, paired: bool) -> tuple[Tensor, Tensor]:
    """Triangular factors in one matrix, and the row pivots."""
    factors, pivots = torch.linalg.lu_factor(_to_complex(x, paired), pivot=pivot)
    return _from_complex(factors, paired), pivots


def permutation(pivots: Tensor, like: Tensor, size: int) -> Tensor:
    """The permutation matrix of row pivots."""
    rows = pivots.shape[-1]
    square = torch.zeros((*pivots.shape[:-1], size, rows), dtype=like.dtype, device=like.device)
    matrix, _, _ = torch.lu_unpack(square, pivots, unpack_data=False)
    return matrix


def matrix_exp(x: Tensor, paired: bool, truncated: bool = False) -> Tensor:
    """The exponential of matrices, with the same precision on every version of torch."""
    numbers = _to_complex(x, paired)
    if truncated is not has_change("exponential of small matrices") or numbers.shape[:-2].numel() != 1:
        return _from_complex(torch.linalg.matrix_exp(numbers), paired)
    if not truncated:  # older versions lose no digits on several matrices
        return _from_complex(torch.linalg.matrix_exp(torch.stack([numbers, numbers]))[0], paired)
    norm = numbers.abs().sum(dim=-2).max()
    (above, _), (upto, polynomial) = taylor.TRUNCATED[2:4]
    result = polynomial(torch.eye(numbers.shape[-1], dtype=numbers.dtype, device=numbers.device), numbers)
    return _from_complex(torch.where((norm > above) & (norm <= upto), result, torch.linalg.matrix_exp(numbers)), paired)


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool, paired: bool) -> Tensor:
    """Solutions of linear systems from a Cholesky factor."""
    return _from_complex(torch.cholesky_solve(_to_complex(b, paired), _to_complex(factor, paired), upper=upper), paired)


def solve_triangular(a: Tensor, b: Tensor, upper: bool, unitriangular: bool, paired: bool) -> Tensor:
    """Solutions by substitution."""
    solution = torch.linalg.solve_triangular(
        _to_complex(a, paired), _to_complex(b, paired), upper=upper, unitriangular=unitriangular
    )
    return _from_complex(solution, paired)


def pseudo_inverse(x: Tensor, absolute: Tensor | None, relative: Tensor | None, paired: bool) -> Tensor:
    """The Moore-Penrose inverse."""
    return _from_complex(torch.linalg.pinv(_to_complex(x, paired), atol=absolute, rtol=relative), paired)


def ldl(x: Tensor, hermitian: bool, paired: bool) -> tuple[Tensor, Tensor]:
    """Factors of symmetric matrices, and the row pivots."""
    factors, pivots, _ = torch.linalg.ldl_factor_ex(_to_complex(x, paired), hermitian=hermitian)
    return _from_complex(factors, paired), pivots


def ldl_solve(factors: Tensor, pivots: Tensor, b: Tensor, hermitian: bool, paired: bool) -> Tensor:
    """Solutions of linear systems from LDL factors."""
    solution = torch.linalg.ldl_solve(_to_complex(factors, paired), pivots, _to_complex(b, paired), hermitian=hermitian)
    return _from_complex(solution, paired)
