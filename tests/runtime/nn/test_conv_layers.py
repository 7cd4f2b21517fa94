"""Convolution layers: against torch's modules, padding modes, Parameters and their initial values, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn
from cellbridge.runtime.common.initializer import One
from tests.runtime.against_torch import assert_as_torch, assert_cell_as_module, normal

DOUBLE: dict[str, Any] = {"dtype": ms.float64}
SIZES = (7, 6, 5)


def layer(name: str) -> Any:
    return getattr(nn, name)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize(("stride", "padding", "dilation", "group"), [(1, 0, 1, 1), (2, 1, 2, 2), (3, 2, 1, 1)])
def test_with_padding_they_are_torch_s(axes: int, stride: int, padding: int, dilation: int, group: int) -> None:
    x = normal(2, 4, *SIZES[:axes])
    cell = layer(f"Conv{axes}d")(4, 6, 3, stride, "pad", padding, dilation, group, has_bias=True, **DOUBLE)
    module = getattr(torch.nn, f"Conv{axes}d")(4, 6, 3, stride, padding, dilation, group, dtype=torch.float64)
    assert_cell_as_module(cell, module, x)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize(("stride", "padding", "extra", "group"), [(1, 0, 0, 1), (2, 1, 1, 2), (3, 0, 2, 1)])
def test_transposed_ones_are_torch_s(axes: int, stride: int, padding: int, extra: int, group: int) -> None:
    x = normal(2, 4, *SIZES[:axes])
    cell = layer(f"Conv{axes}dTranspose")(
        4, 6, 3, stride, "pad", padding, output_padding=extra, group=group, has_bias=True, **DOUBLE
    )
    module = getattr(torch.nn, f"ConvTranspose{axes}d")(4, 6, 3, stride, padding, extra, group, dtype=torch.float64)
    assert_cell_as_module(cell, module, x)


@pytest.mark.parametrize("transposed", [False, True])
def test_layers_for_one_axis_have_weights_with_an_axis_of_one(transposed: bool) -> None:
    cls, module = (nn.Conv1dTranspose, torch.nn.ConvTranspose1d) if transposed else (nn.Conv1d, torch.nn.Conv1d)
    cell = cls(4, 6, 3, 2, "pad", 1, group=2, has_bias=True, **DOUBLE)
    torch_layer: Any = module(4, 6, 3, 2, 1, groups=2, dtype=torch.float64)
    assert cell.weight.shape == ((4, 3, 1, 3) if transposed else (6, 2, 1, 3))
    weight, bias = (p.detach().numpy() for p in torch_layer.parameters())
    cell.weight.set_data(Tensor(weight[:, :, None]))
    cell.bias.set_data(Tensor(bias))
    assert_as_torch(cell, torch_layer, normal(2, 4, 8))
    given = cls(4, 6, 3, weight_init=Tensor(weight), group=2, **DOUBLE)
    np.testing.assert_array_equal(given.weight.asnumpy(), weight[:, :, None])


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_and_its_transpose_are_adjoint(kernel: int, stride: int, dilation: int) -> None:
    """`Conv1dTranspose` is the gradient of `Conv1d` in an input of `stride` times as many elements."""
    forward = nn.Conv1d(1, 1, kernel, stride, "same", dilation=dilation, **DOUBLE)
    transposed = nn.Conv1dTranspose(
        1, 1, kernel, stride, "same", dilation=dilation, weight_init=forward.weight, **DOUBLE
    )
    y = Tensor(normal(1, 1, 4))
    x = Tensor(normal(1, 1, 4 * stride, seed=1))
    assert forward(x).shape == y.shape
    expected = ms.grad(lambda x: (forward(x) * y).sum())(x)
    np.testing.assert_allclose(transposed(y).asnumpy(), expected.asnumpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("pad_mode", "stride", "kernel", "dilation", "expected"),
    [
        ("valid", 1, 3, 1, [1, 3, 6, 5, 3]),
        ("valid", 3, 2, 1, [1, 1, 0, 2, 2, 0, 3, 3, 0]),
        ("valid", 2, 2, 2, [1, 0, 3, 0, 5, 0, 3]),
        ("same", 1, 4, 1, [3, 6, 6]),
        ("same", 2, 3, 1, [1, 1, 3, 2, 5, 3]),
        ("same", 2, 3, 2, [0, 3, 0, 6, 0, 5]),
        ("pad", 3, 2, 1, [1, 1, 0, 2, 2, 0, 3, 3]),
    ],
)
def test_lengths_of_transposed_convolution(
    pad_mode: str, stride: int, kernel: int, dilation: int, expected: list[float]
) -> None:
    cell = nn.Conv1dTranspose(1, 1, kernel, stride, pad_mode, dilation=dilation, weight_init=One())
    np.testing.assert_array_equal(cell(Tensor([[[1.0, 2.0, 3.0]]])).asnumpy(), [[expected]])


def test_padding_of_four_sides() -> None:
    cell = nn.Conv2d(2, 3, 3, pad_mode="pad", padding=(1, 2, 0, 3), **DOUBLE)
    weight = torch.from_numpy(cell.weight.asnumpy())
    assert_as_torch(
        cell, lambda x: torch.nn.functional.conv2d(torch.nn.functional.pad(x, (0, 3, 1, 2)), weight), normal(1, 2, 5, 6)
    )


def test_the_default_keeps_the_size_and_has_no_bias() -> None:
    cell = nn.Conv2d(2, 3, 4)
    assert cell(Tensor(np.zeros((1, 2, 12, 12), np.float32))).shape == (1, 3, 12, 12)
    assert [p.name for p in cell.get_parameters()] == ["weight"]
    assert repr(cell) == (
        "Conv2d(input_channels=2, output_channels=3, kernel_size=(4, 4), stride=(1, 1), pad_mode=same, padding=0, "
        "dilation=(1, 1), group=1, has_bias=False)"
    )


def test_weights_and_biases_start_within_a_bound() -> None:
    cell = nn.Conv2d(8, 64, 3, group=2, has_bias=True)
    bound = 1 / np.sqrt(4 * 9)
    for parameter in (cell.weight, cell.bias):
        largest = np.abs(parameter.asnumpy()).max()
        assert 0.9 * bound < largest <= bound
    np.testing.assert_array_equal(nn.Conv2d(1, 2, 1, has_bias=True, bias_init="ones").bias.asnumpy(), [1, 1])


def test_half_precision_goes_through_to_float() -> None:
    cell = nn.Conv2d(2, 3, 3, has_bias=True)
    x = Tensor(np.ones((1, 2, 4, 4), np.float32))
    with pytest.raises(TypeError, match="must have one type, but got Float16 and Float32"):
        cell(x.astype(ms.float16))
    cell.to_float(ms.float16)
    assert cell(x).dtype == ms.float16
    gradients = ms.grad(lambda x: cell(x).sum(), 0, cell.trainable_params())(x)
    assert {g.dtype for g in (gradients[0], *gradients[1])} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.Conv2d(2, 3, 3, padding=1), ValueError, "'padding' must be 0 unless 'pad_mode' is 'pad'"),
        (lambda: nn.Conv2d(2, 3, 3, pad_mode="SAME"), ValueError, "'pad_mode' must be one of .* but got 'SAME'"),
        (lambda: nn.Conv2d(2, 3, 3, pad_mode="pad", padding=(1, 1)), ValueError, "'padding' must be an int or 4 ints"),
        (lambda: nn.Conv2d(2, 3, 3, pad_mode="pad", padding=-1), ValueError, "'padding' must be int >= 0"),
        (lambda: nn.Conv2d(2, 3, 0), ValueError, "'kernel_size' must be int >= 1"),
        (lambda: nn.Conv2d(2, 3, 2.0), TypeError, "'kernel_size' must be int"),
        (lambda: nn.Conv2d(2, 3, (1, 2, 3)), TypeError, "'kernel_size' must be an int or a tuple of 2 ints"),
        (lambda: nn.Conv2d(2, 3, (3,)), TypeError, "'kernel_size' must be an int or a tuple of 2 ints"),
        (lambda: nn.Conv2d(2, 3, [3, 3]), TypeError, "'kernel_size' must be int or tuple, but got list"),
        (
            lambda: nn.Conv2d(2, 3, 3, weight_init=Tensor([1.0])),
            ValueError,
            "the tensor 'weight_init' must have the shape",
        ),
        (lambda: nn.Conv2d(2, 3, 3, bias_init=Tensor([1.0]), has_bias=True), ValueError, "the tensor 'bias_init'"),
        (lambda: nn.Conv2d(2, 3, 3, stride=0), ValueError, "'stride' must be int >= 1"),
        (lambda: nn.Conv2d(2, 3, 3, dilation=0), ValueError, "'dilation' must be int >= 1"),
        (lambda: nn.Conv2d(2, 3, 3, group=2), ValueError, "in_channels 2, out_channels 3, group 2"),
        (lambda: nn.Conv2d(0, 3, 3), ValueError, "'in_channels' must be an int > 0"),
        (lambda: nn.Conv2d(2.0, 3, 3), TypeError, "'in_channels' must be int"),
        (lambda: nn.Conv2d(2, 3, 3, has_bias=1), TypeError, "'has_bias' must be bool"),
        (lambda: nn.Conv2d(2, 3, 3, data_format="NHWC"), ValueError, "'data_format' must be one of"),
        (lambda: nn.Conv2d(2, 3, 3, weight_init=Tensor(np.zeros((3, 2, 2, 2)))), ValueError, "shape"),
        (lambda: nn.Conv1d(2, 3, (3,)), TypeError, "For 'Conv1d', 'kernel_size' must be int"),
        (lambda: nn.Conv1d(2, 3, 3, pad_mode="pad", padding=(1, 1)), TypeError, "'padding' must be int"),
        (lambda: nn.Conv2dTranspose(2, 3, 3, 2, output_padding=1), ValueError, "'output_padding' must be 0 unless"),
        (
            lambda: nn.Conv2dTranspose(2, 3, 3, 2, "pad", output_padding=2),
            ValueError,
            "must be smaller than the stride",
        ),
    ],
)
def test_arguments_are_checked(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_inputs_are_checked() -> None:
    def ones(*shape: int) -> Tensor:
        return Tensor(np.ones(shape, np.float32))

    with pytest.raises(ValueError, match=r"a window of 7 doesn't fit into 5 .*the kernel is too large"):
        nn.Conv2d(1, 1, 7, pad_mode="valid")(ones(1, 1, 5, 5))
    with pytest.raises(RuntimeError, match=r"For 'Conv2d', .*channels.*2 for each of 1 groups.*\(1, 3, 5, 5\)"):
        nn.Conv2d(2, 3, 3)(ones(1, 3, 5, 5))
    with pytest.raises(ValueError, match="must have 4 dimensions"):
        nn.Conv2d(2, 3, 3)(ones(2, 5, 5))
