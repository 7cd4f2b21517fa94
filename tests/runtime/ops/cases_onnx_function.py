"""Cases of operators of ONNX that are kept in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cellbridge.runtime.ir.types import Type
from cellbridge.runtime.ops import elementwise, slicing
from cellbridge.runtime.programs.subprograms import trace_subprogram
from tests.runtime.ops.cases import OpCase

RNG = np.random.default_rng(3)
MATRIX = Type(np.dtype(np.float64), (2, 3))
A, B = RNG.normal(size=(2, 2, 3))


def gated(a: Any, b: Any) -> list[Any]:
    return [a * elementwise.sigmoid(a) * b]


def tail(a: Any, b: Any) -> list[Any]:
    whole = slicing.concat(a, b, axis=1)
    return [elementwise.exp(a), slicing.slice(whole, starts=(3,), stops=(6,), steps=(1,), axes=(1,))]


CASES = [
    OpCase(
        "onnx_function",
        (A, B),
        {
            "body": trace_subprogram(gated, [MATRIX] * 2, "SwiGLU"),
            "operator": "SwiGLU",
            "version": 28,
            "slots": (True, True),
        },
        lambda a, b: torch.nn.functional.silu(a) * b,
        "one output",
    ),
    OpCase(
        "onnx_function",
        (A, B),
        # no opset has it: what it means is written
        {
            "body": trace_subprogram(tail, [MATRIX] * 2, "Tail"),
            "operator": "Tail",
            "version": 999,
            "slots": (True, False, True),
        },
        lambda a, b: (a.exp(), b.clone()),
        "two outputs",
    ),
]
