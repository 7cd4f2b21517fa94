"""Cases of `random` in which nothing is left to chance; what the draws look like is in test_random.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

CERTAIN: list[tuple[str, dict[str, Any]]] = [
    ("bernoulli", {"probability": 1.0}),
    ("bernoulli", {"probability": 0.0}),
    ("uniform", {"low": 1.5, "high": 1.5}),
    ("normal", {"mean": -0.5, "deviation": 0.0}),
    ("integers", {"low": 7, "high": 8}),
    ("cauchy", {"median": 2.5, "scale": 0.0}),
    ("log_normal", {"mean": 0.5, "deviation": 0.0}),
    ("geometric", {"probability": 1.0}),
    ("exponential", {"rate": 1e300}),  # 0, but for the smallest number: draws are never 0
]

INT64 = np.dtype(np.int64)
NO_KERNEL = "ONNX Runtime has no kernel from opset 22 on; test_random.py runs it in opset 20"

CASES = [
    OpCase(
        op,
        (),
        {"shape": (3, 4), "dtype": np.dtype(np.float32), **attributes},
        name=" ".join(f"{key} {value}" for key, value in attributes.items()),
        differentiable=False,
        skip_onnx="" if op == "bernoulli" else NO_KERNEL,
    )
    for op, attributes in CERTAIN
] + [
    OpCase(
        "bernoulli_each",
        (np.array([[0.0, 1.0], [1.0, 0.0]]),),
        torch=torch.bernoulli,
        differentiable=False,
        skip_onnx=NO_KERNEL,
    ),
    OpCase(
        "normal_each",
        (np.array([[0.5, -1.0], [2.0, 3.0]]), np.zeros((2, 2))),
        torch=torch.normal,
        differentiable=False,
        skip_onnx=NO_KERNEL,
    ),
    OpCase("poisson", (np.zeros((2, 3)),), torch=torch.poisson, differentiable=False, skip_onnx="no ONNX form"),
    OpCase(
        "binomial",
        (np.array([4.0, 7.0]), np.array([1.0, 0.0])),
        torch=torch.binomial,
        differentiable=False,
        skip_onnx="no ONNX form",
    ),
    OpCase(
        "multinomial",
        (np.array([[0.0, 1.0], [1.0, 0.0]]),),
        {"count": 1, "replacement": False},
        lambda w: torch.multinomial(w, 1),
        differentiable=False,
        skip_onnx=NO_KERNEL,
    ),
    OpCase("random_permutation", (), {"size": 1, "dtype": INT64}, differentiable=False, skip_onnx=NO_KERNEL),
]
