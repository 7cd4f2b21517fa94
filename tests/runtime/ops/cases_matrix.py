"""Cases of inverses, determinants, triangular systems and factors of matrices, real and complex."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cellbridge.converter.torch_version import has_change
from tests.runtime.ops.cases import OpCase

_RNG = np.random.default_rng(7)
_OTHER_SIGNS = "the signs of vectors are open: test_rotations"
_MATRIX = np.array([[2.0, 0.5, -1.0], [0.25, -3.0, 1.5], [1.0, 0.75, 4.0]])
_BATCH = _MATRIX + 0.1 * _RNG.standard_normal((2, 1, 3, 3))
_POSITIVE = _BATCH @ np.swapaxes(_BATCH, -1, -2) + np.eye(3)
_RIGHT = _RNG.standard_normal((3, 2))
_TALL = _RNG.standard_normal((2, 4, 3))
_WIDE = _RNG.standard_normal((2, 3, 4))
_SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
_IMAGINARY = 0.3 * _RNG.standard_normal((2, 3, 3))
_COMPLEX = np.stack([_MATRIX + 0.0 * _IMAGINARY, _IMAGINARY], axis=-1)
_COMPLEX_RIGHT = _RNG.standard_normal((3, 2, 2))
_HERMITIAN = np.stack([_POSITIVE[:, 0], _IMAGINARY - np.swapaxes(_IMAGINARY, -1, -2)], axis=-1)

_TRUNCATED = not has_change("exponential of small matrices")


def _paired(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of complex tensors as one of pairs of reals."""

    def of_pairs(*tensors: Tensor) -> Any:
        result = function(*(torch.view_as_complex(x.contiguous()) for x in tensors))
        results = result if isinstance(result, (tuple, list)) else (result,)
        return tuple(torch.view_as_real(y.resolve_conj()) if y.is_complex() else y for y in results)

    return of_pairs


def _case(op: str, inputs: tuple[Any, ...], function: Any, name: str = "", **attributes: Any) -> OpCase:
    function = _paired(function) if attributes.get("paired") else function
    return OpCase(op, inputs, attributes, function, name, skip_onnx=_OTHER_SIGNS if op in ("eigh", "svd") else "")


def _triangular(**options: bool) -> Callable[..., Any]:
    return lambda a, b: torch.linalg.solve_triangular(a, b, **options)


def _cholesky_solve_by_upper(b: Tensor, factor: Tensor) -> Tensor:
    return torch.cholesky_solve(b, factor, upper=True)


def _lu(x: Tensor) -> tuple[Tensor, Tensor]:
    packed, pivots = torch.linalg.lu_factor(x)
    return packed, pivots


def _with_signs(
    kernel: Callable[..., Any], function: Callable[..., Any], vectors: dict[int, int]
) -> Callable[..., Any]:
    """What torch gives, each vector with the sign (the phase) that it has in NumPy; `vectors` tells axes of vectors."""

    def signed(x: Tensor) -> Any:
        own_results, results = kernel(x.detach().numpy()), list(function(x))
        for i, axis in vectors.items():
            torch_vectors, own_vectors = results[i].detach(), torch.from_numpy(own_results[i])
            turn = (own_vectors * torch_vectors.conj()).sum(axis, keepdim=True)
            results[i] = results[i] * turn.sgn()
        return tuple(results)

    return signed


_eigh = _with_signs(np.linalg.eigh, torch.linalg.eigh, {1: -2})
_svd = _with_signs(
    lambda x: np.linalg.svd(x, full_matrices=False), lambda x: torch.linalg.svd(x, full_matrices=False), {0: -2, 2: -1}
)


def _eig(x: Tensor) -> tuple[Tensor, ...]:
    """The eigenvalues and vectors in NumPy's order."""
    values, vectors = torch.linalg.eig(x)
    own_values, own_vectors = np.linalg.eig(x.detach().numpy())
    order = (values.detach()[..., None] - torch.from_numpy(own_values)[..., None, :]).abs().argmin(-2)
    values, vectors = values.gather(-1, order), vectors.take_along_dim(order[..., None, :], -1)
    turn = (torch.from_numpy(own_vectors) * vectors.detach().conj()).sum(-2, keepdim=True).sgn()
    return torch.view_as_real(values), torch.view_as_real(vectors * turn)


def _without_gradient(case: OpCase) -> OpCase:
    """Of complex vectors, torch has a gradient only of what their phases don't change; of LDL factors, none."""
    return dataclasses.replace(case, differentiable=False)


def _symmetric(size: int, seed: int, *, batch: int = 4, parts: int = 1) -> Any:
    x = np.random.default_rng(seed).standard_normal((batch, size, size, parts))
    x[:, range(size), range(size)] *= 0.1  # so that there are blocks of size 2
    return x[..., 0] if parts == 1 else x


def _ldl_factor(**options: bool) -> Callable[..., Any]:
    return lambda x: tuple(torch.linalg.ldl_factor(x, **options))


def _ldl_solve(**options: bool) -> Callable[..., Any]:
    return lambda factors, pivots, b: torch.linalg.ldl_solve(factors, pivots, b, **options)


def _factors(x: Any) -> tuple[Any, Any]:
    factors, pivots = torch.linalg.ldl_factor(torch.from_numpy(x))
    return factors.numpy(), pivots.numpy()


CASES = [
    _case("inverse", (_MATRIX,), torch.linalg.inv),
    _case("inverse", (_BATCH,), torch.linalg.inv, "batch"),
    _case("inverse", (_COMPLEX,), torch.linalg.inv, "complex", paired=True),
    _case("solve", (_MATRIX, _RIGHT), torch.linalg.solve),
    _case("solve", (_BATCH, _RIGHT), torch.linalg.solve, "batch"),
    _case("solve", (_COMPLEX, _COMPLEX_RIGHT), torch.linalg.solve, "complex", paired=True),
    OpCase("determinant", (_BATCH,), {}, torch.linalg.det),
    OpCase("determinant", (_SINGULAR,), {}, None, "singular"),  # torch's gradient there is off
    _case("determinant", (_COMPLEX,), torch.linalg.det, "complex", paired=True),
    _case("cofactors", (_BATCH,), lambda x: torch.linalg.det(x)[..., None, None] * torch.linalg.inv(x).mT),
    _case(
        "cofactors",
        (_COMPLEX,),
        lambda x: torch.linalg.det(x)[..., None, None] * torch.linalg.inv(x).mT,
        "complex",
        paired=True,
    ),
    _case("log_determinant", (_BATCH,), torch.linalg.slogdet),
    _case("log_determinant", (_COMPLEX,), torch.linalg.slogdet, "complex", paired=True),
    _case("cholesky", (_POSITIVE,), torch.linalg.cholesky),
    _case("cholesky", (_HERMITIAN,), torch.linalg.cholesky, "complex", paired=True),
    _case("solve_triangular", (_BATCH, _RIGHT), _triangular(upper=False), upper=False),
    _case("solve_triangular", (_MATRIX, _RIGHT), _triangular(upper=True), "upper", upper=True),
    _case(
        "solve_triangular",
        (_MATRIX, _RIGHT),
        _triangular(upper=True, unitriangular=True),
        "ones",
        upper=True,
        unitriangular=True,
    ),
    _case(
        "solve_triangular", (_COMPLEX, _COMPLEX_RIGHT), _triangular(upper=False), "complex", upper=False, paired=True
    ),
    _case("cholesky_solve", (_RIGHT, np.tril(_BATCH)), torch.cholesky_solve),
    _case("cholesky_solve", (_RIGHT, np.triu(_MATRIX)), _cholesky_solve_by_upper, "upper", upper=True),
    _case("lu", (_BATCH,), _lu),
    _case("lu", (_TALL,), _lu, "tall"),
    _case("lu", (_WIDE,), _lu, "wide"),
    _case("lu", (_COMPLEX,), _lu, "complex", paired=True),
    OpCase(
        "permutation",
        (np.array([[3, 2, 3], [2, 2, 4]], np.int32), np.zeros(1)),
        {"size": 4},
        lambda pivots, like: torch.lu_unpack(torch.zeros(2, 4, 3, dtype=like.dtype), pivots, unpack_data=False)[0],
        differentiable=False,
    ),
    _case("eigh", (_POSITIVE,), _eigh),
    _without_gradient(_case("eigh", (_HERMITIAN,), _eigh, "complex", paired=True)),
    _without_gradient(_case("eig", (_BATCH,), _eig)),
    _without_gradient(_case("eig", (_COMPLEX,), _eig, "complex", paired=True)),
    _case("svd", (_BATCH,), _svd),
    _case("svd", (_TALL,), _svd, "tall"),
    _case("svd", (_WIDE,), _svd, "wide"),
    _without_gradient(_case("svd", (_COMPLEX,), _svd, "complex", paired=True)),
    _case("qr", (_BATCH,), torch.linalg.qr),
    _case("qr", (_TALL,), torch.linalg.qr, "tall"),
    _case("qr", (_WIDE,), torch.linalg.qr, "wide"),
    _case("qr", (_WIDE,), lambda x: torch.linalg.qr(x, "complete"), "complete", complete=True),
    _case("qr", (_COMPLEX,), torch.linalg.qr, "complex", paired=True),
    OpCase("householder_qr", (_TALL,), {}, torch.geqrf, differentiable=False),
    *map(
        _without_gradient,
        (
            _case("ldl", (_symmetric(6, 1),), _ldl_factor()),
            _case("ldl", (_symmetric(2, 3)[0],), _ldl_factor(), "single"),
            _case("ldl", (_symmetric(5, 2, parts=2),), _ldl_factor(), "complex", paired=True),
            _case(
                "ldl",
                (_symmetric(7, 4, parts=2),),
                _ldl_factor(hermitian=True),
                "hermitian",
                hermitian=True,
                paired=True,
            ),
            _case("ldl_solve", (*_factors(_symmetric(6, 1)), _RNG.standard_normal((4, 6, 2))), _ldl_solve()),
            _case("ldl_solve", (*_factors(_symmetric(6, 1)), _RNG.standard_normal((6, 2))), _ldl_solve(), "broadcast"),
        ),
    ),
    _case("matrix_exp", (_BATCH,), torch.linalg.matrix_exp),
    _case("matrix_exp", (np.stack([_MATRIX * 20, _MATRIX * 1e-3]),), torch.linalg.matrix_exp, "large and small"),
    *(
        _case("matrix_exp", (_MATRIX[None] * s,), torch.linalg.matrix_exp, str(s), truncated=_TRUNCATED)
        for s in (1e-17, 1e-9, 1e-5, 5e-3, 0.04)
    ),
    _case("matrix_exp", (_BATCH[..., :1, :1],), torch.linalg.matrix_exp, "single"),
    _case("matrix_exp", (_COMPLEX,), torch.linalg.matrix_exp, "complex", paired=True),
    _case("matrix_exp", (_COMPLEX[:, :1, :1],), torch.linalg.matrix_exp, "complex single", paired=True),
    _case("pseudo_inverse", (_TALL,), torch.linalg.pinv, "tall"),
    _case("pseudo_inverse", (_WIDE,), torch.linalg.pinv, "wide"),
    _case("pseudo_inverse", (_COMPLEX,), torch.linalg.pinv, "complex", paired=True),
]
