"""ATen views, cuts, joins, padding, creation and bookkeeping against torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

RNG = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RNG, dtype=torch.float64)


X = normal(4, 6, 5)
BATCH = torch.export.Dim("batch", min=3, max=50)
ROWS = torch.export.Dim("rows", min=3, max=50)


def test_views(check):
    check(
        lambda x: [
            x.view(24, 5), x.reshape(-1), x.reshape(2, 2, 30), x.view_as(x), x.flatten(), x.flatten(1), x.ravel(),
            x.unflatten(1, (2, -1)), x.unflatten(-1, (5, 1)), x.contiguous(), x.unsqueeze(0), x.unsqueeze(-1),
            x.unsqueeze(1).squeeze(1), x[:1].squeeze(), x[:1, :, :1].squeeze((0, -1)), x.squeeze(1), x.sum().view(1),
            x[:1].expand(3, -1, -1), x.expand(2, 4, 6, 5), x[0, 0].expand_as(x), x.sum().expand(2, 3),
            torch.broadcast_to(x[:, :1], (4, 6, 5)),
        ],
        X,
    )  # fmt: skip


def test_orders_of_axes(check):
    check(
        lambda x: [
            x.permute(2, 0, 1), x.permute(-1, 0, 1), x.transpose(0, 2), x.transpose(-1, -2), x[0].t(), x[0].T, x.mT,
            x.swapaxes(0, 1), x.movedim(0, -1), torch.movedim(x, (0, 1), (2, 0)), x.flip(0), x.flip(-1, 0),
            x.roll(2, 1), x.roll((1, -2), (0, 2)), x.roll(3), torch.rot90(x), torch.rot90(x, -1, (1, 2)),
            torch.rot90(x, 2), x.sum().flip(()), x.sum().movedim(0, -1), x.view(-1).t(), torch.fliplr(x), x.adjoint(),
        ],
        X,
    )  # fmt: skip


def test_views_of_symbolic_size(check):
    check(
        lambda x: [
            x.view(x.shape[0], -1), x.flatten(), x.reshape(-1, 5), x.unflatten(1, (2, 3)), x.permute(1, 0, 2),
            x[:1].expand(x.shape[0], -1, -1), x.flip(0), x.unsqueeze(1), x.repeat(2, 1, 1), x.view(x.shape[0] * 2, 15),
            x.roll(1, 0), x.mean(0).expand_as(x),
        ],
        X,
        dynamic_shapes=[{0: BATCH}],
        others=(normal(7, 6, 5),),
    )  # fmt: skip


def test_slices(check):
    check(
        lambda x: [
            x[1:3], x[-2:], x[:-1], x[::2], x[1:6:3], x[10:], x[-10:2], x[3:1], x[:, 1:-1, 2:4], x[..., -1], x[0],
            x[-1, -2], x.select(1, 3), x.narrow(1, 2, 3), x.narrow(0, -3, 2), x[:, None, 1], x[1:100], x[-100:],
        ],
        X,
    )  # fmt: skip


def test_slices_of_symbolic_size(check):
    check(
        lambda x: [
            x[1:], x[:-1], x[-2:], x[-1], x[0], x[1:-1], x[: x.shape[0] - 1], x[-(x.shape[0] - 1) :], x[1::2],
            x[x.shape[0] - 1], x.narrow(0, 1, x.shape[0] - 2), x[:2],
        ],
        normal(6, 3),
        dynamic_shapes=[{0: torch.export.Dim("batch", min=5, max=50)}],
        others=(normal(9, 3),),
    )  # fmt: skip


def test_pieces(check):
    check(
        lambda x: [
            x.split(4, 1), x.split([1, 3, 2], 1), x.split(2), x.chunk(2), x.chunk(4, 1), x.chunk(3, -1), x.unbind(),
            x.unbind(-1), x.tensor_split(4, 1), x.tensor_split((1, 4), 1), x.hsplit(2), x.unsafe_chunk(2),
            x.dsplit([2]),
        ],
        X,
    )  # fmt: skip


def test_pieces_of_symbolic_size(check):
    check(
        lambda x: [x.chunk(2, -1), x.split([2, 4], 1), x.unbind(1), x.split(x.shape[0] - 1)],
        normal(5, 6),
        dynamic_shapes=[{0: BATCH}],
        others=(normal(8, 6),),
    )


def test_windows_and_diagonals(check):
    check(
        lambda x: [
            x.unfold(1, 3, 2), x.unfold(0, 2, 1), x.unfold(-1, 5, 1), x.diagonal(), x.diagonal(1, 1, 2),
            x.diagonal(-2), x.diagonal(-1, 2, 0), x.diagonal(9), x[0].diagonal(3), x[0].trace(), torch.diag(x[0, 0]),
            x[0].diag(-1), torch.diag_embed(x[0], 1), x[:, 0].T.diagonal(2), x[0, :2].diagonal(-1),
        ],
        X,
    )  # fmt: skip


def test_joins(check):
    empty = torch.zeros(0, dtype=torch.float64)
    check(
        lambda x, y, n: [
            torch.cat([x, y], 0), torch.cat([x, y, x], -2), torch.cat([x, n], 1), torch.cat([x, empty]),
            torch.cat([x]), torch.stack([x, y]), torch.stack([x, y], -1), torch.hstack([x, y]), torch.vstack([x, y]),
            torch.dstack([x, y]), torch.stack([x.sum(), y.sum()]), torch.column_stack([x[0, 0], y[0, 0]]),
            torch.block_diag(x[0], y[0]),
        ],
        X, normal(4, 6, 5), torch.arange(120).view(4, 6, 5),
    )  # fmt: skip


def test_repetitions(check):
    check(
        lambda x: [
            x.repeat(1, 2, 3), x.repeat(2, 1, 1, 1), x.tile(2), x.tile(2, 1, 1, 2), x.repeat_interleave(2, 1),
            x.repeat_interleave(3), x.repeat_interleave(2, dim=-1), x.repeat(0, 1, 1),
        ],
        X,
    )  # fmt: skip


def test_grids(check):
    a, b, c = normal(3), normal(4), normal(2)
    check(
        lambda a, b, c: [
            torch.meshgrid(a, b, c, indexing="ij"), torch.meshgrid(a, b, c, indexing="xy"),
            torch.meshgrid(a, indexing="xy"), torch.cartesian_prod(a, b), torch.broadcast_tensors(a[:, None], b),
        ],
        a, b, c,
    )  # fmt: skip


def test_padding(check):
    check(
        lambda x: [
            F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=2.5), F.pad(x, (-1, 2)), F.pad(x, (0, 0, -2, -1, 1, 0)),
            F.pad(x, (1, 2), mode="reflect"), F.pad(x, (2, 1), mode="replicate"), F.pad(x, (2, 1), mode="circular"),
            F.pad(x[None], (1, 2, 3, 0), mode="reflect"), F.pad(x[None], (1, 2, 3, 0), mode="replicate"),
            F.pad(x[None], (1, 2, 3, 0), mode="circular"), F.pad(x[None, None], (1, 1, 2, 1, 0, 1), mode="replicate"),
        ],
        X,
    )  # fmt: skip


def test_joins_and_padding_of_symbolic_size(check):
    check(
        lambda x: [
            torch.cat([x, x[1:]]), torch.stack([x, x], 1), F.pad(x, (1, 1, 0, 2)), x.repeat_interleave(2, 0),
            F.pad(x, (0, 0, 0, 8 - x.shape[0] % 8)), torch.meshgrid(x[:, 0], x[0], indexing="ij")[0],
        ],
        normal(4, 6),
        dynamic_shapes=[{0: BATCH}],
        others=(normal(9, 6),),
    )  # fmt: skip


def test_creation(check):
    def created(x):
        return [
            torch.zeros(2, 3), torch.ones(2, dtype=torch.int32), torch.full((2, 2), 7), torch.full((2,), 0.5),
            torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64), torch.full_like(x, 3), x.new_zeros(2),
            x.new_ones((2, 3)), x.new_full((3,), -1.5), x.new_tensor([1.0, 2.0]), torch.tensor([[1, 2], [3, 4]]),
            torch.arange(5), torch.arange(2, 11, 3), torch.arange(1.0, 2.0, 0.25), torch.arange(5, 0, -2),
            torch.arange(3, dtype=torch.float64), torch.linspace(0, 1, 7, dtype=torch.float64),
            torch.linspace(2, -3, 4), torch.eye(3), torch.eye(2, 4, dtype=torch.float64), torch.scalar_tensor(2.5),
            torch.tril_indices(3, 4, -1), torch.triu_indices(4, 3, 1), torch.empty(3).fill_(2),
            torch.empty_like(x).zero_(), torch.full((), 2.0), torch.full((2, 2), True), torch.zeros(0, 3),
            torch.logspace(0, 2, 3), torch.hann_window(4, dtype=x.dtype),
        ]  # fmt: skip

    check(created, X, tolerance=1e-6)


def test_creation_of_symbolic_size(check):
    def created(x):
        size = x.shape[0]
        return [
            torch.zeros(size, 2), torch.ones(2, size + 1), torch.full((size,), 2), torch.full((2,), size),
            torch.arange(size), torch.arange(1, size), torch.arange(0, size * 2, 2), torch.zeros_like(x),
            torch.eye(size), torch.ones(size, size).tril(), torch.arange(size)[None, :] <= torch.arange(size)[:, None],
            x.new_zeros(size),
        ]  # fmt: skip

    check(created, normal(4, 6), dynamic_shapes=[{0: BATCH}], others=(normal(9, 6),))


def test_triangles(check):
    check(lambda x: [x.tril(), x.triu(), x.tril(-1), x.triu(2), x[0].tril(1)], X)


def test_parts_written(check):
    def written(x, y):
        a = x.clone()
        a[1:3] = 0
        a[:, 2] += 1
        a[0, ::2] = y[0, ::2]
        a[-1] = y[0]
        a[..., 1].mul_(3)
        b = torch.zeros_like(x)
        b[:, :-1] = x[:, 1:]
        b.transpose(0, 1)[0] = 5
        c = x.clone()
        c.diagonal(1, 2, 0).zero_()
        d = torch.zeros_like(x[0])
        d.diagonal(-2).add_(y[0, 0, :4])
        return (
            a,
            b,
            c,
            d,
            x.slice_scatter(y[:, :2], 1, 1, 5, 2),
            x.select_scatter(y[0], 0, -1),
            x[:1].select_scatter(y[0], 0, 0),
        )

    check(written, X, normal(4, 6, 5))


def test_parts_of_symbolic_size_written(check):
    def written(x):
        a = x.clone()
        a[1:] = x[:-1]
        a[-1] = 0
        a[:, 0] = x[:, 1] * 2
        return a

    check(written, normal(4, 6), dynamic_shapes=[{0: BATCH}], others=(normal(7, 6),))


def test_copies_and_conversions(check):
    def copies(x, n):
        y = torch.empty_like(x)
        y.copy_(x[0])
        return [
            x.clone(), x.float(), x.to(torch.int64), x.half().double(), n.double() * x[0, 0, 0], n.bool(),
            x.type_as(n), n.to(x), x.to("cpu"), x.to(torch.float32).to(torch.float64), y, x.bool(), n.int(),
            (x > 0).double() * x,
        ]  # fmt: skip

    check(copies, X, torch.arange(-2, 3))


def test_detached_values_get_no_gradient(check):
    program = check(lambda x: (x.detach() * x, (x * 2).detach() + x), X)
    assert any(node.op == "stop_gradient" for node in program.nodes)


def test_no_grad_region(check):
    def function(x):
        with torch.no_grad():
            y = x * 2
        return x * y

    check(function, X)


def test_assertions_are_dropped(check):
    """`torch.export` writes an assertion about dtype and device beside each conversion."""
    program = check(lambda x: x.to(torch.float64) + x.to(torch.float32).to(torch.float64), X, gradients=False)
    assert [node.op for node in program.nodes if node.op != "boundary"] == ["cast", "cast", "add", "stop_gradient"]


def test_memory_is_read_by_strides(check):
    x = torch.arange(24.0).reshape(2, 3, 4)
    check(
        lambda x: [
            x.as_strided((2, 2), (1, 2)),
            x.as_strided((3, 2), (0, 5), 4),
            x.transpose(0, 2).as_strided((4, 3), (1, 4), 2),
            (x + 1).permute(2, 0, 1).contiguous().as_strided((5,), (4,)),
        ],
        x,
    )


def test_memory_is_written_by_strides(check):
    """With torch's own gradients: a call gives its operand the cotangent where that is overwritten; in place not."""
    x, u = torch.arange(24.0).reshape(2, 3, 4), torch.randn(2, 2)
    check(lambda x, u: torch.as_strided_scatter(x * 2, u * x[0, :2, :2], (2, 2), (1, 7), 3).sin(), x, u)
    check(lambda x, u: torch.as_strided_scatter(x, u, (2, 2), (1, 7)).sin(), x, u)

    def in_place(x, u):
        y = x * 2
        y.as_strided((2, 2), (1, 7), 3).mul_(u)
        return y.sin()

    check(in_place, x, u)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.view(torch.int64), "aten.view.dtype"),
        (lambda x: x[:, :1].as_strided((2, 2), (1, 2)), "of a part of a tensor"),
    ],
)
def test_what_depends_on_memory_is_refused(unsupported, function, reason):
    assert reason in unsupported(function, X)
