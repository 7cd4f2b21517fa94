"""More cases of the golden kinds, with numbers and errors measured on MindSpore 2.10: run by the same runners."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import GradOperation, Parameter, Tensor, grad, nn, ops
from cellbridge.runtime.common.initializer import initializer
from tests.runtime.golden import (  # noqa: F401 - they declare the runners
    gradients,
    hooks,
    layers,
    loss_scaling,
    operators,
    precision,
    recipes,
    structure,
    training,
)
from tests.runtime.golden.cases import FILE, Case

CASES = [Case(**item) for item in json.loads((FILE.parent / "more-cases.json").read_text())["cases"]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    differences = case.differences(case.run())
    assert not differences, "\n".join(differences)


X = Tensor(np.array([[1.0, 2.0]], np.float32))


def parameter(name: str = "w") -> Parameter:
    return Parameter(Tensor([1.0, 2.0]), name=name)


class Own(nn.Cell):
    def __init__(self, returned: Any) -> None:
        super().__init__()
        self.returned = returned

    def construct(self, x: Any) -> Any:
        return x * 2

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return self.returned


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda: grad(lambda x: x, ())(X), RuntimeError, ["grad_position", "empty"]),
        (lambda: grad(lambda x: x, (0, -1)), ValueError, ["grad_position", ">= 0"]),
        (lambda: grad(lambda x: x, (0, 3))(X), RuntimeError, ["3", "exceed"]),
        (lambda: GradOperation(sens_param=True)(lambda x: (x, x))(X, X), RuntimeError, ["output"]),
        (lambda: grad(Own((Tensor([1.0]),)))(X), RuntimeError, ["shape", "(1, 2)", "(1,)"]),
        (lambda: grad(Own({"x": X}))(X), TypeError, ["dict"]),
        (lambda: nn.Conv2d(2, 3, (3, 3, 3)), TypeError, ["tuple", "2", "(3, 3, 3)"]),
        (lambda: nn.Conv2d(3, 4, 3, group=2), ValueError, ["group", "in_channels", "out_channels"]),
        (lambda: nn.Conv2d(2, 3, 3)(Tensor(np.ones((1, 3, 5, 5), np.float32))), RuntimeError, ["C_in", "2", "3"]),
        (lambda: nn.Conv2d(2, 3, 3, pad_mode="SAME"), ValueError, ["pad_mode", "SAME", "same"]),
        (lambda: nn.Dense(2, 1, weight_init=Tensor(np.ones((2, 2)))), ValueError, ["Dense", "weight_init"]),
        (lambda: nn.Dense(2, 1)(Tensor(np.ones((1, 3), np.float32))), ValueError, ["MatMul", "dimensions", "3", "2"]),
        (lambda: nn.Softmax("a"), TypeError, ["Softmax", "axis", "int", "str"]),
        (lambda: X.astype(None), TypeError, ["dtype", "None"]),
        (lambda: ops.TopK("a")(X, 1), TypeError, ["sorted", "bool", "str"]),
        (lambda: nn.LRN(depth_radius=-1), ValueError, ["depth_radius", ">= 0", "-1"]),
        (lambda: nn.Momentum([parameter()], -0.1, 0.9), ValueError, ["learning rate", ">= 0", "-0.1"]),
        (lambda: nn.Momentum([{"params": [parameter()]}, {"params": [parameter()]}], 0.1, 0.9), ValueError, ["'w'"]),
        (lambda: Parameter((1, 2)), TypeError, ["tuple", "list"]),
        (lambda: Parameter(True), ValueError, ["bool"]),
        (lambda: initializer("xavier_uniform", [2]), ValueError, ["fan_in", "fan_out"]),
        (lambda: ops.assign(parameter(), Tensor([1.0, 2.0, 3.0])), ValueError, ["value", "shape", "(3,)"]),
    ],
)
def test_error(act: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        act()
    assert [word for word in words if word not in str(raised.value)] == []
