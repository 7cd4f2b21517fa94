"""Cases of pooling, adaptive pooling included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.runtime.ops.cases import OpCase

_rng = np.random.default_rng(0)


def torch_max_pool(*, kernel: Any, padding: Any, **attributes: Any) -> Callable[[torch.Tensor], Any]:
    """What torch makes of the same padding before and after."""
    pool: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    before = tuple(before for before, _ in padding)
    return lambda x: pool(x, kernel, padding=before, **attributes, return_indices=True)


def torch_avg_pool(*, kernel: Any, padding: Any, **attributes: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """What torch makes of the same padding before and after."""
    pool: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    before = tuple(before for before, _ in padding)
    return lambda x: pool(x, kernel, padding=before, **attributes)


def torch_padded_max_pool(*, padding: Any, **attributes: Any) -> Callable[[torch.Tensor], Any]:
    """Any padding, without `ceil_mode`: torch pads first, and positions are those before."""
    pool = torch_max_pool(padding=((0, 0),) * len(padding), **attributes)

    def run(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = pool(F.pad(x, _from_last(padding), value=-torch.inf))
        plane = x.shape[2:]
        positions = F.pad(torch.arange(plane.numel()).reshape(plane), _from_last(padding))
        return values, positions.flatten()[indices]

    return run


def torch_padded_avg_pool(
    *, kernel: Any, padding: Any, count_include_pad: bool = True, **attributes: Any
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Any padding, without `ceil_mode`: the mean of what is padded, over the mean of what counts."""
    none = ((0, 0),) * len(padding)
    pool = torch_avg_pool(kernel=kernel, padding=none, **attributes)

    def run(x: torch.Tensor) -> torch.Tensor:
        inside = F.pad(torch.ones_like(x), _from_last(padding), value=float(count_include_pad))
        return pool(F.pad(x, _from_last(padding))) / pool(inside)

    return run


def _from_last(padding: Any) -> list[int]:
    return [size for pads in reversed(padding) for size in pads]


def torch_gradient(forward: Callable[[torch.Tensor], Any], size: Any) -> Callable[..., torch.Tensor]:
    """The transpose of a linear `forward`, from spatial sizes `size`, as a function that autograd can go through."""

    def run(g: torch.Tensor) -> torch.Tensor:
        x = g.new_zeros((*g.shape[:2], *size), requires_grad=True)
        (gradient,) = torch.autograd.grad(forward(x), x, g, create_graph=True)
        return gradient

    return run


def _random(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape)


def _max(name: str, shape: tuple[int, ...], **attributes: Any) -> OpCase:
    return OpCase("max_pool", (_random(*shape),), attributes, torch_max_pool(**attributes), name)


def _avg(name: str, shape: tuple[int, ...], **attributes: Any) -> list[OpCase]:
    symmetric = all(before == after for before, after in attributes["padding"])
    forward = (torch_avg_pool if symmetric else torch_padded_avg_pool)(**attributes)
    x = _random(*shape)
    g = _random(*forward(torch.from_numpy(x)).shape)
    size = shape[2:]
    return [
        OpCase("avg_pool", (x,), attributes, forward, name),
        OpCase("avg_pool_gradient", (g,), {"size": size, **attributes}, torch_gradient(forward, size), name),
    ]


def _adaptive(name: str, shape: tuple[int, ...], output_size: tuple[int, ...]) -> list[OpCase]:
    rank = len(output_size)
    average: Any = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[rank - 1]
    largest: Any = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[rank - 1]

    def forward(x: torch.Tensor) -> torch.Tensor:
        return average(x, output_size)

    x, g, size = _random(*shape), _random(*shape[:2], *output_size), shape[2:]
    attributes = {"output_size": output_size}
    return [
        OpCase("adaptive_avg_pool", (x,), attributes, forward, name),
        OpCase("adaptive_avg_pool_gradient", (g,), {"size": size}, torch_gradient(forward, size), name),
        OpCase("adaptive_max_pool", (x,), attributes, lambda x: largest(x, output_size, True), name),
    ]


def _max_pool_gradient(g: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    planes = g.new_zeros(2, 3, 20)
    return planes.scatter_add(2, indices.flatten(2), g.flatten(2)).reshape(2, 3, 4, 5)


_PAD_1 = ((1, 1), (1, 1))
_PAD_SECOND = ((0, 0), (1, 1))

CASES = [
    _max("1d", (2, 3, 9), kernel=(3,), stride=(2,), padding=((1, 1),), dilation=(1,), ceil_mode=False),
    _max("resnet", (1, 4, 9, 8), kernel=(3, 3), stride=(2, 2), padding=_PAD_1, dilation=(1, 1), ceil_mode=False),
    _max("ceil", (2, 2, 7, 8), kernel=(2, 3), stride=(2, 2), padding=_PAD_SECOND, dilation=(1, 1), ceil_mode=True),
    _max(
        "ceil-dropped",
        (1, 2, 4, 5),
        kernel=(2, 2),
        stride=(3, 4),
        padding=_PAD_1,
        dilation=(1, 1),
        ceil_mode=True,
    ),
    _max(
        "dilated",
        (1, 2, 9, 9),
        kernel=(3, 2),
        stride=(1, 2),
        padding=_PAD_1,
        dilation=(2, 3),
        ceil_mode=False,
    ),
    _max(
        "ceil-dilated",
        (1, 2, 10, 9),
        kernel=(2, 2),
        stride=(3, 3),
        padding=_PAD_SECOND,
        dilation=(4, 3),
        ceil_mode=True,
    ),
    _max(
        "3d",
        (1, 2, 4, 5, 6),
        kernel=(2, 3, 2),
        stride=(2, 1, 2),
        padding=((0, 0), (1, 1), (1, 1)),
        dilation=(1, 1, 1),
        ceil_mode=True,
    ),
    *_avg(
        "divisor-ceil",
        (1, 2, 7, 8),
        kernel=(3, 3),
        stride=(3, 2),
        padding=_PAD_1,
        ceil_mode=True,
        divisor_override=4,
    ),
    OpCase(
        "max_pool_gradient",
        (_random(2, 3, 2, 3), _rng.integers(0, 20, (2, 3, 2, 3))),
        {"size": (4, 5)},
        _max_pool_gradient,
    ),
    OpCase(
        "max_pool_gradient",
        (_random(2, 3, 2, 3), _rng.permuted(np.tile(np.arange(20), (6, 1)), axis=1)[:, :6].reshape(2, 3, 2, 3)),
        {"size": (4, 5), "disjoint": True},
        _max_pool_gradient,
        "disjoint",
    ),
    *_avg("1d", (2, 3, 9), kernel=(3,), stride=(2,), padding=((1, 1),)),
    *_avg("2d", (1, 2, 6, 8), kernel=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0))),
    *_avg("pad-counted", (1, 2, 7, 6), kernel=(3, 2), stride=(2, 1), padding=_PAD_1, count_include_pad=True),
    *_avg("pad-not-counted", (1, 2, 7, 6), kernel=(3, 2), stride=(2, 1), padding=_PAD_1, count_include_pad=False),
    *_avg("ceil-global", (1, 2, 3, 4), kernel=(7, 9), stride=(7, 9), padding=((0, 0), (0, 0)), ceil_mode=True),
    *_avg("ceil", (1, 2, 7, 8), kernel=(3, 3), stride=(3, 2), padding=_PAD_1, ceil_mode=True),
    *_avg(
        "ceil-not-counted",
        (1, 2, 7, 8),
        kernel=(3, 3),
        stride=(3, 2),
        padding=_PAD_1,
        ceil_mode=True,
        count_include_pad=False,
    ),
    *_avg("divisor", (1, 2, 6, 7), kernel=(3, 2), stride=(2, 2), padding=_PAD_1, divisor_override=5),
    *_avg("stride-above-kernel", (1, 2, 8, 9), kernel=(2, 2), stride=(3, 4), padding=_PAD_SECOND),
    *_avg("3d", (1, 2, 4, 5, 6), kernel=(2, 3, 2), stride=(2, 1, 2), padding=((0, 0), (1, 1), (1, 1)), ceil_mode=True),
    OpCase(
        "max_pool",
        (_random(1, 2, 7, 6),),
        {"kernel": (2, 4), "stride": (2, 1), "padding": ((0, 1), (1, 2)), "dilation": (1, 1)},
        torch_padded_max_pool(kernel=(2, 4), stride=(2, 1), padding=((0, 1), (1, 2)), dilation=(1, 1)),
        "more-after",
    ),
    *_avg("more-after", (1, 2, 7, 6), kernel=(2, 4), stride=(2, 1), padding=((0, 1), (1, 2))),
    *_avg("more-after-not-counted", (1, 2, 7), kernel=(4,), stride=(2,), padding=((1, 2),), count_include_pad=False),
    *_adaptive("1d", (2, 3, 10), (4,)),
    *_adaptive("global", (2, 3, 7, 5), (1, 1)),
    *_adaptive("equal-bins", (1, 2, 6, 8), (3, 2)),
    *_adaptive("overlapping-bins", (1, 2, 7, 5), (3, 4)),
    *_adaptive("more-bins-than-elements", (1, 2, 3, 4), (5, 9)),
    *_adaptive("3d", (1, 2, 4, 5, 6), (2, 3, 4)),
]
