"""MindSpore's own layers store some arguments in another form; the test uses fakes with the same attributes.

The forms are those of MindSpore 2.10.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.parity import explain_optimizer
from cellbridge.parity.causes.api_differences import explain
from tests.parity.causes.api_differences.difference_cases import zeros


class FakeTensor:
    def __init__(self, value: Any, name: str = "", requires_grad: bool = True) -> None:
        self.value, self.name, self.requires_grad = np.array(value, np.float32), name, requires_grad

    def asnumpy(self) -> np.ndarray[Any, Any]:
        return self.value


def layer(name: str, **attributes: Any) -> Any:
    cls = type(name, (), {"__module__": "mindspore.nn.layer", "cls_name": name})
    made = cls()
    vars(made).update(attributes)
    return made


def conv1d(**more: Any) -> Any:
    given = {
        "in_channels": 3, "out_channels": 4, "kernel_size": (1, 3), "stride": (1, 2), "padding": (0, 0, 1, 1),
        "dilation": (1, 1), "pad_mode": "pad", "group": 1, "has_bias": True,
    }  # fmt: skip
    return layer("Conv1d", **(given | more))


def max_pool(**more: Any) -> Any:
    given = {"pad_mode": "PAD", "padding": (0, 1, 1), "kernel_size": 3, "stride": 2, "return_indices": False}
    return layer("MaxPool2d", **(given | more))


def batch_norm(momentum: float) -> Any:
    kept = {"momentum": 1 - momentum, "eps": 1e-5, "use_batch_statistics": None, "num_features": 4}
    return layer("BatchNorm2d", **kept)


def momentum(**more: Any) -> Any:
    parameters = [FakeTensor([1.0], "w"), FakeTensor([1.0], "b")]
    given = {
        "parameters": parameters, "momentum": FakeTensor(0.9), "weight_decay": FakeTensor(0.08), "loss_scale": 8.0,
        "is_group": False, "use_nesterov": False, "get_lr": lambda: FakeTensor(0.1),
    }  # fmt: skip
    return layer("Momentum", **(given | more))


RIGHT: list[tuple[torch.nn.Module, Any]] = [
    (torch.nn.Conv1d(3, 4, 3, stride=2, padding=1), conv1d()),
    (torch.nn.MaxPool2d(3, 2, 1), max_pool()),
    (torch.nn.AvgPool2d(3, 2, 1), layer("AvgPool2d", pad_mode="PAD", kernel_size=3, stride=2)),  # padding isn't kept
    (torch.nn.BatchNorm2d(4), batch_norm(0.9)),
    (torch.nn.GELU(), layer("GELU", approximate="none")),
    (torch.nn.Softmax(1), layer("Softmax", softmax=SimpleNamespace(axis=(1,)))),
    (torch.nn.ELU(), layer("ELU", elu=SimpleNamespace(alpha=1.0))),
    (torch.nn.Dropout2d(0.1), layer("Dropout2d", keep_prob=0.9)),
    (torch.nn.ReflectionPad2d((1, 2, 3, 4)), layer("ReflectionPad2d", padding=[[3, 4], [1, 2]])),
    (torch.nn.RNN(3, 4), layer("RNN", hidden_size=4, num_layers=1, batch_first=False, has_bias=True)),
    (torch.nn.MSELoss(), layer("MSELoss", average=True, reduce=True)),
    (torch.nn.Linear(3, 4).half(), layer("Dense", in_channels=3, out_channels=4, has_bias=True, fp16=True)),
]

WRONG: list[tuple[torch.nn.Module, Any, str]] = [
    (
        torch.nn.Conv1d(3, 4, 3, stride=2),
        conv1d(),
        "Conv1d: padding=(0, 0, 1, 1) in the candidate, padding=0 in the reference -> (2,4,6) against "
        "(2,4,5); write padding=0",
    ),
    (
        torch.nn.MaxPool2d(3, 2),
        max_pool(),
        "MaxPool2d: padding=(0, 1, 1) in the candidate, padding=0 in the reference -> zeros (1, 1, 1, 1) "
        "against (0, 0, 0, 0); "
        "write padding=0",
    ),
    (
        torch.nn.BatchNorm2d(4),
        batch_norm(0.1),
        "BatchNorm2d: momentum=0.1 (the old statistic's weight) in the candidate, momentum=0.1 (the new "
        "one's) in the reference; "
        "write momentum=0.9",
    ),
    (
        torch.nn.GELU(),
        layer("GELU", approximate="tanh"),
        "GELU: approximate=True in the candidate, approximate='none' in the reference; write approximate=False",
    ),
    (
        torch.nn.MSELoss(),
        layer("MSELoss", average=False, reduce=True),
        "MSELoss: reduction='sum' in the candidate, reduction='mean' in the reference; write reduction=\"mean\"",
    ),
    (
        torch.nn.Linear(3, 4),
        layer("Dense", in_channels=3, out_channels=4, has_bias=True, fp16=True),
        "Dense: to_float=float16 in the candidate, dtype=float32 in the reference; write to_float(ms.float32)",
    ),
]


def inputs(module: torch.nn.Module) -> list[Any]:
    return [zeros(2, 3, 11) if isinstance(module, torch.nn.Conv1d) else zeros(2, 3, 8, 11)]


@pytest.mark.parametrize(("module", "cell"), RIGHT, ids=lambda value: type(value).__name__)
def test_nothing_is_said_of_right_layers(module: torch.nn.Module, cell: Any) -> None:
    assert explain(module, cell, inputs(module)) == []


@pytest.mark.parametrize(("module", "cell", "line"), WRONG, ids=lambda value: type(value).__name__)
def test_wrong_layers_are_explained(module: torch.nn.Module, cell: Any, line: str) -> None:
    assert explain(module, cell, inputs(module)) == [line]


def test_the_weight_decay_of_an_optimizer_is_kept_with_its_loss_scale() -> None:
    parameters = list(torch.nn.Linear(1, 1).parameters())
    reference = torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=0.01)
    assert explain_optimizer(reference, momentum(loss_scale=1.0, weight_decay=FakeTensor(0.01))) == []
    (line,) = explain_optimizer(reference, momentum())
    assert line.startswith("Momentum: loss_scale=8.0 (gradients are divided by it) in the candidate")
