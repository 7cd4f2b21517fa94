"""Layers made of layers, bilinear ones, shuffled channels, similarity of images: against torch, Parameters, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import assert_as_torch, assert_cell_as_module, normal

F32: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}

# ---- combined ----


def test_a_convolution_with_normalization_and_activation() -> None:
    cell = nn.Conv2dBnAct(2, 4, 3, has_bias=True, has_bn=True, activation="leakyrelu", alpha=0.3)
    x = normal(3, 2, 5, 5).astype(np.float32)
    conv = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(cell.conv.weight.asnumpy()), padding=1)
    expected = torch.nn.functional.leaky_relu(
        torch.nn.functional.batch_norm(conv, torch.zeros(4), torch.ones(4), training=True), 0.3
    )
    np.testing.assert_allclose(cell.set_train()(Tensor(x)).asnumpy(), expected.numpy(), rtol=1e-3, atol=1e-3)
    assert cell.batchnorm.momentum == 0.997
    assert [p.name for p in cell.get_parameters()] == [
        "conv.weight", "conv.bias", "batchnorm.moving_mean", "batchnorm.moving_variance", "batchnorm.gamma",
        "batchnorm.beta",
    ]  # fmt: skip
    assert abs(cell.conv.weight.asnumpy().std() - 0.01) < 0.004  # N(0, 0.01)
    assert not cell.conv.bias.asnumpy().any()


def test_a_dense_layer_with_normalization_and_activation() -> None:
    x = normal(6, 3).astype(np.float32)
    for activation in ("relu", nn.ReLU(), ops.ReLU()):
        cell = nn.DenseBnAct(3, 4, has_bn=True, activation=activation).set_train()
        product = torch.from_numpy(x @ cell.dense.weight.asnumpy().T)
        expected = torch.nn.functional.batch_norm(product, torch.zeros(4), torch.ones(4), training=True).relu()
        np.testing.assert_allclose(cell(Tensor(x)).asnumpy(), expected.numpy(), rtol=1e-3, atol=1e-3)
        assert cell.batchnorm.momentum == 0.9


def test_normalization_and_activation_are_left_out_by_default() -> None:
    x = normal(2, 3).astype(np.float32)
    cell = nn.DenseBnAct(3, 4)
    np.testing.assert_allclose(cell(Tensor(x)).asnumpy(), x @ cell.dense.weight.asnumpy().T, **F32)
    assert [p.name for p in cell.get_parameters()] == ["dense.weight", "dense.bias"]
    assert [p.name for p in nn.Conv2dBnAct(2, 3, 3).get_parameters()] == ["conv.weight"]
    assert repr(nn.DenseBnAct(3, 4, activation="relu")).splitlines() == [
        "DenseBnAct(",
        "  (dense): Dense(input_channels=3, output_channels=4, has_bias=True)",
        "  (activation): ReLU()",
        ")",
    ]


# ---- bilinear, shuffled ----


@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_bidense_is_torch_s_bilinear(lead: tuple[int, ...], bias: bool) -> None:
    cell = nn.BiDense(3, 4, 2, has_bias=bias, dtype=ms.float64)
    module = torch.nn.Bilinear(3, 4, 2, bias=bias, dtype=torch.float64)
    assert_cell_as_module(cell, module, normal(*lead, 3), normal(*lead, 4, seed=1))
    assert repr(cell).startswith("BiDense(in1_channels=3, in2_channels=4, output_channels=2")


def test_initial_values_of_bidense() -> None:
    cell = nn.BiDense(16, 4, 30)
    assert 0.24 < np.abs(cell.weight.asnumpy()).max() <= 0.25
    assert 0.15 < np.abs(cell.bias.asnumpy()).max() <= 0.25
    np.testing.assert_array_equal(nn.BiDense(2, 2, 1, "ones", "zeros").weight.asnumpy(), np.ones((1, 2, 2)))


@pytest.mark.parametrize("shape", [(2, 6, 3), (1, 6, 2, 3), (2, 6, 1, 2, 2)])
def test_channel_shuffle_is_torch_s(shape: tuple[int, ...]) -> None:
    for groups in (1, 2, 3):
        assert_as_torch(nn.ChannelShuffle(groups), torch.nn.ChannelShuffle(groups), normal(*shape))
    x = Tensor(normal(*shape))
    np.testing.assert_array_equal(ops.ChannelShuffle(2)(x).asnumpy(), ops.channel_shuffle(x, 2).asnumpy())


# ---- steps of sequences ----


def test_a_layer_is_applied_to_every_step() -> None:
    dense = nn.Dense(3, 2, dtype=ms.float64)
    x = Tensor(normal(4, 5, 3))
    expected = dense(x).asnumpy()
    for axis, beside in ((1, None), (1, 0), (-2, 0), (0, None), (0, 1)):
        y = nn.TimeDistributed(dense, axis, beside)(x)
        np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-12)
    images = Tensor(normal(2, 3, 4, 5, 5))
    pooled = nn.TimeDistributed(nn.AdaptiveAvgPool2d(1), 1)(images)
    np.testing.assert_allclose(pooled.asnumpy(), images.asnumpy().mean((3, 4), keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(nn.TimeDistributed(ops.ReLU(), 1)(x).asnumpy(), np.maximum(x.asnumpy(), 0))
    assert [p.name for p in nn.TimeDistributed(nn.Dense(3, 2), 1).get_parameters()] == ["layer.weight", "layer.bias"]


def test_numbers_in_a_row() -> None:
    cases: list[tuple[tuple[Any, ...], list[float], Any]] = [
        ((1, 8, 2), [1, 3, 5, 7], ms.int32), ((3,), [0, 1, 2], ms.int32), ((0, 1, 0.5), [0, 0.5], ms.float32),
    ]  # fmt: skip
    for given, expected, dtype in cases:
        y = nn.Range(*given)()
        np.testing.assert_array_equal(y.asnumpy(), expected)
        assert y.dtype == dtype


# ---- similarity of images ----


def similarity(a: Any, b: Any, size: int, sigma: float, most: float) -> tuple[Any, Any]:
    """Wang et al. 2004, equations 13 to 16, over each channel, in torch."""
    places = torch.arange(size) - (size - 1) // 2
    line = torch.exp(-(places.float() ** 2) / (2 * sigma**2))
    window = (line[:, None] * line / line.sum() ** 2).expand(a.shape[1], 1, size, size)

    def mean(x: Any) -> Any:
        return torch.nn.functional.conv2d(x, window, groups=a.shape[1])

    c1, c2 = (0.01 * most) ** 2, (0.03 * most) ** 2
    ma, mb = mean(a), mean(b)
    va, vb, vab = mean(a * a) - ma**2, mean(b * b) - mb**2, mean(a * b) - ma * mb
    structure = (2 * vab + c2) / (va + vb + c2)
    whole = structure * (2 * ma * mb + c1) / (ma**2 + mb**2 + c1)
    return whole.mean((2, 3)), structure.mean((2, 3))


def images(size: int) -> list[Any]:
    rng = np.random.default_rng(3)
    a = rng.random((2, 3, size, size), np.float32)
    return [a, (0.7 * a + 0.3 * rng.random((2, 3, size, size), np.float32)).astype(np.float32)]


@pytest.mark.parametrize(("size", "most"), [(11, 1.0), (5, 2.0)])
def test_structural_similarity(size: int, most: float) -> None:
    cell = nn.SSIM(most, size)
    assert_as_torch(cell, lambda a, b: similarity(a, b, size, 1.5, most)[0].mean(1), *images(16), rtol=2e-4)
    assert [(p.name, p.requires_grad) for p in cell.get_parameters()] == [("conv.weight", False)]
    a = Tensor(images(16)[0])
    np.testing.assert_allclose(cell(a, a).asnumpy(), [1.0, 1.0], rtol=1e-6)


def test_a_window_of_even_size_begins_behind_the_middle() -> None:
    weight = nn.SSIM(filter_size=4).conv.weight.asnumpy()[0, 0]
    assert np.unravel_index(weight.argmax(), weight.shape) == (1, 1)
    np.testing.assert_allclose(weight.sum(), 1.0, rtol=1e-6)


def test_similarity_at_several_scales() -> None:
    factors = (0.2, 0.3, 0.5)

    def expected(a: Any, b: Any) -> Any:
        y: Any = 1.0
        for scale, factor in enumerate(factors):
            if scale:
                a, b = (torch.nn.functional.avg_pool2d(x, 2) for x in (a, b))
            whole, structure = similarity(a, b, 5, 1.5, 1.0)
            y = y * (whole if scale == 2 else structure).relu() ** factor
        return y.mean(1)

    cell = nn.MSSSIM(power_factors=factors, filter_size=5)
    assert_as_torch(cell, expected, *images(24), rtol=5e-4)
    assert [p.name for p in cell.get_parameters()] == [f"multi_convs_list.{i}.weight" for i in range(3)]
    a, b = images(24)
    bytes_ = [Tensor((x * 255).round().astype(np.uint8)) for x in (a, b)]
    in_bytes = nn.MSSSIM(255.0, factors, filter_size=5)(*bytes_)
    np.testing.assert_allclose(in_bytes.asnumpy(), cell(Tensor(a), Tensor(b)).asnumpy(), rtol=1e-2)


# ---- errors ----


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.Conv2dBnAct(2, 3, 3, has_bn=1), TypeError, ["'Conv2dBnAct'", "'has_bn'", "bool"]),
        (lambda: nn.Conv2dBnAct(2, 3, 3, pad_mode="no"), ValueError, ["'pad_mode'", "'no'"]),
        (lambda: nn.DenseBnAct(2, 3, activation=3), TypeError, ["'DenseBnAct'", "'activation'", "int"]),
        (lambda: nn.DenseBnAct(2, 3, activation="no"), KeyError, ["'DenseBnAct'", "'no'"]),
        (lambda: nn.DenseBnAct(2, 3, has_bn=True, momentum=2.0), ValueError, ["'momentum'", "[0, 1]"]),
        (lambda: nn.DenseBnAct(2, 3, after_fake=0), TypeError, ["'after_fake'", "bool"]),
        (lambda: nn.BiDense(0, 2, 3), ValueError, ["'in1_channels'", "> 0"]),
        (lambda: nn.BiDense(2, 2.0, 3), TypeError, ["'in2_channels'", "int"]),
        (lambda: nn.BiDense(2, 2, 3, ones(3, 2)), ValueError, ["(3, 2, 2)", "(3, 2)"]),
        (lambda: nn.BiDense(2, 3, 4)(ones(5, 2), ones(5, 2)), ValueError, ["'bidense'", "(5, 2)", "(4, 2, 3)"]),
        (lambda: nn.BiDense(2, 3, 4)(ones(5, 2), ones(4, 3)), ValueError, ["'bidense'", "(4, 3)"]),
        (lambda: nn.BiDense(2, 3, 4)(ones(5, 2).astype(ms.float16), ones(5, 3)), TypeError, ["Float16", "Float32"]),
        (lambda: nn.ChannelShuffle(2.0), TypeError, ["'groups'", "int"]),
        (lambda: nn.ChannelShuffle(0), ValueError, ["'groups'", "> 0"]),
        (lambda: nn.ChannelShuffle(4)(ones(1, 6, 2)), ValueError, ["4 groups", "(1, 6, 2)"]),
        (lambda: nn.ChannelShuffle(2)(ones(2, 6)), ValueError, ["3 dimensions", "(2, 6)"]),
        (lambda: nn.TimeDistributed(3, 1), TypeError, ["'layer'", "Cell", "int"]),
        (lambda: nn.TimeDistributed(nn.ReLU(), 1)(ones(2, 3)), ValueError, ["3 dimensions", "(2, 3)"]),
        (lambda: nn.TimeDistributed(nn.ReLU(), 2, 0)(ones(2, 3, 4)), ValueError, ["next to", "0 and 2"]),
        (lambda: nn.TimeDistributed(nn.Norm(0), 1, 0)(ones(2, 3, 4)), ValueError, ["axis of 6", "'reshape_with_axis'"]),
        (lambda: nn.TimeDistributed(nn.Moments(), 1)(ones(2, 3, 4)), TypeError, ["Tensor", "tuple"]),
        (lambda: nn.Range(0, 3, 0), ValueError, ["'delta'", "not be 0"]),
        (lambda: nn.Range("0"), TypeError, ["'start'", "str"]),
        (lambda: nn.SSIM(0.0), ValueError, ["'max_val'", "> 0"]),
        (lambda: nn.SSIM(k1=1), TypeError, ["'k1'", "float"]),
        (lambda: nn.SSIM()(ones(1, 1, 8, 16), ones(1, 1, 8, 16)), ValueError, ["'filter_size' 11", "(1, 1, 8, 16)"]),
        (lambda: nn.SSIM()(ones(1, 1, 16, 16), ones(1, 2, 16, 16)), ValueError, ["(1, 2, 16, 16)"]),
        (lambda: nn.MSSSIM(power_factors=0.5), TypeError, ["'power_factors'", "tuple"]),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == []
