"""Faults planted in ONNX files are found, in the Cell that has them."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from torch import nn

from cellbridge import parity

from .networks import (
    Fault,
    Images,
    Layers,
    Steps,
    Words,
    change_bound,
    change_element,
    change_operand,
    network,
    own_export_of,
    remove_residual,
    set_attribute,
    set_operator,
    stripped,
    with_paths_in_names,
    with_scopes_of_torch,
)

FAULTS: dict[str, tuple[type[nn.Module], Fault, str]] = {
    "softmax over another axis": (Words, set_attribute("Softmax", 1, "axis", -2), "blocks.1.attention"),
    "epsilon of 1e-6": (Words, set_attribute("LayerNormalization", 2, "epsilon", 1e-6), "blocks.1.norm1"),
    "epsilon of 1e-12": (Words, set_attribute("LayerNormalization", 2, "epsilon", 1e-12), "blocks.1.norm1"),
    "last norm": (Words, set_attribute("LayerNormalization", 4, "epsilon", 1e-6), "norm"),
    "tanh gelu": (Words, set_attribute("Gelu", 1, "approximate", "tanh"), "blocks.1.mlp.1"),
    "one residual less": (Words, remove_residual(2), "blocks.1"),
    "the last residual less": (Words, remove_residual(3), "blocks.1"),
    "another scale": (Words, change_operand("Div", 1, 1, lambda scale: scale * 1.1), "blocks.1.attention"),
    "a transposed weight": (Words, change_operand("MatMul", 2, 1, lambda w: w.T), "blocks.0.attention.value"),
    "an element of a bias": (Words, change_operand("Add", 0, 1, change_element), "blocks.0.attention.query"),
    "a row of a table": (Words, change_operand("Gather", 0, 0, lambda w: w * 1.01), "embed"),
    "an element of a folded weight": (Images, change_operand("Conv", 1, 1, change_element), "second"),
    "other strides": (Images, set_attribute("MaxPool", 0, "strides", [1, 1]), "pool"),
    "another pool": (Images, set_operator("MaxPool", 0, "AveragePool"), "pool"),
    "other pads": (Images, set_attribute("Conv", 1, "pads", [0, 0, 2, 2]), "second"),
    "another shape": (Images, set_attribute("Conv", 0, "pads", [0, 0, 1, 1]), "first"),
    "leaky relu": (Images, set_operator("Relu", 0, "LeakyRelu", alpha=0.1), "first.2"),
    "another bound": (Images, change_bound(3.0), "second.2"),
    "transB": (Images, set_attribute("Gemm", 0, "transB", 0), "head"),
    "transB inside": (Layers, set_attribute("Gemm", 1, "transB", 0), "second"),
    "an element inside": (Layers, change_operand("Gemm", 1, 1, change_element), "second"),
    "bounds inside": (Layers, change_bound(0.4), "clip"),
    "a gate": (Steps, change_operand("LSTM", 0, 1, change_element), "lstm"),
    "a recurrent weight": (Steps, change_operand("GRU", 0, 2, change_element), "gru"),
    "reset after": (Steps, set_attribute("GRU", 0, "linear_before_reset", 0), "gru"),
}
FORMS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "own export": lambda model: model,
    "metadata of torch": with_scopes_of_torch,
    "paths in names": with_paths_in_names,
    "no names": stripped,
}


# each fault in our own export, and every third in one other form; a fifth of these, and all with `pytest -m ''`
CASES = [
    pytest.param(fault, form, marks=() if number == 0 or (place + number) % 9 == 0 else pytest.mark.slow)
    for place, fault in enumerate(FAULTS)
    for number, form in enumerate(FORMS)
]


@pytest.mark.parametrize(("fault", "form"), CASES)
@pytest.mark.every(30)
def test_a_fault_is_found_in_its_cell(fault: str, form: str) -> None:
    kind, plant, path = FAULTS[fault]
    module, args = network(kind)
    model = own_export_of(kind)
    plant(model)
    report = parity.compare(module, FORMS[form](model), args)
    assert report.failing == [path], str(report)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["own export", "no names"])
@pytest.mark.every(2)
def test_the_same_fault_everywhere_is_found_in_each_cell(form: str) -> None:
    module, args = network(Words)
    model = own_export_of(Words)
    for which in range(5):
        set_attribute("LayerNormalization", which, "epsilon", 1e-12)(model)
    report = parity.compare(module, FORMS[form](model), args)
    norms = [path for path, cell in report.cells.items() if cell.class_name == "LayerNorm"]
    assert report.failing == norms


def test_a_fault_names_its_node() -> None:
    module, args = network(Words)
    model = own_export_of(Words)
    set_attribute("LayerNormalization", 2, "epsilon", 1e-6)(model)
    report = parity.compare(module, model, args)
    source = next(c.source for c in report.cells["blocks.1.norm1"].failures if c.kind == "output")
    assert source == "LayerNormalization /blocks/1/norm1/LayerNormalization (axis=-1, epsilon=1e-06)"
    assert source in " ".join(str(report).split())
