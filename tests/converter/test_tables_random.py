"""Train mode: batch statistics, and draws that are torch's own, one for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cellbridge.runtime.ops.registry import get
from tests.converter.capturing import Each, Function, assert_matches_torch
from tests.converter.test_tables_neural import ATTENDS, IMAGE, SEQUENCE, K, Q, V, data, self_attention, twice

sdpa = F.scaled_dot_product_attention

# how many draws each makes
TRAINED: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], int]] = {
    "batch norm": (lambda: nn.BatchNorm2d(4, momentum=0.3), (IMAGE,), 0),
    "batch norm 1d": (lambda: nn.BatchNorm1d(4, eps=1e-2, affine=False), (SEQUENCE,), 0),
    "batch norm of vectors": (lambda: nn.BatchNorm1d(4), (data(6, 4),), 0),
    "batch norm without statistics": (lambda: nn.BatchNorm2d(4, track_running_stats=False), (IMAGE,), 0),
    "batch norm twice": (lambda: twice(nn.BatchNorm2d(4)), (IMAGE,), 0),
    "batch norm that stays in eval mode": (lambda: Function(frozen_batch_norm, torch.rand(4)), (IMAGE,), 0),
    "instance norm": (lambda: nn.InstanceNorm2d(4), (IMAGE,), 0),
    "instance norm with statistics": (
        lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True, momentum=0.3), (IMAGE,), 0
    ),
    "dropout": (lambda: nn.Dropout(0.3), (IMAGE,), 1),
    "dropout in place": (lambda: Function(lambda x: F.dropout(x + 1, 0.3, inplace=True)), (IMAGE,), 1),
    "dropout of a view": (lambda: Function(lambda x: F.dropout(x.transpose(0, 1), 0.4)), (IMAGE,), 1),
    "dropout 0": (lambda: nn.Dropout(0.0), (IMAGE,), 0),
    "dropout 1": (lambda: nn.Dropout(1.0), (IMAGE,), 0),
    "dropout of nothing": (lambda: Function(lambda x: F.dropout(x[:0], 0.3)), (IMAGE,), 0),
    "functional dropout in eval": (lambda: Function(lambda x: F.dropout(x, 0.3, training=False)), (IMAGE,), 0),
    "dropout 1d": (lambda: nn.Dropout1d(0.3), (SEQUENCE,), 1),
    "dropout 2d": (lambda: nn.Dropout2d(0.3), (IMAGE,), 1),
    "dropout 2d of 1": (lambda: nn.Dropout2d(1.0), (IMAGE,), 0),
    "alpha dropout": (lambda: nn.AlphaDropout(0.3), (IMAGE,), 1),
    "feature alpha dropout": (lambda: nn.FeatureAlphaDropout(0.3), (IMAGE,), 1),
    "two dropouts": (lambda: nn.Sequential(nn.Dropout(0.1), nn.Tanh(), nn.Dropout(0.7)), (SEQUENCE,), 2),
    "stochastic depth": (lambda: Function(stochastic_depth), (IMAGE,), 1),
    "bernoulli": (lambda: Function(lambda x: x * torch.bernoulli(x.detach(), 0.3)), (IMAGE,), 1),
    "bernoulli of a tensor": (lambda: Function(lambda x: x * torch.bernoulli(torch.sigmoid(x))), (IMAGE,), 1),
    "bernoulli in place": (lambda: Function(bernoulli_in_place), (IMAGE,), 1),
    "gumbel softmax": (lambda: Function(lambda x: F.gumbel_softmax(x, hard=True)), (SEQUENCE,), 1),
    "exponential": (lambda: Function(lambda x: x + torch.empty_like(x).exponential_(0.5)), (IMAGE,), 1),
    "integers": (lambda: Function(lambda x: (x[torch.randint(2, (5,))], torch.randint(-1, 3, (2,)))), (IMAGE,), 2),
    "integers like": (lambda: Function(lambda x: (torch.randint_like(x, 9), torch.randint_like(x, 2, 5))), (IMAGE,), 2),
    "uniform": (lambda: Function(lambda x: (torch.rand_like(x), torch.rand(3, dtype=x.dtype) + x.sum())), (IMAGE,), 2),
    "uniform in place": (lambda: Function(lambda x: x + torch.empty_like(x).uniform_(-2, 3)), (IMAGE,), 1),
    "normal": (lambda: Function(lambda x: (torch.randn_like(x), torch.randn(2, dtype=x.dtype) * x.sum())), (IMAGE,), 2),
    "normal in place": (lambda: Function(lambda x: x + torch.empty_like(x).normal_(1.0, 2.0)), (IMAGE,), 1),
    "normal of numbers": (lambda: Function(lambda x: torch.normal(1.0, 2.0, (3,), dtype=x.dtype)), (IMAGE,), 1),
    "attention": (lambda: attention_dropout(0.3), (Q, K, V), 1),
    "attention, causal": (lambda: attention_dropout(0.3, is_causal=True), (Q, K, V), 1),
    "attention, masked": (lambda: attention_dropout(0.3), (Q, K, V, ATTENDS), 1),
    "attention, grouped": (lambda: attention_dropout(0.3, enable_gqa=True), (Q, data(2, 2, 7, 6), data(2, 2, 7, 3)), 1),
    "attention, three dimensions": (lambda: attention_dropout(0.3), (Q[0], K[0], V[0]), 1),
    "attention, broadcast keys": (lambda: attention_dropout(0.3), (Q, K[:, :1], V[:, :1]), 1),
    "attention of 1": (lambda: attention_dropout(1.0), (Q, K, V), 0),
    "multi-head": (lambda: self_attention(nn.MultiheadAttention(8, 2, dropout=0.3)), (data(5, 2, 8),), 1),
    "multi-head, no weights": (
        lambda: self_attention(nn.MultiheadAttention(8, 2, dropout=0.3), need_weights=False), (data(5, 2, 8),), 1
    ),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2), (data(5, 2, 8),), 4),
}  # fmt: skip


def frozen_batch_norm(scale: Tensor, x: Tensor) -> Tensor:
    return F.batch_norm(x, torch.zeros_like(scale), torch.ones_like(scale), scale, training=False)


def bernoulli_in_place(x: Tensor) -> Tensor:
    kept = torch.empty_like(x)
    return x * kept.bernoulli_(torch.full_like(x[0], 0.3))


def stochastic_depth(x: Tensor) -> Tensor:
    keep = x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(0.8)
    return x + torch.tanh(x) * keep.div(0.8)


def attention_dropout(p: float, **options: Any) -> nn.Module:
    return Function(lambda *operands: sdpa(*operands, dropout_p=p, **options))


@pytest.mark.parametrize(
    "dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)], ids=["float64", "float32"]
)
def test_agrees_with_torch_in_train_mode(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    modules = {name: make() for name, (make, _, _) in TRAINED.items()}
    program = assert_matches_torch(
        Each(modules), {name: args for name, (_, args, _) in TRAINED.items()}, train=True, dtype=dtype
    )
    sampled = dict.fromkeys(TRAINED, 0)
    for node in program.nodes:
        if get(node.op).traits.draws:
            sampled[program.calls[node.cell].path.split(".")[1]] += 1
    assert sampled == {name: count for name, (_, _, count) in TRAINED.items()}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_batch_norm_updates_in_half_precision_too(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    assert_matches_torch(nn.BatchNorm2d(4), IMAGE, train=True, dtype=dtype)


def test_batch_norm_counts_a_batch_that_varies() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    module = nn.BatchNorm2d(4)
    assert_matches_torch(module, IMAGE, train=True, dynamic_shapes=({0: batch},), other_args=(data(5, 4, 8, 7),))
