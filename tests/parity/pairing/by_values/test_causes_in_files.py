"""Causes of faults in ONNX files that write a Cell otherwise than torch: named as they are between two files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from cellbridge import parity
from cellbridge.parity.results.cause import Cause

from .networks import Fault, Images, Steps, change_element, change_operand, network, own_export, set_attribute

pytestmark = pytest.mark.causes


def other_gates(data: np.ndarray) -> np.ndarray:
    """The gates of an LSTM in torch's order instead of ONNX's."""
    i, o, f, c = np.split(data, 4, axis=1)
    return np.concatenate([i, f, c, o], axis=1)


FAULTS: dict[str, tuple[type[nn.Module], Fault, str, Callable[[Cause], bool]]] = {
    "an element of a folded weight": (
        Images, change_operand("Conv", 1, 1, change_element), "second",
        lambda cause: cause.kind == "weight" and "differs in 1 element" in cause.summary,
    ),
    "pads beside a folded batch norm": (
        Images, set_attribute("Conv", 1, "pads", [0, 0, 2, 2]), "second",
        lambda cause: (cause.attribute, cause.candidate_value) == ("padding", ((0, 2), (0, 2))),
    ),
    "gates": (
        Steps, change_operand("LSTM", 0, 1, other_gates), "lstm",
        lambda cause: cause.kind in ("weight", "attribute") and "order" in cause.summary,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.every(3)
def test_one_cause_is_named_and_proved(fault: str) -> None:
    kind, plant, path, is_right = FAULTS[fault]
    module, args = network(kind)
    model: onnx.ModelProto = own_export(module, args)
    plant(model)
    report = parity.compare(module, model, args)
    assert report.failing == [path]
    (cause,) = report.cells[path].causes
    assert is_right(cause), cause
    assert cause.error < 1e-6


class Projections(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.with_bias = nn.Linear(4, 4)
        self.without = nn.Linear(4, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.without(self.with_bias(x).tanh())
        return y


@pytest.mark.parametrize(
    ("number", "path", "change", "how"),
    [
        (0, "with_bias", change_element, "with_bias.weight differs in 1 element"),
        (0, "with_bias", np.transpose, "with_bias.weight is transposed"),
        (1, "without", np.negative, "without.weight is negated"),
    ],
)
@pytest.mark.every(3)
def test_weights_that_an_exporter_transposes_and_renames(
    number: int, path: str, change: Callable[[np.ndarray], np.ndarray], how: str, tmp_path: Path
) -> None:
    """Torch's exporters write a linear layer as MatMul with a transposed weight, and Add."""
    torch.manual_seed(0)
    module, args = Projections(), (torch.randn(2, 3, 4),)
    file = str(tmp_path / "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, args, file, dynamo=False)
    model = onnx.load(file)
    product = [node for node in model.graph.node if node.op_type == "MatMul"][number]
    assert not product.input[1].startswith(path)
    (weight,) = [initializer for initializer in model.graph.initializer if initializer.name == product.input[1]]
    weight.CopyFrom(
        numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(weight).copy())), weight.name)
    )
    report = parity.compare(module, model, args)
    assert report.failing == [path]
    (cause,) = report.cells[path].causes
    assert cause.kind == "weight"
    assert cause.summary.startswith(how)
    assert cause.attribute == f"{path}.weight"
    assert cause.error < 1e-6
