"""Layers on inputs whose sizes vary: captured on one size, run on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from cellbridge import runtime
from cellbridge.converter import from_torch
from cellbridge.runtime.errors import UnsupportedOperators
from tests.converter.capturing import assert_matches_torch
from tests.converter.test_tables_neural import data, sdpa

BATCH = torch.export.Dim("batch", min=2, max=64)
HEIGHT, WIDTH = torch.export.Dim("height", min=8, max=256), torch.export.Dim("width", min=8, max=256)
LENGTH = torch.export.Dim("length", min=2, max=256)
ANY_IMAGE = {0: BATCH, 2: HEIGHT, 3: WIDTH}
HALF_HEIGHT, HALF_WIDTH = torch.export.Dim("rows", min=4, max=128), torch.export.Dim("columns", min=4, max=128)
EVEN_IMAGE = {0: BATCH, 2: 2 * HALF_HEIGHT, 3: 2 * HALF_WIDTH}


class OfX(nn.Module):
    """A function of one tensor, and a layer."""

    def __init__(self, function: Callable[..., Any], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.function = function
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        return self.function(x) if self.layer is None else self.function(x, self.layer)


def apply(x: Tensor, layer: nn.Module) -> Any:
    return layer(x)


ON_IMAGES: dict[str, nn.Module] = {
    "convolution": OfX(apply, nn.Conv2d(4, 6, 3, padding=1)),
    "strided convolution": OfX(apply, nn.Conv2d(4, 6, 3, stride=2)),
    "same convolution": OfX(apply, nn.Conv2d(4, 6, 4, padding="same")),
    "transposed convolution": OfX(apply, nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1)),
    "batch norm": OfX(apply, nn.BatchNorm2d(4)),
    "group norm": OfX(apply, nn.GroupNorm(2, 4)),
    "instance norm": OfX(apply, nn.InstanceNorm2d(4)),
    "max pool": OfX(lambda x: F.max_pool2d(x, 2)),
    "average pool": OfX(lambda x: F.avg_pool2d(x, 3, stride=2, padding=1)),
    "global pool": OfX(lambda x: F.adaptive_avg_pool2d(x, 1)),
    "nearest, twice as large": OfX(lambda x: F.interpolate(x, scale_factor=2)),
    "bilinear, twice as large": OfX(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "nearest, half as large": OfX(lambda x: F.interpolate(x, scale_factor=0.5)),
    "bilinear, one and a half times as large": OfX(lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear")),
    "bilinear to a fixed size": OfX(lambda x: F.interpolate(x, size=(9, 11), mode="bilinear")),
    "antialiased to a fixed size": OfX(lambda x: F.interpolate(x, size=(3, 11), mode="bicubic", antialias=True)),
    "antialiased, half as large": OfX(lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)),
    "antialiased, corners": OfX(
        lambda x: F.interpolate(x, size=(1, 3), mode="bilinear", antialias=True, align_corners=True)
    ),
    "bilinear to the size of another": OfX(
        lambda x: F.interpolate(F.max_pool2d(x, 2), size=x.shape[2:], mode="bilinear", align_corners=True)
    ),
    "pixel shuffle": OfX(lambda x: F.pixel_shuffle(x, 2)),
    "channel shuffle": OfX(lambda x: F.channel_shuffle(x, 2)),
    "softmax": OfX(lambda x: F.softmax(x, dim=-1)),
    "glu": OfX(lambda x: F.glu(x, dim=1)),
    "dropout": OfX(lambda x: F.dropout(F.dropout2d(x, 0.3), 0.3)),
}


@pytest.mark.parametrize("name", ON_IMAGES)
@pytest.mark.every(9)
def test_images_of_other_sizes(name: str) -> None:
    torch.manual_seed(0)
    others = (data(3, 4, 9, 17),)
    assert_matches_torch(ON_IMAGES[name], data(2, 4, 10, 12), dynamic_shapes=(ANY_IMAGE,), other_args=others)


def test_a_scale_that_is_no_small_fraction_is_refused() -> None:
    scaled = OfX(lambda x: F.interpolate(x, scale_factor=1.3))
    with pytest.raises(UnsupportedOperators, match=r"upsample_nearest2d.*1\.3.* by a fraction such as 1\.5"):
        from_torch(scaled, (data(2, 3, 8, 9),), dynamic_shapes=({2: HEIGHT},))


def test_pixel_unshuffle_of_other_sizes() -> None:
    module = OfX(lambda x: F.pixel_unshuffle(x, 2))
    assert_matches_torch(module, data(2, 4, 10, 12), dynamic_shapes=(EVEN_IMAGE,), other_args=(data(3, 4, 8, 18),))


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


ON_SEQUENCES: dict[str, nn.Module] = {
    "layer norm": OfX(apply, nn.LayerNorm(8)),
    "rms norm": OfX(apply, nn.RMSNorm(8)),
    "attention": OfX(lambda x: sdpa(x, x, x)),
    "causal attention": OfX(lambda x: sdpa(heads(x, 2), heads(x, 2), heads(x, 2), is_causal=True)),
    "grouped heads": OfX(lambda x: sdpa(heads(x, 4), heads(x[..., :4], 2), heads(x[..., 4:], 2), enable_gqa=True)),
    "attention with dropout": OfX(lambda x: sdpa(x, x, x, dropout_p=0.3)),
    "encoder layer": OfX(apply, nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
}


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", ON_SEQUENCES)
@pytest.mark.every(18)
def test_sequences_of_other_lengths(name: str, train: bool) -> None:
    torch.manual_seed(0)
    shapes = ({0: BATCH, 1: LENGTH},)
    assert_matches_torch(
        ON_SEQUENCES[name], data(2, 5, 8), train=train, dynamic_shapes=shapes, other_args=(data(3, 7, 8),)
    )


def test_more_tokens() -> None:
    tokens = torch.tensor([[3, 1, 0], [1, 1, 2]])
    module = OfX(apply, nn.Embedding(5, 3, padding_idx=1))
    assert_matches_torch(module, tokens, dynamic_shapes=({0: BATCH, 1: LENGTH},), other_args=(tokens.repeat(2, 3),))


def filled(x: Tensor) -> Tensor:
    """A module that changes diagonals in place: `x` is (batch, width)."""
    y = x @ x.mT
    y.fill_diagonal_(-1e4)
    z = x @ x.mT
    z.diagonal(1).add_(3.0)
    return y.softmax(-1) + z


OF_BATCHES: dict[str, nn.Module] = {
    "diagonals": OfX(lambda x: ((x @ x.mT).diag(), (x @ x.mT).diagonal(1), (x @ x.mT).diagonal(-1), x.T.diagonal(2))),
    "trace": OfX(lambda x: (x @ x.mT).trace() + torch.einsum("ii->", x @ x.mT)),
    "written diagonals": OfX(filled),
    "scattered diagonal": OfX(lambda x: torch.diagonal_scatter(x @ x.mT, x[1:, 0], -1)),
    "diagonals of booleans": OfX(lambda x: ((x @ x.mT) > 0).diagonal()),
    "twice the batch in two": OfX(lambda x: torch.cat([x, x * x]).chunk(2)[1]),
    "twice the batch by its size": OfX(lambda x: torch.cat([x, x * x]).split(split_size=x.shape[0])[1]),
    "thrice the batch in three": OfX(lambda x: torch.stack(torch.chunk(torch.cat([x, x * x, x.exp()]), 3, dim=0))),
}


@pytest.mark.parametrize("name", OF_BATCHES)
@pytest.mark.every(6)
def test_batches_of_other_sizes(name: str) -> None:
    some = torch.export.Dim("some", min=4, max=64)
    x, larger = data(5, 6), data(9, 6)
    program = assert_matches_torch(OF_BATCHES[name], x, dynamic_shapes=({0: some},), other_args=(larger,))
    compiled = runtime.compile(program)
    leaves = (pytree.tree_leaves(run(larger.double())) for run in (compiled, program))
    for actual, expected in zip(*leaves, strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-9)
