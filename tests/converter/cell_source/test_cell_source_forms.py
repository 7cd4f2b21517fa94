"""Every op has a form, or a reason why not; what is written computes what the original does, gradients included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cellbridge.runtime as ms
from cellbridge.converter import from_torch
from cellbridge.converter.cell_source.forms import FORMS, WITHOUT_FORM
from cellbridge.runtime.ops.registry import all_ops
from tests.converter.capturing import Each, Function
from tests.converter.cell_source.writing import assert_port, network_of

Case = tuple[Callable[..., Any], tuple[Tensor, ...]]


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


X, Y, IMAGE, SIGNAL = randn(3, 4), randn(4, 3).T, randn(2, 4, 6, 5), randn(2, 4, 6)
POSITIVE, WHOLE, MASK = X.abs() + 0.5, torch.tensor([[3, 0, -2], [1, 5, 4]]), X > 0
ROWS = torch.tensor([[0, 2], [1, 1]])

ARITHMETIC: dict[str, Case] = {
    "precedence": (lambda a, b: -(a + b) * (a - (b - a)) / (a * a + 2.0) - (-a) ** 2, (X, Y)),
    "powers": (lambda a: 2.0 ** (-a) + (a**2) ** 1.5 + a**3, (POSITIVE,)),
    "whole numbers": (lambda i: (i // 2, i % 3, i * 2 - 1, i & 3, i | 4, i ^ 1, ~i, i << 1, i >> 1), (WHOLE,)),
    "comparisons": (lambda a, b: (a < b, a <= 0.5, a > b, a >= b, a == a, a != b), (X, Y)),
    "logic": (lambda m: (m & ~m, torch.logical_or(m, m), torch.logical_xor(m, m), torch.logical_not(m)), (MASK,)),
    "mathematics": (
        lambda a: torch.exp(a) + torch.log(a) - torch.sqrt(a) * torch.rsqrt(a) + torch.sin(a).tanh() + a.log1p(),
        (POSITIVE,),
    ),
    "special": (
        lambda a: torch.erf(a) + torch.expm1(a) + a.reciprocal(),
        (POSITIVE,),
    ),
    "rounding": (
        lambda a: torch.floor(a) + torch.ceil(a) * 2 + torch.round(a) * 4 + torch.trunc(a) * 8 + a.sign(),
        (X,),
    ),
    "clamps": (lambda a: a.clamp(min=-0.3) + a.clamp(-1, 0.5) + torch.maximum(a, a * a), (X,)),
    "casts": (lambda a: (a.to(torch.int32), a.to(torch.float64), a > 0), (X,)),
    "where": (lambda a, m: torch.where(m, a, 0.0) + torch.where(m, a, a * 2), (X, MASK)),
    "sums": (lambda a: (a.sum(), a.sum(1), a.mean((0, 1)), a.mean(0, keepdim=True), a.prod(1)), (X,)),
    "extremes": (lambda a: (a.amax(1), a.amin((0, 1), keepdim=True), a.argmax(1), a.argmin(), a.max(1)[0]), (X,)),
    "any and all": (lambda m: (m.any(), m.all(1), (m * 2).any(0)), (MASK,)),
    "variance": (lambda a: (a.var(1), a.std(0, unbiased=False), a.logsumexp(1)), (X,)),
    "scans": (lambda a: (a.cumsum(1), a.cumprod(0), a.cummax(1)), (X,)),
    "order": (lambda a: (a.sort(1, descending=True), a.topk(2), a.topk(1, 0, largest=False)), (X,)),
    "products": (lambda a, b: (a @ b.T, torch.bmm(a[None], b.T[None]), F.linear(a, b, a[:, 0])), (X, Y)),
}
SHAPES: dict[str, Case] = {
    "reshape": (
        lambda a: (a.reshape(2, 6), a.unsqueeze(1), a[:1].squeeze(0), a.reshape(()) if a.numel() == 1 else a),
        (X,),
    ),
    "flatten": (lambda a: (a.flatten(), a.flatten(1), a.flatten(2), a.flatten(0, 1)), (IMAGE,)),
    "transpose": (lambda a: (a.transpose(1, 3), a.permute(3, 0, 2, 1)), (IMAGE,)),
    "expand": (lambda a: (a[:, :1].expand(3, 5), a[None].expand(2, 3, 4), a.repeat(2, 1)), (X,)),
    "joins": (lambda a, b: (torch.cat([a, b], 1), torch.stack([a, b], 1), torch.cat([a])), (X, Y)),
    "slices": (lambda a: (a[1:], a[:, 1:3], a[:, ::2], a[-1], a[:, -2:], a.chunk(2, 1)), (X,)),
    "padding": (
        lambda a: (
            F.pad(a, (1, 2)),
            F.pad(a, (0, 1, 2, 0), value=1.5),
            F.pad(a, (-1, 1)),
            F.pad(a[None], (1, 1), "reflect"),
        ),
        (X,),
    ),
    "moves": (lambda a: (a.flip(1), a.roll(1, 0), a.roll((1, -1), (0, 1)), a.tril(), a.triu(1), a.gt(0).tril()), (X,)),
    "made of nothing": (
        lambda a: (
            a + torch.arange(4),
            torch.ones(2),
            torch.full((2,), 2.5),
            torch.zeros(2, dtype=torch.int64),
            torch.eye(2),
        ),
        (X,),
    ),
    "constants": (
        lambda a: (a * torch.tensor([1.0, 2.0, 3.0, 4.0]), a * torch.arange(400.0).reshape(100, 4)[:3]),
        (X,),
    ),
    "lookups": (lambda a, i: (a[i], a.index_select(1, i[0]), F.embedding(i, a)), (X, ROWS)),
    "lookups from the end": (lambda a, i: (a[i - 2], a[[0, -1]]), (X, ROWS)),
    "gather": (lambda a, i: (a.gather(1, i), a[i, i]), (X, ROWS)),
    "scatter": (
        lambda a, i: (
            a.scatter(1, i, a[:2, :2]),
            a.scatter_add(0, i, a[:2, :2]),
            a.scatter_reduce(1, i, a[:2, :2], "amax"),
            a.index_add(1, i[0], a[:, :2]),
            a.index_put((i,), a[:2, None] * a[None, :2], accumulate=True),
        ),
        (X, ROWS),
    ),
    "slices written": (
        lambda a, b: (torch.slice_scatter(a, b, 1, 1, 3), torch.slice_scatter(a, b, 1, 0, 4, 2)),
        (X, randn(3, 2)),
    ),
}
NETWORKS: dict[str, Case] = {
    "activations": (
        lambda a: (
            F.gelu(a)
            + F.leaky_relu(a)
            + F.elu(a, 0.5)
            + F.celu(a, 2.0)
            + F.softplus(a)
            + F.silu(a)
            + F.mish(a)
            + F.hardswish(a)
            + F.hardsigmoid(a)
            + F.logsigmoid(a)
            + F.selu(a)
            + F.relu6(a)
            + F.gelu(a, approximate="tanh")
        ),
        (X,),
    ),
    "softmax": (lambda a: (a.softmax(0), a.log_softmax(-1)), (X,)),
    "attention": (lambda q, m: F.scaled_dot_product_attention(q, q, q, m), (randn(2, 5, 3), randn(2, 5, 5) > -1)),
    "attention to nothing": (
        lambda q: F.scaled_dot_product_attention(q, q, q, torch.zeros(4, dtype=torch.bool)),
        (SIGNAL,),
    ),
    "causal attention": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3),
        (randn(2, 5, 3),),
    ),
    "attention with a bias": (
        lambda q, b: F.scaled_dot_product_attention(q, q, q, b.masked_fill(b > 1, float("-inf"))),
        (randn(2, 5, 3), randn(5, 5)),
    ),
    "convolutions": (
        lambda a, w: (F.conv2d(a, w, padding=1), F.conv_transpose2d(a, w.transpose(0, 1), stride=2)),
        (IMAGE, randn(3, 4, 2, 2)),
    ),
    "pools": (
        lambda a: (F.max_pool2d(a, 2), F.avg_pool2d(a, 2, padding=1), F.adaptive_avg_pool2d(a, (2, 3))),
        (IMAGE,),
    ),
    "pools along one axis": (
        lambda a: (F.max_pool1d(a, 3, 2, 1), F.avg_pool1d(a, 2), F.adaptive_max_pool1d(a, 3)),
        (SIGNAL,),
    ),
    "interpolation": (
        lambda a: (F.interpolate(a, scale_factor=2), F.interpolate(a, (9, 7), mode="bilinear", align_corners=True)),
        (IMAGE,),
    ),
    "norms": (
        lambda a: (
            F.layer_norm(a, (5,)),
            F.group_norm(a, 2),
            F.rms_norm(a, (6, 5)),
            F.instance_norm(a),
            F.batch_norm(a, None, None, training=True),
        ),
        (IMAGE,),
    ),
    "losses": (
        lambda a, t: (
            F.cross_entropy(a, t),
            F.nll_loss(a, t, ignore_index=1),
            F.mse_loss(a, a * 2),
            F.binary_cross_entropy(a.sigmoid(), a.detach().sigmoid()),
        ),
        (X, torch.tensor([0, 3, 1])),
    ),
    "a loss of sequences": (
        lambda a, t: F.ctc_loss(a.log_softmax(2), t, (4, 6), (2, 1), blank=3, reduction="none"),
        (randn(6, 2, 4), ROWS),
    ),
}


@pytest.mark.parametrize("group", [ARITHMETIC, SHAPES, NETWORKS], ids=["arithmetic", "shapes", "networks"])
@pytest.mark.every(3)
def test_forms(group: dict[str, Case]) -> None:
    """All of a group in one network, a Cell for each case."""
    names = {case: case.replace(" ", "_") for case in group}
    network = Each({name: Function(group[case][0]) for case, name in names.items()})
    inputs = {name: tuple(x.clone() for x in group[case][1]) for case, name in names.items()}
    assert_port(network, inputs)


def test_draws() -> None:
    """They are replayed from the original's, Cell by Cell."""

    def sampled(x: Tensor) -> tuple[Tensor, ...]:
        noise = torch.rand(3, 4) + torch.randn(3, 4) * 2 + torch.empty(3, 4).exponential_(0.5)
        return (
            x * noise,
            F.dropout(x, 0.25),
            torch.bernoulli(x.sigmoid().detach()) * x,
            torch.empty(3, 4).uniform_(1, 2),
        )

    network = network_of(from_torch(Function(sampled), (X,), train=True))
    network.set_train()
    outputs = network(ms.Tensor(X.numpy()))
    assert [tuple(y.shape) for y in outputs] == [(3, 4)] * 4
    assert 1 <= outputs[3].asnumpy().min() <= outputs[3].asnumpy().max() <= 2
    kept = outputs[1].asnumpy()[outputs[1].asnumpy() != 0]
    assert set(kept.round(4)) <= set((X / 0.75).numpy().round(4).ravel())


@pytest.mark.parametrize("op", sorted(all_ops()))
def test_every_op_has_a_form_or_a_reason(op: str) -> None:
    assert (op in FORMS) != (op in WITHOUT_FORM)


def test_no_form_and_no_reason_for_what_is_no_op() -> None:
    known = {*all_ops(), "dropout"}
    assert set(FORMS) | set(WITHOUT_FORM) == known
