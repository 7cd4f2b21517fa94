"""Linear algebra: values and gradients as torch's; of factors that are free up to a sign, what doesn't depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cellbridge.converter.capture.export import from_torch
from cellbridge.runtime.errors import CellbridgeError
from tests.converter.capturing import Function, assert_matches_torch

Check = Callable[..., Any]
linalg = torch.linalg

_GENERATOR = torch.Generator().manual_seed(4)
KINDS = {"real": torch.float64, "complex": torch.complex128}


def _matrices(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=_GENERATOR)


def _square(dtype: torch.dtype) -> Tensor:
    return _matrices(2, 4, 4, dtype=dtype) + 3 * torch.eye(4)


def _positive(x: Tensor) -> Tensor:
    return x @ x.mH + torch.eye(x.shape[-1])


OF_SQUARE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "inverses": lambda a, b: (linalg.inv(a), linalg.inv_ex(a)[0], torch.inverse(a), linalg.matrix_power(a, -2)),
    "solve": lambda a, b: (linalg.solve(a, b), linalg.solve(a, b.mT, left=False), linalg.solve(a[0], b[0, :, 0])),
    "determinants": lambda a, b: (linalg.det(a), *linalg.slogdet(a)),
    "triangular systems": lambda a, b: (
        linalg.solve_triangular(a, b, upper=True),
        linalg.solve_triangular(a, b.mT, upper=False, left=False, unitriangular=True),
        torch.triangular_solve(b, a, upper=False, transpose=True)[0],
    ),
    "Cholesky": lambda a, b: (
        linalg.cholesky(_positive(a)),
        linalg.cholesky(_positive(a), upper=True),
        torch.cholesky_solve(b, linalg.cholesky(_positive(a))),
        torch.cholesky_inverse(linalg.cholesky(_positive(a), upper=True), upper=True),
    ),
    "LU": lambda a, b: (*linalg.lu(a)[1:], *linalg.lu(b)[1:], *linalg.lu(b.mT)[1:], linalg.lu_factor(a)[0]),
    "LU, not exchanged": lambda a, b: linalg.lu_factor_ex(a[:, :3, :3])[0],
    "solve by LU": lambda a, b: (
        linalg.lu_solve(*linalg.lu_factor(a), b),
        linalg.lu_solve(*linalg.lu_factor(a), b.mT, left=False),
        linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True),
    ),
    "QR": lambda a, b: (*linalg.qr(a), *linalg.qr(b), *linalg.qr(b.mT), *linalg.qr(b.mT, "complete")),
    "reflections": lambda a, b: (
        linalg.householder_product(b, b[..., 0, :] / 3),
        torch.ormqr(b.detach(), b[..., 0, :].detach() / 3, a, transpose=True),
    ),
    "symmetric eigenvalues": lambda a, b: (linalg.eigh(_positive(a))[0], linalg.eigvalsh(_positive(a), UPLO="U")),
    "symmetric eigenvectors": lambda a, b: _function_of(_positive(a)),
    "eigenvalues": lambda a, b: (linalg.eigvals(a).abs().sum(-1), linalg.eigvals(a).prod(-1).real),
    "eigenvectors": lambda a, b: _general_function_of(a),
    "singular values": lambda a, b: (
        linalg.svdvals(b),
        linalg.matrix_norm(a, "nuc"),
        linalg.cond(a),
        linalg.matrix_norm(a, 2),
    ),
    "singular vectors": lambda a, b: (_polar_factor(a), _polar_factor(b), _polar_factor(b.mT)),
    "singular vectors of a full decomposition": lambda a, b: _outer_part(b),
    "exponential": lambda a, b: linalg.matrix_exp(a),
    "products": lambda a, b: (
        linalg.multi_dot([b[0].mT, a[0], b[1]]),
        linalg.matrix_power(a, 3),
        torch.kron(a[0], b[0]),
        linalg.vander(b[0, 0]),
        linalg.cross(b[:, :3], b[:, 1:]),
        torch.trace(a[0]),
        linalg.vecdot(a, a * 2),
    ),
    "tensors": lambda a, b: (
        linalg.tensorinv(a[0].reshape(2, 2, 4), ind=2),
        linalg.tensorsolve(a[0].reshape(2, 2, 4), b[0, :, 0].reshape(2, 2)),
    ),
}


def _function_of(x: Tensor) -> Tensor:
    values, vectors = linalg.eigh(x)
    return vectors @ (values.log()[..., None] * vectors.mH)


def _general_function_of(x: Tensor) -> Tensor:
    values, vectors = linalg.eig(x)
    return vectors @ (values.exp()[..., None] * linalg.inv(vectors))


def _polar_factor(x: Tensor) -> Tensor:
    u, s, v = linalg.svd(x, full_matrices=False)
    return u @ (s.log()[..., None] * v)


def _outer_part(x: Tensor) -> Tensor:
    u, s, v = linalg.svd(x, full_matrices=True)
    count = s.shape[-1]
    return u[..., :count] @ (s.exp()[..., None] * v[..., :count, :])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OF_SQUARE)
@pytest.mark.every(18)
def test_values_and_gradients(check: Check, name: str, kind: str) -> None:
    dtype = KINDS[kind]
    check(OF_SQUARE[name], _square(dtype), _matrices(2, 4, 3, dtype=dtype), tolerance=1e-9)


def test_pseudoinverses(check: Check) -> None:
    # of complex matrices, torch's are wrong within a dispatch mode, which records the draws here
    check(
        lambda a, b: (linalg.pinv(a), linalg.pinv(b, rtol=0.3), linalg.pinv(b.mT @ b, hermitian=True)),
        _square(torch.float64),
        _matrices(2, 4, 3),
        tolerance=1e-9,
    )


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(check: Check, driver: str) -> None:
    def solved(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        vector = b[..., 0].contiguous()
        return (
            linalg.lstsq(a, b, driver=driver).solution,
            linalg.lstsq(c.mT.contiguous(), b[:, :3], driver=driver).solution,
            linalg.lstsq(c, vector, driver=driver).solution,
        )

    check(solved, _square(torch.float64), _matrices(2, 4, 3), _matrices(2, 4, 3), tolerance=1e-9)


def test_what_else_least_squares_give(check: Check) -> None:
    def given(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        _, none, rank, no_values = linalg.lstsq(a, b)
        _, _, of_wide, values = linalg.lstsq(a.mT.contiguous(), b[:, :3], driver="gelsd")
        of_vector = linalg.lstsq(a, b[..., 0], driver="gels").residuals
        low = a.detach() @ a.detach()[0].mT  # rank 3 of 4
        return (
            *linalg.lstsq(a, b, driver="gels"), of_vector, none, rank, no_values, of_wide, values,
            linalg.lstsq(low, b).rank, linalg.lstsq(low, b.detach(), rcond=1e-8).solution,
        )  # fmt: skip

    check(given, _matrices(2, 4, 3), _matrices(2, 4, 2), tolerance=1e-9)


def test_residuals_that_depend_on_ranks_are_refused() -> None:
    with pytest.raises(CellbridgeError, match=r"residuals by 'gelsd'.*full rank"):
        from_torch(Function(lambda a: linalg.lstsq(a, a, driver="gelsd").residuals), (_matrices(4, 3),))


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, float("inf"), 0, -1, -2.5, float("-inf")])
def test_norms_of_every_order(check: Check, order: float) -> None:
    check(lambda x: linalg.vector_norm(x, order, dim=1), _matrices(3, 4))


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances_of_every_order(check: Check, order: float) -> None:
    check(lambda a, b: torch.cdist(a, b, p=order), _matrices(2, 4, 3), _matrices(2, 5, 3))


def test_a_norm_of_small_order_at_zero_has_no_infinite_gradient(check: Check) -> None:
    check(lambda x: linalg.vector_norm(x, 0.5), torch.tensor([0.0, 2.0, -3.0]))


EMPTY: dict[str, Callable[[Tensor], Any]] = {
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": linalg.slogdet,
    "cholesky": linalg.cholesky,
    "lu": lambda x: tuple(linalg.lu(x)),
    "qr": lambda x: tuple(linalg.qr(x)),
    "eigh": lambda x: tuple(linalg.eigh(x)),
    "svd": lambda x: tuple(linalg.svd(x)),
    "pinv": linalg.pinv,
    "matrix_exp": linalg.matrix_exp,
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)], ids=str)
@pytest.mark.every(6)
def test_empty_matrices(check: Check, name: str, shape: tuple[int, ...]) -> None:
    check(EMPTY[name], torch.zeros(shape), gradients=False)


@pytest.mark.parametrize("size", [1, 3, 6])
@pytest.mark.every(3)
def test_symbolic_sizes(check: Check, size: int) -> None:
    def solved(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        q, r = linalg.qr(b.mT)
        return (
            linalg.solve(_positive(a), b),
            linalg.cholesky(_positive(a)),
            linalg.svdvals(b),
            q,
            r,
            linalg.slogdet(a)[1],
        )

    n = torch.export.Dim("n")
    check(
        solved,
        _matrices(4, 4),
        _matrices(4, 2),
        dynamic_shapes=({0: n, 1: n}, {0: n}),
        others=(_matrices(size, size), _matrices(size, 2)),
        tolerance=1e-9,
    )


def test_float32(check: Check) -> None:
    check(lambda a: linalg.inv(a), _square(torch.float64), dtype=torch.float32, tolerance=1e-4)


def test_a_singular_matrix_is_an_error_that_says_so() -> None:
    program = from_torch(Function(linalg.inv), (torch.eye(3),))
    with pytest.raises(CellbridgeError, match="a matrix has no inverse"):
        program(torch.ones(3, 3))


def test_a_matrix_that_is_not_positive_definite_is_an_error_that_says_so() -> None:
    program = from_torch(Function(linalg.cholesky), (torch.eye(3),))
    with pytest.raises(CellbridgeError, match="no Cholesky factor"):
        program(-torch.eye(3))


COVARIANCES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "cov": lambda x, w: (torch.cov(x), x[0].cov(correction=0), torch.cov(x.T)),
    "weighted cov": lambda x, w: (
        torch.cov(x, fweights=(3 * w).long(), aweights=w),
        torch.cov(x, aweights=w, correction=2),
        torch.cov(x, fweights=(3 * w).long(), correction=0),
    ),
    "corrcoef": lambda x, w: (torch.corrcoef(x), x[0].corrcoef(), x.T.corrcoef()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", COVARIANCES)
@pytest.mark.every(6)
def test_covariances(name: str, kind: str) -> None:
    function = Function(COVARIANCES[name])
    args = torch.randn(3, 5, dtype=KINDS[kind]), torch.rand(5) + 0.5
    assert_matches_torch(function, *args)


def test_a_covariance_of_any_number_of_samples() -> None:
    args, others = ((torch.randn(3, n), torch.rand(n)) for n in (5, 8))
    function = Function(lambda x, w: (torch.cov(x), torch.cov(x, aweights=w), torch.corrcoef(x)))
    assert_matches_torch(function, *args, dynamic_shapes=({1: "samples"}, {0: "samples"}), other_args=others)


def test_distances_of_any_number_of_points() -> None:
    """Above 25 points, torch computes them in another way, which isn't taken for another network."""
    args, others = ((torch.randn(2, n, 3), torch.randn(2, n + 1, 3)) for n in (4, 30))
    function = Function(lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1), torch.cdist(x, x).mean()))
    assert_matches_torch(function, *args, dynamic_shapes=({1: "n"}, {1: "m"}), other_args=others, tolerance=1e-7)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", KINDS.values(), ids=KINDS)
@pytest.mark.every(3)
def test_ldl_factors_and_what_is_solved_by_them(dtype: torch.dtype, hermitian: bool) -> None:
    """Pivots are exactly LAPACK's; blocks of size 2, and of size 1 with and without an exchange, are among them."""
    x = _matrices(12, 6, 6, dtype=dtype)
    x.diagonal(dim1=-2, dim2=-1).mul_(0.2)

    def function(x: Tensor, b: Tensor) -> Any:
        x, b = x.detach(), b.detach()  # torch has no gradients of these
        factors, pivots = linalg.ldl_factor(x, hermitian=hermitian)
        solved = [linalg.ldl_solve(factors, pivots, b, hermitian=hermitian)]
        return factors, pivots, *solved, linalg.ldl_factor_ex(x, hermitian=hermitian)

    assert_matches_torch(Function(function), x, _matrices(6, 2, dtype=dtype))
    pivots = linalg.ldl_factor(x, hermitian=hermitian).pivots
    assert (pivots < 0).any()
    assert (pivots > torch.arange(1, 7)).any()


def test_a_singular_matrix_says_where() -> None:
    def function(x: Tensor) -> Any:
        return linalg.ldl_factor_ex(x.detach()).info

    x = torch.diag_embed(torch.tensor([[1.0, 2.0, 3.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert_matches_torch(Function(function), x)


def test_pivots_that_point_outside_are_refused() -> None:
    x, b = torch.eye(3), torch.ones(3, 1)
    program = from_torch(Function(linalg.ldl_solve), (x, torch.tensor([1, 2, 3], dtype=torch.int32), b))
    for pivots in ([1, 2, 4], [0, 2, 3], [-9, -9, 3]):
        with pytest.raises(CellbridgeError, match="needed pivots from 1 to 3"):
            program(x, torch.tensor(pivots, dtype=torch.int32), b)
