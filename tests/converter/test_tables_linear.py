"""ATen matrix products and einsum against torch."""

from __future__ import annotations

import pytest
import torch

RNG = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RNG, dtype=torch.float64)


def test_products(check):
    check(
        lambda a, b, batch, v, w: [
            a @ b, torch.mm(a, b), batch @ b, torch.bmm(batch, batch.mT), a @ w, torch.mv(a, w), v @ v,
            torch.dot(v, v), torch.vdot(v, v), batch @ w, v @ a, v @ batch, batch[:, None] @ batch.mT,
            torch.outer(v, w), torch.inner(a, b.T), torch.tensordot(a, b, 1), torch.kron(a, b),
            torch.chain_matmul(a, b, b.T), torch.linalg.multi_dot([v, a, b]),
        ],
        normal(3, 4), normal(4, 5), normal(2, 3, 4), normal(3), normal(4),
    )  # fmt: skip


def test_products_with_a_sum(check):
    check(
        lambda m, a, b, batch: [
            torch.addmm(m, a, b), torch.addmm(m[0], a, b, beta=0.5, alpha=2), torch.addmv(m[:, 0], a, b[:, 0]),
            torch.baddbmm(m, batch, b.expand(2, 4, 5), alpha=3), torch.addbmm(m, batch, b.expand(2, 4, 5), beta=2),
            torch.addr(m, a[:, 0], m[0], alpha=0.5), torch.addmm(m * float("nan"), a, b, beta=0),
        ],
        normal(3, 5), normal(3, 4), normal(4, 5), normal(2, 3, 4),
        gradients=False,
    )  # fmt: skip
    check(lambda m, a, b: torch.addmm(m, a, b, beta=0.5, alpha=2), normal(5), normal(3, 4), normal(4, 5))


def test_linear(check):
    check(
        lambda x, w, b: [torch.nn.functional.linear(x, w, b), torch.nn.functional.linear(x, w), torch.bilinear(x, x,
        w[:, None] * w[..., None], b)],
        normal(2, 3, 4), normal(5, 4), normal(5),
    )  # fmt: skip


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bhij,bhjd->bihd", (2, 3, 4, 6), (2, 3, 6, 5)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("ij->ji", (3, 4)),
    ("ba", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("iij->ij", (4, 4, 3)),
    ("iji,k->jk", (4, 3, 4), (2,)),
    ("...ij,...jk->...ik", (2, 3, 4), (5, 2, 4, 3)),
    ("...i,i", (2, 3, 4), (4,)),
    ("i...->...", (2, 3, 4)),
    ("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4)),
    ("ij,kl->", (2, 3), (4, 5)),
    ("ij,ik->jk", (3, 1), (1, 4)),
    ("bij,bij->bj", (2, 3, 4), (1, 3, 4)),
    (" n c h w , n h w -> n c ", (2, 3, 4, 5), (2, 4, 5)),
]


def test_einsum(check):
    for equation, *shapes in EQUATIONS:
        check(lambda *xs, equation=equation: torch.einsum(equation, *xs), *(normal(*shape) for shape in shapes))


def test_symbolic_sizes(check):
    check(
        lambda x, w: [
            x @ w, x.flatten(1) @ x.flatten(1).T, torch.einsum("bik,kj->bij", x, w),
            torch.outer(x[:, 0, 0], x[:, 1, 1]), torch.einsum("bik,bjk->bij", x, x),
            torch.nn.functional.linear(x, w.T), x.mT @ x, torch.cdist(x[:, 0], x[:, 1]),
        ],
        normal(3, 5, 4), normal(4, 2),
        dynamic_shapes=[{0: torch.export.Dim("batch", min=3, max=20)}, None],
        others=(normal(6, 5, 4), normal(4, 2)),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.float32])
def test_dtypes(check, dtype):
    a, b = (torch.randint(-4, 5, (3, 3), generator=RNG).to(dtype) for _ in range(2))
    check(
        lambda a, b: [a @ b, torch.outer(a[0], b[0]), torch.einsum("ij,ij->i", a, b)],
        a,
        b,
        dtype=dtype if dtype.is_floating_point else torch.float64,
        gradients=False,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.every(2)
def test_weighted_sums_of_products_are_rounded_once(check, dtype):
    check(
        lambda x, a, b: [
            torch.addmm(x[0], a[0], b[0], alpha=0.3), torch.addmm(x[0], a[0], b[0], beta=1.1),
            torch.baddbmm(x, a, b, beta=0.3, alpha=1e-3), torch.baddbmm(-x, 4096 * a.abs(), b.abs(), alpha=1e-3),
        ],
        normal(2, 4, 4), normal(2, 4, 3), normal(2, 3, 4),
        dtype=dtype, tolerance=0, gradients=False,
    )  # fmt: skip
