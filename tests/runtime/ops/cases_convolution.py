"""Cases of convolution, its transpose and its weight gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_rng = np.random.default_rng(0)


def torch_padded(x: torch.Tensor, padding: tuple[tuple[int, int], ...]) -> torch.Tensor:
    return torch.nn.functional.pad(x, [side for pair in reversed(padding) for side in pair])


def torch_conv(*, padding: Any, stride: Any, dilation: Any, groups: int) -> Callable[..., torch.Tensor]:
    zeros = (0,) * len(stride)

    def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return torch.convolution(torch_padded(x, padding), weight, bias, stride, zeros, dilation, False, zeros, groups)

    return run


def torch_conv_transpose(
    *, padding: Any, stride: Any, dilation: Any, output_padding: Any, groups: int
) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        zeros = (0,) * len(stride)
        full = torch.convolution(x, weight, None, stride, zeros, dilation, True, zeros, groups)
        cut = tuple((-before, extra - after) for (before, after), extra in zip(padding, output_padding, strict=True))
        y = torch_padded(full, cut)
        return y if bias is None else y + bias.reshape(-1, *[1] * len(stride))

    return run


def torch_conv_weight_gradient(*, kernel_shape: Any, groups: int, **geometry: Any) -> Callable[..., torch.Tensor]:
    convolve = torch_conv(groups=groups, **geometry)

    def run(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        weight = x.new_zeros((g.shape[1], x.shape[1] // groups, *kernel_shape), requires_grad=True)
        (gradient,) = torch.autograd.grad(convolve(x, weight), weight, g, create_graph=True)
        return gradient

    return run


def _random(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape)


_PLAIN = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
_GEOMETRIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    # name: shape of x, shape of the weight, attributes
    "1d": ((2, 3, 11), (4, 3, 3), {"stride": (2,), "padding": ((1, 1),), "dilation": (1,), "groups": 1}),
    "3x3": ((1, 3, 6, 7), (4, 3, 3, 3), {**_PLAIN, "padding": ((1, 1), (1, 1))}),
    "1x1": ((2, 4, 5, 3), (6, 4, 1, 1), _PLAIN),
    "1x1-strided": ((2, 4, 5, 6), (2, 4, 1, 1), {**_PLAIN, "stride": (2, 2)}),
    "stem": ((1, 3, 14, 13), (4, 3, 7, 7), {**_PLAIN, "stride": (2, 2), "padding": ((3, 3), (3, 3))}),
    "dilated-strided-asymmetric": (
        (2, 2, 9, 12), (3, 2, 3, 2),
        {"stride": (2, 3), "padding": ((1, 2), (0, 3)), "dilation": (2, 3), "groups": 1},
    ),
    "grouped": (
        (2, 6, 5, 7), (4, 3, 3, 3),
        {"stride": (2, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 2},
    ),
    "depthwise": (
        (2, 3, 6, 6), (3, 1, 3, 3),
        {"stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 3},
    ),
    "depthwise-multiplied": (
        (1, 2, 6, 5), (6, 1, 3, 2),
        {"stride": (1, 2), "padding": ((1, 0), (2, 1)), "dilation": (1, 2), "groups": 2},
    ),
    "depthwise-cropped": (
        (2, 3, 7, 8), (3, 1, 3, 3),
        {"stride": (2, 1), "padding": ((-1, 1), (1, -2)), "dilation": (1, 2), "groups": 3},
    ),
    "depthwise-1d": ((2, 3, 9), (3, 1, 3), {"stride": (2,), "padding": ((1, 1),), "dilation": (1,), "groups": 3}),
    "3d": (
        (1, 2, 4, 5, 6), (3, 2, 2, 3, 2),
        {"stride": (1, 2, 1), "padding": ((1, 0), (1, 1), (0, 0)), "dilation": (1, 1, 2), "groups": 1},
    ),
    "many-channels": (
        (2, 18, 5, 7), (4, 18, 3, 2),
        {"stride": (2, 1), "padding": ((1, 0), (1, 2)), "dilation": (1, 2), "groups": 1},
    ),
    "many-channels-grouped": (
        (2, 32, 4, 3), (4, 16, 2, 1),
        {"stride": (1, 2), "padding": ((0, -1), (0, 0)), "dilation": (1, 1), "groups": 2},
    ),
    "cropped": (
        (1, 2, 7, 8), (3, 2, 3, 3),
        {"stride": (2, 1), "padding": ((-1, 1), (0, -2)), "dilation": (1, 1), "groups": 1},
    ),
}  # fmt: skip

_TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "1d": ((2, 3, 5), (3, 4, 3), {
        "stride": (2,), "padding": ((1, 1),), "output_padding": (1,), "dilation": (1,), "groups": 1}),
    "doubling": ((1, 4, 3, 5), (4, 2, 2, 2), {
        "stride": (2, 2), "padding": ((0, 0), (0, 0)), "output_padding": (0, 0), "dilation": (1, 1), "groups": 1}),
    "3x3": ((2, 2, 4, 3), (2, 3, 3, 3), {
        "stride": (2, 1), "padding": ((1, 1), (1, 1)), "output_padding": (1, 0), "dilation": (1, 1), "groups": 1}),
    "grouped-dilated-asymmetric": ((1, 4, 4, 3), (4, 3, 3, 2), {
        "stride": (3, 2), "padding": ((1, 2), (0, 1)), "output_padding": (2, 1), "dilation": (2, 1), "groups": 2}),
    "depthwise": ((1, 3, 4, 4), (3, 1, 3, 3), {
        "stride": (2, 2), "padding": ((1, 1), (1, 1)), "output_padding": (1, 1), "dilation": (1, 1), "groups": 3}),
    "depthwise-by-single-steps": ((2, 3, 4, 5), (3, 1, 3, 2), {
        "stride": (1, 1), "padding": ((1, 0), (2, -1)), "output_padding": (0, 0), "dilation": (1, 2), "groups": 3}),
    "depthwise-1d": ((2, 4, 5), (4, 1, 3), {
        "stride": (1,), "padding": ((0, 2),), "output_padding": (0,), "dilation": (1,), "groups": 4}),
    "3d": ((1, 2, 2, 3, 2), (2, 2, 2, 3, 2), {
        "stride": (2, 1, 2), "padding": ((0, 0), (1, 1), (0, 1)), "output_padding": (0, 0, 1), "dilation": (1, 1, 1),
        "groups": 1}),
    "output-padding-above-stride": ((1, 2, 4, 4), (2, 2, 2, 2), {
        "stride": (1, 2), "padding": ((0, 0), (0, 0)), "output_padding": (2, 1), "dilation": (3, 2), "groups": 1}),
    "many-channels": ((2, 3, 3, 4), (3, 64, 3, 2), {
        "stride": (1, 1), "padding": ((1, 2), (0, 1)), "output_padding": (0, 0), "dilation": (1, 2), "groups": 1}),
    "many-channels-1x1": ((2, 3, 3, 2), (3, 65, 1, 1), {
        "stride": (1, 1), "padding": ((0, 0), (0, 0)), "output_padding": (0, 0), "dilation": (1, 1), "groups": 1}),
    "many-channels-cut": ((1, 2, 4, 4), (2, 64, 2, 2), {
        "stride": (1, 1), "padding": ((2, 1), (0, 1)), "output_padding": (0, 0), "dilation": (1, 1), "groups": 1}),
    "padded": ((1, 2, 4, 4), (2, 2, 2, 2), {
        "stride": (2, 2), "padding": ((-1, 1), (0, -2)), "output_padding": (0, 0), "dilation": (1, 1), "groups": 1}),
}  # fmt: skip


def _conv_cases() -> list[OpCase]:
    cases = []
    for name, (x, weight, attributes) in _GEOMETRIES.items():
        operands = (_random(*x), _random(*weight))
        bias = _random(weight[0])
        cases.append(OpCase("conv", (*operands, bias), attributes, torch_conv(**attributes), name))
        geometry = {**attributes, "kernel_shape": weight[2:]}
        g = torch_conv(**attributes)(*map(torch.from_numpy, operands)).numpy()
        run = torch_conv_weight_gradient(**geometry)
        cases.append(OpCase("conv_weight_gradient", (operands[0], _random(*g.shape)), geometry, run, name))
    for name, (x, weight, attributes) in _TRANSPOSED.items():
        bias = _random(weight[1] * attributes["groups"])
        operands = (_random(*x), _random(*weight), bias)
        cases.append(OpCase("conv_transpose", operands, attributes, torch_conv_transpose(**attributes), name))
    x, weight, attributes = _GEOMETRIES["3x3"]
    cases.append(OpCase("conv", (_random(*x), _random(*weight)), attributes, torch_conv(**attributes), "no-bias"))
    x, weight, attributes = _TRANSPOSED["3x3"]
    operands = (_random(*x), _random(*weight))
    cases.append(OpCase("conv_transpose", operands, attributes, torch_conv_transpose(**attributes), "no-bias"))
    return cases


CASES = _conv_cases()
