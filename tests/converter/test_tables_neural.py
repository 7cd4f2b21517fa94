"""Layers of a network: convolution, normalization, attention, activation, pooling, resizing, embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from cellbridge import runtime
from cellbridge.converter.capture.export import from_torch
from cellbridge.runtime.errors import UnsupportedOperators
from tests.converter.capturing import Each, Function, assert_matches_torch

Case = tuple[str, Callable[[], nn.Module], tuple[Any, ...]]


def data(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def function(name: str, call: Callable[..., Any], *args: Any) -> Case:
    return name, lambda: Function(call), args


SEQUENCE, IMAGE, VOLUME = data(2, 4, 9), data(2, 4, 8, 7), data(2, 4, 6, 5, 4)

CONVOLUTIONS: list[Case] = [
    ("conv1d", lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), (SEQUENCE,)),
    ("conv2d", lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), bias=False), (IMAGE,)),
    ("conv3d", lambda: nn.Conv3d(4, 6, 2, dilation=2), (VOLUME,)),
    ("conv_tbc", lambda: Function(
        lambda w, b, x: torch.conv_tbc(x, w, b, 1), data(3, 4, 6), data(6)), (data(9, 2, 4),)),
    ("grouped", lambda: nn.Conv2d(4, 8, 3, groups=2), (IMAGE,)),
    ("depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1), (IMAGE,)),
    ("same", lambda: nn.Conv2d(4, 6, 3, padding="same", dilation=2), (IMAGE,)),
    ("same, even kernel", lambda: nn.Conv2d(4, 6, (2, 4), padding="same"), (IMAGE,)),
    ("same 1d", lambda: nn.Conv1d(4, 6, 4, padding="same", dilation=3), (SEQUENCE,)),
    ("valid", lambda: nn.Conv3d(4, 2, 3, padding="valid"), (VOLUME,)),
    ("without batch", lambda: nn.Conv2d(4, 6, 3), (IMAGE[0],)),
    ("without batch, same", lambda: nn.Conv1d(4, 6, 2, padding="same"), (SEQUENCE[0],)),
    ("one stride in a list", lambda: Function(
        lambda w, x: F.conv2d(x, w, stride=[2], padding=[1]), data(6, 4, 3, 3)), (IMAGE,)),
    ("reflected", lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), (IMAGE,)),
    ("transposed 1d", lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), (SEQUENCE,)),
    ("transposed 2d", lambda: nn.ConvTranspose2d(4, 6, (4, 3), stride=(2, 1), padding=1), (IMAGE,)),
    ("transposed 3d", lambda: nn.ConvTranspose3d(4, 3, 2, stride=2, bias=False), (VOLUME,)),
    ("transposed, grouped", lambda: nn.ConvTranspose2d(4, 6, 3, groups=2, dilation=2), (IMAGE,)),
    ("transposed without batch", lambda: nn.ConvTranspose2d(4, 6, 3), (IMAGE[0],)),
    ("convolution", lambda: Function(
        lambda w, x: torch.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), data(3, 4, 3, 3)
    ), (IMAGE,)),
]  # fmt: skip

NORMALIZATIONS: list[Case] = [
    ("layer norm", lambda: nn.LayerNorm(7), (IMAGE,)),
    ("layer norm, two axes", lambda: nn.LayerNorm([8, 7], eps=1e-3, bias=False), (IMAGE,)),
    ("layer norm, plain", lambda: nn.LayerNorm(7, elementwise_affine=False), (IMAGE,)),
    ("group norm", lambda: nn.GroupNorm(2, 4), (IMAGE,)),
    ("group norm, plain", lambda: nn.GroupNorm(4, 4, affine=False), (SEQUENCE,)),
    ("rms norm", lambda: nn.RMSNorm(7), (IMAGE,)),
    ("rms norm, two axes", lambda: nn.RMSNorm([8, 7], eps=1e-2), (IMAGE,)),
    ("rms norm, plain", lambda: nn.RMSNorm(7, elementwise_affine=False), (IMAGE,)),
    ("instance norm", lambda: nn.InstanceNorm2d(4, affine=True), (IMAGE,)),
    ("instance norm, plain", lambda: nn.InstanceNorm1d(4), (SEQUENCE,)),
    ("instance norm, with statistics", lambda: nn.InstanceNorm2d(4, track_running_stats=True), (IMAGE,)),
    ("instance norm, without batch", lambda: nn.InstanceNorm2d(4), (IMAGE[0],)),
    ("batch norm", lambda: nn.BatchNorm2d(4), (IMAGE,)),
    ("batch norm 1d", lambda: nn.BatchNorm1d(4, eps=1e-2, momentum=0.3), (SEQUENCE,)),
    ("batch norm 3d", lambda: nn.BatchNorm3d(4, affine=False), (VOLUME,)),
    ("batch norm of vectors", lambda: nn.BatchNorm1d(4), (data(6, 4),)),
    ("batch norm without statistics", lambda: nn.BatchNorm2d(4, track_running_stats=False), (IMAGE,)),
    ("batch norm twice", lambda: twice(nn.BatchNorm2d(4)), (IMAGE,)),
    ("weight norm", lambda: weight_norm(nn.Conv2d(4, 3, 3)), (IMAGE,)),
    ("weight norm, last axis", lambda: weight_norm(nn.Linear(7, 5), dim=1), (IMAGE,)),
    ("weight norm, inner axis", lambda: weight_norm(nn.Conv2d(4, 3, 3), dim=1), (IMAGE,)),
    ("weight norm of all", lambda: weight_norm(nn.Linear(7, 5), dim=None), (IMAGE,)),
    ("weight norm of a vector", lambda: weight_norm(nn.LayerNorm(7)), (IMAGE,)),
    ("local response norm", lambda: nn.LocalResponseNorm(3), (IMAGE,)),
    function("native layer norm", lambda x: torch.native_layer_norm(x, [7], None, None, 1e-5), IMAGE),
    function("native layer norm, alone", lambda x: torch.native_layer_norm(x, [7], None, None, 1e-5)[0], IMAGE),
    function("native group norm", lambda x: torch.native_group_norm(x, None, None, 2, 4, 56, 2, 1e-5), IMAGE),
    function("normalize", lambda x: F.normalize(x, dim=1), IMAGE),
]


def twice(module: nn.Module) -> nn.Module:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Any:
            return self.module(self.module(x) + 1)

    return Twice()


def in_place(activation: Callable[..., nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Softsign(), activation(inplace=True))


EDGES = torch.tensor([-30.0, -6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 19.0, 21.0, 30.0])
ACTIVATIONS = {
    "relu": nn.ReLU(), "relu6": nn.ReLU6(), "gelu": nn.GELU(), "gelu tanh": nn.GELU("tanh"), "silu": nn.SiLU(),
    "elu": nn.ELU(0.7), "selu": nn.SELU(), "celu": nn.CELU(1.5), "leaky relu": nn.LeakyReLU(0.2),
    "hardtanh": nn.Hardtanh(-0.5, 0.5), "hardswish": nn.Hardswish(), "hardsigmoid": nn.Hardsigmoid(),
    "softplus": nn.Softplus(2.0, 4.0), "softsign": nn.Softsign(), "mish": nn.Mish(), "rrelu": nn.RReLU(),
    "log sigmoid": nn.LogSigmoid(), "tanhshrink": nn.Tanhshrink(), "softshrink": nn.Softshrink(0.4),
    "hardshrink": nn.Hardshrink(0.4), "threshold": nn.Threshold(0.1, -2.0), "softmax": nn.Softmax(dim=-1),
    "softmin": nn.Softmin(dim=0), "log softmax": nn.LogSoftmax(dim=0), "tanh": nn.Tanh(), "sigmoid": nn.Sigmoid(),
    "relu, in place": in_place(nn.ReLU), "silu, in place": in_place(nn.SiLU),
    "rrelu, in place": in_place(nn.RReLU), "selu, in place": in_place(nn.SELU),
}  # fmt: skip

MORE_ACTIVATIONS: list[Case] = [
    ("prelu", lambda: nn.PReLU(), (IMAGE,)),
    ("prelu, channels", lambda: nn.PReLU(4, init=0.3), (IMAGE,)),
    ("glu", lambda: nn.GLU(dim=1), (IMAGE,)),
    ("glu, last", lambda: nn.GLU(), (data(3, 8),)),
    ("softmax of channels", lambda: nn.Softmax2d(), (IMAGE,)),
    function("softmax of integers", lambda x: F.softmax(x, dim=1, dtype=torch.float64), torch.arange(6).reshape(2, 3)),
    function("softmax of a scalar", lambda x: F.softmax(x, dim=0) + F.log_softmax(x, dim=0), torch.tensor(2.0)),
    function("relu of integers", lambda x: F.relu(x), torch.arange(-3, 3)),
]

POOLS: list[Case] = [
    ("max 1d", lambda: nn.MaxPool1d(3, stride=2, padding=1), (SEQUENCE,)),
    ("max 2d", lambda: nn.MaxPool2d(2), (IMAGE,)),
    ("max 2d, overlapping", lambda: nn.MaxPool2d((3, 2), stride=(2, 1), padding=1, dilation=(1, 2)), (IMAGE,)),
    ("max 2d, ceil", lambda: nn.MaxPool2d(3, stride=2, ceil_mode=True), (IMAGE,)),
    ("max 3d", lambda: nn.MaxPool3d(2, padding=1), (VOLUME,)),
    ("max without batch", lambda: nn.MaxPool2d(2), (IMAGE[0],)),
    ("max with indices", lambda: nn.MaxPool2d(2, return_indices=True), (IMAGE,)),
    ("max 1d with indices", lambda: nn.MaxPool1d(2, return_indices=True), (SEQUENCE[0],)),
    ("average 1d", lambda: nn.AvgPool1d(3, stride=2, padding=1), (SEQUENCE,)),
    ("average 2d", lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False, ceil_mode=True), (IMAGE,)),
    ("average 2d, ceil", lambda: nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True), (IMAGE,)),
    ("average 2d, divisor", lambda: nn.AvgPool2d(2, divisor_override=3), (IMAGE,)),
    ("average 3d", lambda: nn.AvgPool3d((2, 2, 1)), (VOLUME,)),
    ("average without batch", lambda: nn.AvgPool1d(2), (SEQUENCE[0],)),
    ("adaptive average 1d", lambda: nn.AdaptiveAvgPool1d(4), (SEQUENCE,)),
    ("adaptive average 2d", lambda: nn.AdaptiveAvgPool2d((3, None)), (IMAGE,)),
    ("global average", lambda: nn.AdaptiveAvgPool2d(1), (IMAGE,)),
    ("adaptive average 3d", lambda: nn.AdaptiveAvgPool3d(3), (VOLUME,)),
    ("adaptive average, without batch", lambda: nn.AdaptiveAvgPool2d(3), (IMAGE[0],)),
    ("adaptive max 1d", lambda: nn.AdaptiveMaxPool1d(4), (SEQUENCE,)),
    ("adaptive max 2d", lambda: nn.AdaptiveMaxPool2d(3, return_indices=True), (IMAGE,)),
    ("adaptive max 3d", lambda: nn.AdaptiveMaxPool3d((2, 3, 1)), (VOLUME,)),
    ("power average", lambda: nn.LPPool2d(2, 2), (IMAGE,)),
    function("area", lambda x: F.interpolate(x, size=5, mode="area"), IMAGE),
]

RESIZES: list[Case] = [
    function("nearest 1d", lambda x: F.interpolate(x, size=13), SEQUENCE),
    function("nearest 2d", lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    function("nearest 2d, fraction", lambda x: F.interpolate(x, scale_factor=(1.5, 0.7)), IMAGE),
    function("nearest 2d, a little more than twice", lambda x: F.interpolate(x, scale_factor=2.1), IMAGE),
    function("nearest 2d, a little more than once", lambda x: F.interpolate(x, scale_factor=(1.1, 2.0)), IMAGE),
    function("nearest 3d", lambda x: F.interpolate(x, size=(7, 9, 3)), VOLUME),
    function("exact nearest", lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest-exact"), IMAGE),
    function("linear", lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), SEQUENCE),
    function("bilinear", lambda x: F.interpolate(x, size=(5, 11), mode="bilinear"), IMAGE),
    function("bilinear, corners", lambda x: F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True), IMAGE),
    function("bilinear, fraction", lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"), IMAGE),
    function("bilinear, recomputed", lambda x: F.interpolate(
        x, scale_factor=1.3, mode="bilinear", recompute_scale_factor=True), IMAGE),
    function("trilinear", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), VOLUME),
    function("bicubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), IMAGE),
    function("bicubic, corners", lambda x: F.interpolate(x, size=(4, 9), mode="bicubic", align_corners=True), IMAGE),
    function("antialiased", lambda x: F.interpolate(x, size=(3, 11), mode="bilinear", antialias=True), IMAGE),
    function("antialiased, fraction", lambda x: F.interpolate(
        x, scale_factor=(0.43, 1.3), mode="bilinear", antialias=True), IMAGE),
    function("antialiased, corners", lambda x: F.interpolate(
        x, size=(1, 3), mode="bilinear", antialias=True, align_corners=True), IMAGE),
    function("antialiased, bicubic", lambda x: F.interpolate(x, size=(2, 4), mode="bicubic", antialias=True), IMAGE),
    function("antialiased, bicubic, fraction", lambda x: F.interpolate(
        x, scale_factor=(1.7, 0.6), mode="bicubic", antialias=True), IMAGE),
    function("antialiased, bicubic, corners", lambda x: F.interpolate(
        x, size=(3, 9), mode="bicubic", antialias=True, align_corners=True), IMAGE),
    function("antialiased, by the overload of two scales", lambda x: torch.ops.aten._upsample_bilinear2d_aa(
        x, (3, 5), False, 0.7, 0.8), IMAGE),
    ("upsample", lambda: nn.UpsamplingBilinear2d(scale_factor=2), (IMAGE,)),
    ("pixel shuffle", lambda: nn.PixelShuffle(2), (IMAGE,)),
    ("pixel shuffle, no batch", lambda: nn.PixelShuffle(2), (IMAGE[0],)),
    ("pixel unshuffle", lambda: nn.PixelUnshuffle(2), (data(2, 3, 4, 6),)),
    ("channel shuffle", lambda: nn.ChannelShuffle(2), (IMAGE,)),
]  # fmt: skip

TOKENS = torch.tensor([[3, 1, 0, 4], [1, 1, 2, 0]])
EMBEDDINGS: list[Case] = [
    ("embedding", lambda: nn.Embedding(5, 3), (TOKENS,)),
    ("padding", lambda: nn.Embedding(5, 3, padding_idx=1), (TOKENS,)),
    ("padding at 0", lambda: nn.Embedding(5, 3, padding_idx=0), (TOKENS,)),
    ("padding from the end", lambda: nn.Embedding(5, 3, padding_idx=-2), (TOKENS,)),
    ("one index", lambda: nn.Embedding(5, 3), (torch.tensor(2),)),
    ("bag", lambda: nn.EmbeddingBag(5, 3, mode="sum"), (TOKENS,)),
    ("mean bag", lambda: nn.EmbeddingBag(5, 3, mode="mean", padding_idx=1), (TOKENS,)),
    ("bags at offsets", lambda: nn.EmbeddingBag(5, 3, mode="mean"), (TOKENS[0], torch.tensor([0, 1, 1]))),
    ("bags at offsets, last", lambda: nn.EmbeddingBag(5, 3, mode="sum", include_last_offset=True),
     (TOKENS[0], torch.tensor([0, 3, 4]))),
    ("weighted bag", lambda: Function(
        lambda w, i, s: F.embedding_bag(i, w, per_sample_weights=s, mode="sum"), data(5, 3)), (TOKENS, data(2, 4))),
    ("bilinear layer", lambda: nn.Bilinear(3, 4, 5), (data(2, 6, 3), data(2, 6, 4))),
    ("bilinear layer, no bias", lambda: nn.Bilinear(3, 4, 5, bias=False), (data(3), data(4))),
]  # fmt: skip

Q, K, V = data(2, 4, 5, 6), data(2, 4, 7, 6), data(2, 4, 7, 3)
SHARED_K, SHARED_V = data(2, 2, 7, 6), data(2, 2, 7, 3)
ATTENDS = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(0)) > 0.4
sdpa = F.scaled_dot_product_attention
ATTENTIONS: list[Case] = [
    function("plain", sdpa, Q, K, V),
    function("causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), Q, Q, Q),
    function("causal, longer keys", lambda q, k, v: sdpa(q, k, v, is_causal=True), Q, K, V),
    function("scaled", lambda q, k, v: sdpa(q, k, v, scale=0.3), Q, K, V),
    function("bool mask", sdpa, Q, K, V, ATTENDS),
    function("row without keys", sdpa, Q, K, V, ATTENDS & (torch.arange(5) != 2)[:, None]),
    function("additive mask", sdpa, Q, K, V, data(4, 5, 7)),
    function("grouped heads", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), Q, SHARED_K, SHARED_V),
    function("grouped heads, causal", lambda q, k, v: sdpa(
        q, k, v, enable_gqa=True, is_causal=True), Q, SHARED_K, SHARED_V),
    function("three dimensions", sdpa, Q[0], K[0], V[0]),
    function("two dimensions", sdpa, Q[0, 0], K[0, 0], V[0, 0]),
    function("broadcast keys", sdpa, Q, K[:, :1], V[:, :1]),
    ("multi-head", lambda: self_attention(nn.MultiheadAttention(8, 2, batch_first=True)), (data(2, 5, 8),)),
    ("multi-head, no weights", lambda: self_attention(
        nn.MultiheadAttention(8, 2), need_weights=False), (data(5, 2, 8),)),
    ("multi-head, other widths", lambda: nn.MultiheadAttention(8, 2, kdim=6, vdim=6),
     (data(5, 2, 8), data(3, 2, 6), data(3, 2, 6))),
    ("encoder layer", lambda: nn.TransformerEncoderLayer(8, 2, 16), (data(5, 2, 8),)),
    ("decoder layer", lambda: nn.TransformerDecoderLayer(8, 2, 16, norm_first=True), (data(5, 2, 8), data(3, 2, 8))),
]  # fmt: skip


def self_attention(attention: nn.MultiheadAttention, **options: Any) -> nn.Module:
    class SelfAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: Tensor) -> Any:
            return self.attention(x, x, x, **options)

    return SelfAttention()


FAMILIES = {
    "convolution": CONVOLUTIONS,
    "normalization": NORMALIZATIONS,
    "activation": MORE_ACTIVATIONS,
    "activation at edges": [(name, lambda m=m: m, (EDGES,)) for name, m in ACTIVATIONS.items()],
    "activation of numbers": [(name, lambda m=m: m, (data(3, 5) * 3,)) for name, m in ACTIVATIONS.items()],
    "pooling": POOLS,
    "resize": RESIZES,
    "embedding": EMBEDDINGS,
    "attention": ATTENTIONS,
}


@pytest.mark.parametrize(
    "dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)], ids=["float64", "float32"]
)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.every(6)
def test_agrees_with_torch(family: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    modules = {name: make() for name, make, _ in FAMILIES[family]}
    assert len(modules) == len(FAMILIES[family]), "two cases of one name"
    assert_matches_torch(Each(modules), {name: args for name, _, args in FAMILIES[family]}, dtype=dtype)


@pytest.mark.parametrize(
    ("module", "args", "reason"),
    [
        (
            Function(lambda x: F.interpolate(x.to(torch.uint8), size=5, mode="bilinear", antialias=True).float()),
            (IMAGE,),
            "antialias=True of uint8",
        ),
    ],
)
def test_what_is_not_covered_is_refused(module: nn.Module, args: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(UnsupportedOperators, match=reason):
        from_torch(module, args)


def test_half_precision_beside_single() -> None:
    """Norms take a half-precision input with parameters and statistics in float32, and give half precision."""

    def norms(weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        x, single = x.to(torch.bfloat16), weight.float()
        zeros, ones = torch.zeros_like(single), torch.ones_like(single)
        return F.layer_norm(x.mT, (4,), single, single), F.batch_norm(x, zeros, ones, single, single, training=False)

    assert_matches_torch(Function(norms, data(4)), SEQUENCE, dtype=torch.float32, tolerance=2e-2)


class Modulated(nn.Module):
    """A convolution with a filter for each sample: the groups are the batch (StyleGAN 2, hypernetworks)."""

    def __init__(self, transposed: bool, dimensions: int, **options: Any) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.randn(1, 4, 3, *(3,) * dimensions))
        self.transposed, self.options = transposed, options

    def forward(self, x: Tensor, styles: Tensor) -> Tensor:
        batch, channels, *sizes = x.shape
        filters = self.filters * styles.view(batch, 1, channels, *(1 for _ in sizes))
        name = f"conv{'_transpose' * self.transposed}{len(sizes)}d"
        filters = filters.transpose(1, 2).flatten(0, 1) if self.transposed else filters.flatten(0, 1)
        bias = styles.repeat(1, 2)[:, :4].flatten()
        y = getattr(F, name)(x.reshape(1, -1, *sizes), filters, bias, groups=batch, **self.options)
        return y.view(batch, 4, *y.shape[2:])


MODULATED = {
    "same": Modulated(False, 2, padding="same"),
    "strided": Modulated(False, 2, stride=2, padding=1, dilation=2),
    "of sequences": Modulated(False, 1),
    "transposed": Modulated(True, 2, stride=2, padding=1, output_padding=1),
    "transposed and cropped": Modulated(True, 2, stride=(2, 1), padding=3, dilation=(1, 2)),
}


@pytest.mark.parametrize("name", MODULATED)
@pytest.mark.every(6)
def test_groups_may_be_a_symbolic_batch(name: str) -> None:
    module = MODULATED[name]
    sizes = (7, 6)[: module.filters.ndim - 3]
    args, others = ((torch.randn(n, 3, *sizes), torch.randn(n, 3)) for n in (2, 3))
    batched = ({0: "batch"}, {0: "batch"})
    assert_matches_torch(module, *args, dynamic_shapes=batched, other_args=others)
    compiled = runtime.compile(from_torch(module, args, dynamic_shapes=batched))
    actual, gradients = compiled.value_and_grad(*others)
    expected = module(*others)
    (gradient,) = torch.autograd.grad(expected.sum(), [module.filters])
    np.testing.assert_allclose(actual, expected.detach().numpy(), atol=1e-4)
    np.testing.assert_allclose(gradients.parameters["filters"], gradient.numpy(), atol=1e-3)
