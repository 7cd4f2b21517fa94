"""ATen operators that few models use: special functions, histograms, medians, modes, draws by weight, volumes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from cellbridge.converter.capture.export import from_torch
from tests.converter.capturing import Function

RNG = torch.Generator().manual_seed(0)
S = torch.special


@pytest.fixture(autouse=True)
def same_numbers_in_any_order() -> None:
    RNG.manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RNG, dtype=torch.float64)


def test_special_functions(check):
    share = torch.rand((3, 4), generator=RNG, dtype=torch.float64) * 0.98 + 0.01
    check(
        lambda x, p: [
            torch.lgamma(p), torch.digamma(p), torch.polygamma(2, p), torch.erfinv(2 * p - 1), torch.i0(x), S.i0e(x),
            S.i1(x), S.i1e(x), S.erfcx(x), S.ndtri(p), S.log_ndtr(x), S.entr(p), S.xlog1py(x, p),
            torch.mvlgamma(p + 2, 3),
        ],
        normal(3, 4), share,
    )  # fmt: skip
    check(
        lambda x, p: [
            torch.igamma(p, x.abs()), torch.igammac(p, x.abs()), S.zeta(p + 1.5, p), S.bessel_j0(x), S.bessel_j1(x),
            S.bessel_y0(p), S.bessel_y1(p), S.modified_bessel_k0(p), S.scaled_modified_bessel_k1(p), S.airy_ai(x),
            S.spherical_bessel_j0(x),
        ],
        normal(3, 4), share, gradients=False,
    )  # fmt: skip


def test_orthogonal_polynomials(check):
    degrees = torch.tensor([[0, 1, 2, 7], [-1, 3, 4, 12]])
    check(
        lambda x, n: [
            S.chebyshev_polynomial_t(x, n), S.chebyshev_polynomial_u(x, n), S.chebyshev_polynomial_v(x, n),
            S.chebyshev_polynomial_w(x, n), S.hermite_polynomial_h(x, n), S.hermite_polynomial_he(x, n),
            S.laguerre_polynomial_l(x, n), S.legendre_polynomial_p(x, n), S.shifted_chebyshev_polynomial_t(x, n),
            S.chebyshev_polynomial_t(x, 5), S.hermite_polynomial_h(2.0, n.double()),
        ],
        normal(2, 4), degrees, gradients=False, tolerance=1e-11,
    )  # fmt: skip


def test_whole_numbers(check):
    a, b = torch.tensor([[12, -18, 0], [7, 1071, 5]]), torch.tensor([8, 27, 0])
    check(lambda a, b: [torch.gcd(a, b), torch.lcm(a, b), torch.gcd(a.int(), b[0])], a, b, gradients=False)


def test_searching_and_counting(check):
    x, edges = normal(3, 5), torch.tensor([-1.0, 0.0, 0.5, 2.0], dtype=torch.float64)
    check(
        lambda x, edges: [
            torch.searchsorted(edges, x), torch.searchsorted(edges, x, right=True, out_int32=True),
            torch.searchsorted(x.sort(1)[0], x, side="right"), torch.bucketize(x, edges), torch.bucketize(0.5, edges),
            torch.histc(x, 6, -1, 2), torch.histc(x, 4), torch.isin(x.round(), edges),
            *torch.histogram(x, 5), *torch.histogram(x, edges, density=True),
            torch.bincount((x.abs() * 3).long().flatten()),
            torch.bincount((x.abs() * 3).long().flatten(), weights=x.flatten(), minlength=20),
            torch.histogramdd(x[:, :2], [2, 3])[0],
        ],
        x, edges, gradients=False,
    )  # fmt: skip


def test_medians_and_modes(check):
    x = normal(4, 5)
    x[0, 1] = x[2, 2] = x[2, 3] = float("nan")
    check(lambda x: [torch.nanmedian(x), *torch.nanmedian(x, 1), *torch.nanmedian(x, 0, keepdim=True)], x)
    few = torch.tensor([[3.0, float("nan"), 1.0], [float("nan"), float("nan"), 2.0], [float("nan")] * 3])
    check(lambda x: [*torch.nanmedian(x, 1)], few)  # of two numbers, one and none
    whole = torch.tensor([[3, 1, 3, 2, 1], [5, 5, 5, 4, 4]])
    check(lambda x: [*torch.mode(x, 1), *torch.mode(x, 0), *torch.mode(x.double(), 1, keepdim=True)], whole)


def test_writing(check):
    x, mask = normal(3, 4), torch.tensor([[True, False, True, False]])
    index = torch.tensor([0, 2, 0])
    check(
        lambda x, mask, source: [
            x.masked_scatter(mask, source), x.put(torch.tensor([1, -2]), source[:2, 0]),
            x.put(torch.tensor([1, 1]), source[0, :2], accumulate=True), torch.logcumsumexp(x, 1),
            *(x.index_reduce(0, index, source, how, include_self=include_self)
              for how in ("mean", "amax", "prod") for include_self in (True, False)),
        ],
        x, mask, normal(3, 4),
    )  # fmt: skip


def test_parts_of_floats(check):
    x = normal(3, 4) * 10
    check(
        lambda x, y: [torch.copysign(x, y), torch.frexp(x)[0], torch.nextafter(x, y), torch.copysign(x, -0.0)],
        x, normal(3, 4),
    )  # fmt: skip
    check(lambda x: [torch.signbit(x), torch.frexp(x)[1]], torch.tensor([0.0, -0.0, 3.0, -0.1]), gradients=False)


def test_norms_of_any_order(check):
    x = normal(3, 4)
    x[0, 0] = 0
    check(
        lambda x: [
            *(torch.linalg.vector_norm(x, p, 1) for p in (0.5, -1.0, -2.5, 3.0)), F.pdist(x),
            torch.cdist(x, x[:2] + 1, 0.5),
            torch.var(x, 1, correction=1.3),
        ],
        x,
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.every(3)
def test_sampling_of_volumes(check, padding):
    grid = torch.rand((2, 3, 2, 4, 3), generator=RNG, dtype=torch.float64) * 2.6 - 1.3
    check(
        lambda x, grid: [
            F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)
            for mode in ("bilinear", "nearest")
            for corners in (True, False)
        ],
        normal(2, 3, 4, 5, 6), grid,
    )  # fmt: skip
    at_bounds = torch.tensor([-1.0, 1.0, 0.5, 0.0], dtype=torch.float64).expand(1, 3, 2, 4).mT.reshape(1, 4, 2, 1, 3)
    check(lambda x, grid: F.grid_sample(x, grid, padding_mode=padding, align_corners=True), normal(1, 2, 3, 3, 3),
          at_bounds)  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.every(2)
def test_sampling_of_volumes_far_away(check, padding):
    unknown = torch.nan if padding == "zeros" else 2.0  # at a border, torch's gradient of NaN isn't that of its value
    far = torch.tensor([torch.inf, unknown, -torch.inf, 1e30, -1e20, 3.0], dtype=torch.float64)
    grid = torch.cat([far, torch.linspace(-0.8, 0.9, 66, dtype=torch.float64)]).reshape(2, 3, 2, 2, 3)
    check(
        lambda x, grid: [
            F.grid_sample(x, grid, mode, padding, corners)
            for mode in ("bilinear", "nearest") for corners in (True, False)
        ],
        normal(2, 3, 4, 5, 6), grid,
    )  # fmt: skip


def test_pooling_by_given_numbers(check):
    numbers = torch.rand((2, 3, 2), generator=RNG, dtype=torch.float64)
    check(
        lambda x, u: [
            F.fractional_max_pool2d(x, 2, output_size=(3, 4), _random_samples=u.detach()),
            F.pad(x, (-2, 3, 1, -3), mode="replicate"),
        ],
        normal(2, 3, 7, 9), numbers,
    )  # fmt: skip


def test_slices_with_bounds_from_tensors(check):
    check(lambda x, at: [*torch.tensor_split(x, at), *torch.tensor_split(x, at, 1)], normal(5, 6), torch.tensor([1, 4]))


DRAWN = {
    "cauchy": (lambda x: torch.empty_like(x).cauchy_(1.0, 2.0), (lambda y: (y < 1).float().mean(), 0.5)),
    "log_normal": (lambda x: torch.empty_like(x).log_normal_(0.5, 0.1), (lambda y: y.log().mean(), 0.5)),
    "geometric": (lambda x: torch.empty_like(x).geometric_(0.25), (lambda y: y.mean(), 4.0)),
    "normal": (lambda x: torch.normal(torch.full_like(x, 3.0), 0.5), (lambda y: y.mean(), 3.0)),
    "poisson": (lambda x: torch.poisson(torch.full_like(x, 6.0)), (lambda y: y.mean(), 6.0)),
    "multinomial": (
        lambda x: torch.multinomial(torch.tensor([0.0, 1.0, 3.0]), 4000, replacement=True).double(),
        (lambda y: y.mean(), 1.75),
    ),
    "one of each": (lambda x: torch.randperm(4000).double(), (lambda y: y.sort()[0].diff().abs().max(), 1.0)),
    "without replacement": (
        lambda x: torch.multinomial(torch.ones(4000), 4000).double(), (lambda y: y.sort()[0].diff().min(), 1.0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_draws_have_their_distribution(name):
    function, (statistic, expected) = DRAWN[name]
    x = torch.zeros(4000)
    sampled = torch.from_numpy(from_torch(Function(function), (x,))(x).copy())
    assert float(statistic(sampled)) == pytest.approx(expected, rel=0.15)


def test_lookups_that_scale(check):
    weight, places = normal(5, 3), torch.tensor([[0, 2, 2], [4, 2, 0]])
    check(lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), weight, places)
    check(lambda w, i: F.embedding(i, w.clone(), max_norm=0.7).sin(), weight, places, gradients=False)
    check(
        lambda w, i: [F.embedding_bag(i, w, mode="max"), F.embedding_bag(i[0], w, i[0] * 0, mode="max")], weight, places
    )
