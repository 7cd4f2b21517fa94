"""Cases of operators whose result has a shape that values of their operands decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((3, 4))


def attributes(operator: str, *shapes: tuple[Any, ...], **options: Any) -> dict[str, Any]:
    types = tuple((None, shape) for shape in shapes)
    return {"operator": operator, "options": tuple(sorted(options.items())), "types": types}


def columns(x: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
    assert axes.tolist() == [1]
    return x[:, int(starts) : int(ends)]


def columns_gradient(x: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, axes: torch.Tensor, g: Any) -> Any:
    result = torch.zeros_like(x)
    result[:, int(starts) : int(ends)] = g
    return result


BOUNDS = (np.array([1]), np.array([3]), np.array([1]))
CASES = [
    OpCase(
        "runtime_shaped",
        (MATRIX, np.array([2, 6])),
        attributes("Reshape", ("a", "b"), allowzero=0),
        lambda x, shape: x.reshape(shape.tolist()),
        "reshape",
    ),
    OpCase("runtime_shaped", (MATRIX, *BOUNDS), attributes("Slice", (3, "b")), columns, "slice"),
    OpCase(
        "runtime_shaped",
        (MATRIX, np.array([0])),
        attributes("ReduceSum", (4,), keepdims=0, noop_with_empty_axes=0),
        lambda x, axes: x.sum(axes.tolist()),
        "reduce_sum",
    ),
    OpCase(
        "runtime_shaped_gradient",
        (MATRIX, *BOUNDS, RNG.standard_normal((3, 2))),
        {"operator": "Slice", "options": (), "count": 4},
        columns_gradient,
        differentiable=False,
    ),
    OpCase(
        "bitcast",
        (np.array([1, -5], np.int32),),
        {"dtype": np.dtype(np.float32)},
        differentiable=False,
        skip_onnx="BitCast needs opset 26",
    ),
]
