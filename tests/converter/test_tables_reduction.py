"""ATen reductions, sorting and cumulative operators against torch."""

from __future__ import annotations

import pytest
import torch

RNG = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RNG, dtype=torch.float64)


X = normal(3, 4, 5)
N = torch.randint(-3, 4, (3, 4, 5), generator=RNG)
BATCH = torch.export.Dim("batch", min=3, max=50)


def test_sums_and_means(check):
    check(
        lambda x: [
            x.sum(), x.sum(0), x.sum((0, -1), keepdim=True), x.sum(()), x.mean(), x.mean(-1),
            x.mean((0, 2), keepdim=True), x.prod(), x.prod(1), x.prod(-1, keepdim=True), x.logsumexp(1),
            x.logsumexp((0, 2), keepdim=True),
            x.sum().sum(0), x.nansum(), x.nanmean(1),
        ],
        X,
    )  # fmt: skip
    check(
        lambda n: [
            n.sum(),
            n.sum(1),
            n.prod(2),
            (n > 0).sum(),
            n.sum(dtype=torch.float64),
            n.int().sum(),
            n.count_nonzero(),
        ],
        N,
    )


def test_reductions_in_other_precision(check):
    check(lambda x: [x.sum(dtype=torch.float32), x.mean(1, dtype=torch.float32)], X, tolerance=1e-6)
    check(lambda x: [x.sum(), x.mean(1), x.amax(0), x.var(), x.logsumexp(-1)], X, dtype=torch.float16, gradients=False)


def test_products_with_zeros(check):
    x = normal(4, 3)
    x[0, 0] = x[1, 0] = x[1, 2] = 0
    check(lambda x: [x.prod(), x.prod(1), x.prod(0), x.cumprod(1), x.cumprod(0)], x)


def test_extrema(check):
    check(
        lambda x: [
            x.amax(), x.amax(1), x.amax((0, 2), keepdim=True), x.amin(-1), x.max(), x.min(), x.max(1),
            x.min(-1, keepdim=True), x.max(0).indices, torch.aminmax(x), torch.aminmax(x, dim=1), x.argmax(),
            x.argmax(1), x.argmin(-1, keepdim=True), x.median(), x.median(1), x.kthvalue(2, 1), x.sum().max(0),
            x.sum().argmax(),
        ],
        X,
    )  # fmt: skip


def test_ties(check):
    """`amax` and `max()` share the gradient among equal elements, `max(dim)` gives it to the one it indexes."""
    tied = torch.tensor([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]], dtype=torch.float64)
    check(lambda x: [x.amax(1), x.amin(1), x.max(), x.min(), x.max(1)[0], x.min(0)[0]], tied)


def test_truths(check):
    check(lambda x: [x.any(), x.any(1), x.all(1), (x > 0).all(), (x > 0).any(-1, keepdim=True), x.any((0, 1))], N)
    check(
        lambda x: [
            x.any(),
            x.all(0),
            x.to(torch.uint8).any(1),
            torch.all(x, dim=(0, 2)),
            torch.ops.aten._is_all_true(x > 0),
        ],
        X,
    )


def test_booleans_in_order(check):
    x = torch.tensor([[True, False, True], [False, False, True]])
    places, rows = torch.tensor([[0, 0, 1], [2, 2, 0]]), torch.tensor([0, 0])

    def reduced(x):
        ways = [(how, include) for how in ("sum", "prod", "amax", "amin") for include in (True, False)]
        return [x.scatter_reduce(1, places, x, how, include_self=include) for how, include in ways]

    check(
        lambda x: [
            x.max(1), x.min(0), x.sort(1), x.argsort(1), x.cummax(1), x.cummin(0), x.mode(1),
            x.scatter_add(1, places, x), x.index_add(0, rows, x), x.index_put((rows,), x, accumulate=True),
            x.put(rows, x[0, :2], accumulate=True), *reduced(x),
        ],
        x,
    )  # fmt: skip


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_variances(check, correction):
    check(
        lambda x: [
            x.var(correction=correction), x.var(1, correction=correction),
            x.std((0, 2), correction=correction, keepdim=True), torch.var_mean(x, 1, correction=correction),
            torch.std_mean(x, correction=correction), x.var(), x.var(1), x.std(), x.var(1, unbiased=False),
            x.std(0, unbiased=False), x.std(-1, keepdim=True),
        ],
        X,
    )  # fmt: skip


def test_norms(check):
    check(
        lambda x: [
            x.norm(), x.norm(dim=1), x.norm(1), x.norm(3, dim=-1, keepdim=True), x.norm(float("inf"), dim=1),
            x.norm(-float("inf"), dim=1), x.norm(0, dim=1), torch.linalg.vector_norm(x, 2.5, (0, 1)),
            torch.linalg.norm(x), torch.linalg.norm(x[0], "fro"), torch.linalg.matrix_norm(x, 1),
            torch.nn.functional.normalize(x, dim=1), torch.cdist(x, x[:, :2]), torch.cdist(x[0], x[1], p=1),
            x.renorm(2, 0, 1.0),
        ],
        X,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.every(2)
def test_steps_of_norms_and_variances_are_not_rounded_to_half_precision(check, dtype):
    x = torch.tensor([[300.0, -400.0, 350.0], [1e-4, 2e-4, -1e-4], [1.0, 2.5, 1e-2]])

    def functions(x):
        norms = [x.norm(dim=1)] + [torch.linalg.vector_norm(x, p, 1) for p in (3, 1, 0.5, 0, -1, float("inf"))]
        return [
            *norms, x.norm(), x.std(1), x.std(), x.std(1, correction=0.5), *torch.std_mean(x, 1),
            x[1:].var(1), x[1:].var(1, correction=0.5), *torch.var_mean(x[1:], 1),
        ]  # fmt: skip

    check(functions, x, dtype=dtype, gradients=False, tolerance=0)
    check(lambda x: [torch.nn.functional.normalize(x, dim=1), x.norm(dim=1), x.std(1)], x, dtype=dtype)


def test_gradient_of_norms_at_zero_is_zero(check):
    x = torch.zeros(3, 4, dtype=torch.float64)
    x[1, 2] = 2
    check(lambda x: [x.norm(dim=1), x.norm(3, dim=1), x.norm(1, dim=1), x.std(1), torch.cdist(x, x)], x)


def test_sorting(check):
    check(
        lambda x: [
            x.sort(), x.sort(1, descending=True), x.sort(stable=True, dim=0), x.argsort(-1), x.topk(2),
            x.topk(3, 1, largest=False), x.msort(), x.topk(2, dim=0, sorted=True), x.sum().sort(),
            torch.quantile(x, 0.3), x.flatten().sort(),
        ],
        X,
    )  # fmt: skip
    check(lambda n: [n.sort(stable=True)[0], n.sort(1, descending=True)[0], n.topk(2)[0]], N)


def test_cumulative(check):
    check(
        lambda x: [
            x.cumsum(0), x.cumsum(-1), x.cumprod(1), x.cummax(1), x.cummin(-1), x.diff(), x.diff(2, 0),
            x.sum().cumsum(0), x.diff(dim=1, prepend=x[:, :1], append=x[:, -1:]), torch.trapezoid(x, dim=1),
        ],
        X,
    )  # fmt: skip
    check(
        lambda n: [
            n.cumsum(1),
            (n > 0).cumsum(0),
            (n > 0).diff(),
            n.diff(),
            n.cumprod(0),
            n.int().cumsum(1),
            n.cumsum(0, dtype=torch.float32),
        ],
        N,
    )


def test_symbolic_sizes(check):
    check(
        lambda x: [
            x.sum(0), x.mean(), x.mean(0), x.var(0), x.std(), x.amax(0), x.max(0), x.cumsum(0), x.diff(dim=0),
            x.sort(0), x.topk(2, 0), x.argmax(0), x.prod(1), x.logsumexp(0), x.norm(dim=0), x.median(0), x.cumprod(1),
            x.cummax(0),
        ],
        normal(5, 4),
        dynamic_shapes=[{0: BATCH}],
        others=(normal(8, 4),),
    )  # fmt: skip
