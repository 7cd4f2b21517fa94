"""Cases of `activation`, `self_gated` and `rectifier`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.cases_elementwise import WHOLE, between, normal

NUMBERS = normal(3, 4) * 2.0
# Here some are not smooth: their gradients are judged in test_activation.py, by torch alone.
CORNERS = np.array([-4.0, -3.0, -1.0, 0.0, 1.0, 3.0, 4.0])
WIDE = np.array([-200.0, -50.0, -20.0, -5.0, 5.0, 19.0, 21.0, 50.0, 200.0])

FUNCTIONS: dict[str, Any] = {
    "relu": F.relu, "silu": F.silu, "log_sigmoid": F.logsigmoid, "mish": F.mish, "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "selu": F.selu, "gelu": F.gelu, "leaky_relu": F.leaky_relu, "elu": F.elu,
    "softplus": F.softplus,
}  # fmt: skip
WITH_ATTRIBUTES: list[tuple[str, Any, dict[str, Any]]] = [
    ("leaky_relu", F.leaky_relu, {"negative_slope": 0.3}),
    ("leaky_relu", F.leaky_relu, {"negative_slope": 2.0}),
    ("leaky_relu", F.leaky_relu, {"negative_slope": -0.5}),
    ("elu", F.elu, {"alpha": 0.7}),
    ("elu", torch.ops.aten.elu.default, {"alpha": 0.7, "scale": 1.3, "input_scale": 0.6}),
    ("softplus", F.softplus, {"beta": 2.5, "threshold": 1.5}),
    ("softplus", F.softplus, {"beta": 0.5}),
    ("gelu", F.gelu, {"approximate": "tanh"}),
]


def named(attributes: dict[str, Any]) -> str:
    return " ".join(f"{key} {value}" for key, value in attributes.items())


def softmax_cases() -> list[OpCase]:
    cases = []
    masked = normal(3, 5)
    masked[0, :2] = -np.inf
    for op, judge in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        for axis in (0, 1, -1):
            cases.append(
                OpCase(op, (normal(3, 4, 5),), {"axis": axis}, functools.partial(judge, dim=axis), f"axis {axis}")
            )
        last = functools.partial(judge, dim=-1)
        cases.append(OpCase(op, (normal(2, 6) * 500.0,), {"axis": -1}, last, "large"))
        cases.append(OpCase(op, (np.array(0.5),), {"axis": -1}, last, "scalar"))
        cases.append(OpCase(op, (masked,), {"axis": -1}, last, "masked", differentiable=op == "softmax"))
        cases.append(OpCase(op, (normal(4, 0),), {"axis": 0}, functools.partial(judge, dim=0), "empty"))
    return cases


CASES = [
    *(OpCase(op, (NUMBERS,), torch=judge) for op, judge in FUNCTIONS.items()),
    *(OpCase(op, (CORNERS,), torch=judge, name="corners", differentiable=False) for op, judge in FUNCTIONS.items()),
    *(OpCase(op, (WIDE,), torch=judge, name="wide") for op, judge in FUNCTIONS.items()),
    *(OpCase(op, (np.array(-0.4),), torch=judge, name="scalar") for op, judge in FUNCTIONS.items()),
    *(
        OpCase(op, (NUMBERS,), attributes, functools.partial(judge, **attributes), named(attributes))
        for op, judge, attributes in WITH_ATTRIBUTES
    ),
    OpCase("relu", (WHOLE,), torch=F.relu, name="int64", differentiable=False),
    OpCase("prelu", (normal(2, 3, 4), between(0.1, 0.5, 3)), torch=F.prelu, name="channels"),
    OpCase("prelu", (normal(2, 3, 3), between(0.1, 0.5, 1)), torch=F.prelu, name="one slope"),
    OpCase("prelu", (normal(6), between(0.1, 0.5, 1)), torch=F.prelu, name="vector"),
    OpCase("prelu", (CORNERS, np.array([0.25])), torch=F.prelu, name="corners", differentiable=False),
    OpCase("hardtanh", (NUMBERS,), {"minimum": -0.5, "maximum": 0.75}, lambda x: F.hardtanh(x, -0.5, 0.75)),
    OpCase(
        "hardtanh",
        (np.array([-1.0, 0.0, 2.0, 3.0]),),
        {"minimum": -1.0, "maximum": 2.0},
        lambda x: F.hardtanh(x, -1.0, 2.0),
        "bounds",
    ),
    OpCase("hardtanh", (WHOLE,), {"minimum": -1, "maximum": 2}, lambda x: F.hardtanh(x, -1, 2), "int64", False),
    OpCase("mish_with_gate", (NUMBERS,), torch=lambda x: (F.mish(x), F.softplus(x).tanh())),
    OpCase("mish_with_gate", (WIDE,), torch=lambda x: (F.mish(x), F.softplus(x).tanh()), name="wide"),
    *softmax_cases(),
]
