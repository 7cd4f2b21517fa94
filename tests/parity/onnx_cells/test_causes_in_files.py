"""Causes of faults in ONNX files that write a Cell otherwise than torch: named as they are between two files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
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
