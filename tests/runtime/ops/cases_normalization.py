"""Cases of the op table: normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.runtime.ops.cases import OpCase

Array = np.ndarray[Any, Any]
_random = np.random.default_rng(11)


def _normal(*shape: int, scale: float = 1.0, shift: float = 0.0) -> Array:
    return _random.standard_normal(shape) * scale + shift


def _positive(*shape: int) -> Array:
    return _random.uniform(0.5, 2.0, shape)


def _standardize(x: torch.Tensor, count: int, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    axes = tuple(range(-count, 0))
    centered = x - x.mean(axes, keepdim=True)
    r = (centered.square().mean(axes, keepdim=True) + eps).rsqrt()
    return centered * r, r


def _batch_norm(x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, *, eps: float) -> torch.Tensor:
    """`F.batch_norm` has no gradient for its statistics."""
    shape = (1, -1) + (1,) * (x.dim() - 2)
    y = (x - mean.reshape(shape)) * (variance.reshape(shape) + eps).rsqrt()
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _batch_norm_train(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> tuple[torch.Tensor, ...]:
    axes = [0, *range(2, x.dim())]
    return F.batch_norm(x, None, None, weight, bias, True, 0.0, eps), x.mean(axes), x.var(axes, correction=0)


def _layer_norm_cases() -> list[OpCase]:
    cases = []
    for name, shape, count, weighted, biased, eps in [
        ("transformer", (2, 5, 8), 1, True, True, 1e-5),
        ("no-bias", (3, 7), 1, True, False, 1e-6),
        ("plain", (3, 4), 1, False, False, 1e-5),
        ("two-axes", (2, 3, 4, 5), 2, True, True, 1e-3),
        ("all-axes", (3, 4), 2, True, True, 1e-5),
        ("one-element", (4, 1), 1, True, True, 1e-5),
        ("no-rows", (0, 6), 1, True, True, 1e-5),
    ]:
        normalized = shape[-count:]
        cases.append(
            OpCase(
                "layer_norm",
                (
                    _normal(*shape, scale=2.0, shift=0.5),
                    _normal(*normalized) if weighted else None,
                    _normal(*normalized) if biased else None,
                ),
                {"axes_count": count, "eps": eps},
                lambda x, w=None, b=None, n=normalized, eps=eps: F.layer_norm(x, n, w, b, eps),
                name,
                differentiable=name != "one-element",  # the gradient is zero, torch's a rounding error: see the tests
            )
        )
    return cases


def _with_statistics() -> list[OpCase]:
    def layer(x: Any, w: Any = None, b: Any = None) -> tuple[torch.Tensor, ...]:
        return F.layer_norm(x, x.shape[1:], w, b, 1e-3), *_standardize(x, x.dim() - 1, 1e-3)

    def group(x: Any, w: Any = None, b: Any = None) -> tuple[torch.Tensor, ...]:
        grouped = x.reshape(len(x), 2, -1)
        return F.group_norm(x, 2, w, b, 1e-3), *_standardize(grouped, 1, 1e-3)

    def rms(x: Any, w: Any = None) -> tuple[torch.Tensor, ...]:
        r = (x.square().mean(-1, keepdim=True) + 1e-3).rsqrt()
        return F.rms_norm(x, x.shape[-1:], w, 1e-3), x * r, r

    layer_attributes: dict[str, Any] = {"axes_count": 2, "eps": 1e-3}
    group_attributes: dict[str, Any] = {"groups": 2, "eps": 1e-3}
    rms_attributes: dict[str, Any] = {"axes_count": 1, "eps": 1e-3}
    images, rows = _normal(2, 4, 3, 2, shift=1.0), _normal(3, 4, 5, shift=2.0)
    of_rows, of_channels = (_normal(4, 5), _normal(4, 5)), (_normal(4), _normal(4))
    return [
        OpCase("layer_norm_with_statistics", (rows, *of_rows), layer_attributes, layer),
        OpCase("layer_norm_with_statistics", (rows, None, None), layer_attributes, layer, "plain"),
        OpCase("group_norm_with_statistics", (images, *of_channels), group_attributes, group),
        OpCase("group_norm_with_statistics", (images, None, None), group_attributes, group, "plain"),
        OpCase("rms_norm_with_statistics", (rows, _normal(5)), rms_attributes, rms),
        OpCase("rms_norm_with_statistics", (rows, None), rms_attributes, rms, "plain"),
    ]


def _group_norm_cases() -> list[OpCase]:
    cases = []
    for name, shape, groups, weighted, biased in [
        ("images", (2, 6, 3, 4), 3, True, True),
        ("instances", (2, 4, 5), 4, True, True),
        ("one-group", (3, 4, 2, 2, 2), 1, True, True),
        ("no-spatial-axes", (3, 6), 2, True, True),
        ("plain", (2, 4, 3), 2, False, False),
        ("no-bias", (2, 4, 3), 2, True, False),
    ]:
        inputs = (
            _normal(*shape, shift=1.0),
            _normal(shape[1]) if weighted else None,
            _normal(shape[1]) if biased else None,
        )
        cases.append(
            OpCase(
                "group_norm",
                inputs,
                {"groups": groups, "eps": 1e-5},
                lambda x, w=None, b=None, groups=groups: F.group_norm(x, groups, w, b, 1e-5),
                name,
            )
        )
    return cases


CASES: list[OpCase] = [
    *_layer_norm_cases(),
    *_group_norm_cases(),
    *_with_statistics(),
    OpCase(
        "standardize",
        (_normal(3, 4, 5, shift=2.0),),
        {"axes_count": 2, "eps": 1e-5},
        lambda x: _standardize(x, 2, 1e-5),
    ),
    OpCase(
        "rms_norm",
        (_normal(2, 3, 8), _normal(8)),
        {"axes_count": 1, "eps": 1e-6},
        lambda x, w: F.rms_norm(x, (8,), w, 1e-6),
    ),
    OpCase(
        "rms_norm",
        (_normal(2, 3, 4), None),
        {"axes_count": 2, "eps": 1e-5},
        lambda x, w=None: F.rms_norm(x, (3, 4), None, 1e-5),
        "plain-two-axes",
    ),
    OpCase(
        "batch_norm",
        (_normal(2, 3, 4, 5), _normal(3), _positive(3), _normal(3), _normal(3)),
        {"eps": 1e-5},
        lambda *tensors: _batch_norm(*tensors, eps=1e-5),
    ),
    OpCase(
        "batch_norm",
        (_normal(4, 3), _normal(3), _positive(3)),
        {"eps": 1e-3},
        lambda x, mean, variance, *_: _batch_norm(x, mean, variance, eps=1e-3),
        "plain-no-spatial-axes",
    ),
    OpCase(
        "batch_norm_train",
        (_normal(4, 3, 2, 5, shift=1.0), _normal(3), _normal(3)),
        {"eps": 1e-5},
        _batch_norm_train,
    ),
    OpCase(
        "batch_norm_train", (_normal(6, 3), _normal(3), _normal(3)), {"eps": 1e-5}, _batch_norm_train, "no-spatial-axes"
    ),
    OpCase("batch_norm_train", (_normal(2, 3, 4), None, None), {"eps": 1e-5}, _batch_norm_train, "plain"),
]
