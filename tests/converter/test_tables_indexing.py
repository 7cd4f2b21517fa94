"""ATen operators that read and write at computed places, against torch."""

from __future__ import annotations

import pytest
import torch

RNG = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RNG, dtype=torch.float64)


def indices(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=RNG)


X = normal(4, 5, 6)
I, J, K = indices(-4, 4, 3), indices(-5, 5, 3), indices(-6, 6, 2, 1)  # noqa: E741
BATCH = torch.export.Dim("batch", min=3, max=50)


def test_advanced_indexing(check):
    check(
        lambda x, i, j, k: [
            x[i], x[:, j], x[..., k], x[i, j], x[i, :, k], x[:, j, k], x[i, j, k], x[i[:, None], j], x[:, i[None], :2],
            x[1, j], x[:, 2, k], x[i, 1:3, 0], x[[0, 2]], x[:, [1, -1]], x[None, i], x[i, None, :, k], x[i].sum(),
            x[torch.tensor(1)], x[torch.tensor(0), :, j], x[0, i[:, None], k[:, 0]],
        ],
        X, I, J, K,
    )  # fmt: skip


def test_advanced_indexing_of_symbolic_size(check):
    check(
        lambda x, i: [x[i], x[:, [0, -1]], x[i, 0], x[torch.arange(x.shape[0]), i % 2], x[:, i],
        x[torch.arange(x.shape[0])[:, None], i]],
        normal(4, 5), torch.tensor([1, 0, 2, 1]),
        dynamic_shapes=[{0: BATCH}, {0: BATCH}],
        others=(normal(5, 5), torch.tensor([1, 0, 2, 3, 4])),
    )  # fmt: skip


def test_writing_by_index(check):
    def written(x, i, j, k, v):
        a = x.clone()
        a[i] = v[0, 0, 0]
        b = x.clone()
        b[[0, 2], [1, 3]] = v[:2, 0]
        c = x.index_put((i, j), v[:3, 0], accumulate=True)
        d = x.clone()
        d[:, [1, 3]] = v[:, :2]
        d[[2, 0], :, [1, 4]] += 2 * v[:2, :, 0]
        e = x.index_put((i[:, None], torch.arange(5)), torch.ones(6, dtype=x.dtype), accumulate=True)
        f = torch.zeros_like(x).index_put((torch.tensor([0, 3]),), v[1:3])
        return a, b, c, d, e, f

    check(written, X, I, J, K, normal(4, 5, 6))


def test_writing_by_mask(check):
    def written(x, y):
        a = x.clone()
        a[x > 0] = 0
        b = x.clone()
        b[x[:, 0, 0] > 0] = y[0]
        c = x.index_put((x > 0,), y.sum(), accumulate=True)
        return a, b, c

    check(written, X, normal(4, 5, 6))


def test_along_an_axis(check):
    check(
        lambda x, i, at: [
            x.index_select(1, i), x.index_select(0, i), x.gather(1, at), x.gather(0, at % 4), x.gather(-1, at[:2, :3]),
            x.take_along_dim(at, 1), x.take_along_dim(at[:1], 1), x.take(at), x.take_along_dim(at[0, 0]),
            x.sum().index_select(0, i[:1] * 0),
        ],
        X, indices(0, 4, 3), indices(0, 5, 4, 5, 6),
    )  # fmt: skip


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(check, reduce, include_self):
    check(
        lambda x, at, v: x.scatter_reduce(1, at, v, reduce, include_self=include_self),
        X, indices(0, 5, 4, 3, 6), normal(4, 3, 6),
    )  # fmt: skip


def test_scatter(check):
    places = torch.stack([torch.randperm(5, generator=RNG)[:3] for _ in range(4)])[:, :, None].expand(4, 3, 6)
    check(
        lambda x, at, v: [
            x.scatter(1, at, v), x.scatter(1, at, 2.5), x.scatter_add(1, at, v), x.scatter(1, at, v, reduce="add"),
            x.scatter(1, at, 2.0, reduce="multiply"), torch.zeros_like(x).scatter_(1, at[:2], 1.0),
            torch.zeros(4, 5, dtype=x.dtype).scatter(1, at[:, :1, 0], 1.0),
        ],
        X, places, normal(4, 5, 6),
        gradients=False,
    )  # fmt: skip
    check(
        lambda x, at, v: [x.scatter(1, at, v), x.scatter(1, at, 2.5), x.scatter_add(1, at, v)],
        X,
        places,
        normal(4, 3, 6),
    )


def test_slices_written_by_index(check):
    places = torch.tensor([3, 0])
    check(
        lambda x, i, v: [
            x.index_add(0, i, v), x.index_add(0, torch.zeros_like(i), v, alpha=2), x.index_copy(0, i, v),
            x.index_fill(1, i, 2.5), x.index_fill(-1, torch.cat([i, i]), v.sum()),
        ],
        X, places, normal(2, 5, 6),
    )  # fmt: skip


def test_symbolic_sizes(check):
    check(
        lambda x, at: [
            x.gather(1, at), torch.zeros_like(x).scatter_add(1, at, x[:, :2]), x.index_select(1, at[0]),
            x.scatter(1, at, 1.0), torch.zeros_like(x).index_add(0, torch.arange(x.shape[0]), x),
        ],
        normal(4, 5), torch.tensor([[0, 1], [1, 2], [4, 0], [3, 1]]),
        dynamic_shapes=[{0: BATCH}, {0: BATCH}],
        others=(normal(3, 5), torch.tensor([[0, 1], [1, 4], [2, 0]])),
    )  # fmt: skip


def test_as_strided(check):
    check(
        lambda x, y: [
            x.as_strided((2, 3, 4), (8, 2, 1)), (y.T * 2).as_strided((3, 2), (1, 3), 1), y.as_strided((), (), 5),
            (x + 0).view(2, 3, 4).transpose(0, 1).contiguous().as_strided((3, 2), (2, 2)),
        ],
        normal(3, 8), normal(3, 4),
    )  # fmt: skip


def test_histc(check):
    check(
        lambda x, same, whole: [
            x.histc(5, -1, 2), x.histc(7), same.histc(4), same.histc(3, 1, 1), whole.double().histc(8, 0, 7),
        ],
        normal(4, 9), torch.full((3,), 2.0), indices(0, 9, 20),
    )  # fmt: skip


def test_parts_of_a_known_whole(check):
    """Sizes depend on the data, their sum doesn't."""

    def of_experts(x, expert, scale):
        counts = torch.zeros(3, dtype=torch.int64).scatter_add(0, expert, torch.ones_like(expert))
        parts = x.split(counts.tolist())
        return torch.cat([part * (number + 1) for number, part in enumerate(parts)]) * scale

    check(of_experts, normal(5, 2), torch.tensor([0, 0, 1, 2, 2]), normal(5, 1))
