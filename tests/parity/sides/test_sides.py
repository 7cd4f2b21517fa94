"""Every side records the same boundaries, and computes with the values that it is fed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import converter
from cellbridge.parity import check
from cellbridge.parity.sides.exported_side import ExportedSide
from cellbridge.parity.sides.interpreter_side import InterpreterSide
from cellbridge.parity.sides.onnxruntime_side import OnnxModelSide
from cellbridge.parity.sides.records import INPUT, OUTPUT, Key
from cellbridge.parity.sides.run import ReferenceRun, Run, Wanted
from cellbridge.parity.sides.torch_side import TorchSide
from cellbridge.runtime.errors import UsageError
from tests.parity.networks import mixed


def test_torch_and_interpreter_record_the_same_boundaries_and_numbers() -> None:
    module, args = mixed()
    truth = TorchSide("torch", module, args, {}).run(Run("float64"))
    program = converter.from_torch(module, args)
    run = Run("float64", reference=ReferenceRun.of(truth, truth.gradients.cotangents))
    records = InterpreterSide("interpreter", program, args, {}).run(run)
    assert records.values.keys() == truth.values.keys()
    assert records.slots.keys() == truth.slots.keys()
    for key, value in truth.values.items():
        np.testing.assert_allclose(records.values[key], value, rtol=1e-9, atol=1e-12, err_msg=str(key))
    for name, gradient in truth.gradients.parameters.items():
        np.testing.assert_allclose(records.gradients.parameters[name], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["torch", "interpreter", "onnxruntime"])
@pytest.mark.every(3)
def test_a_fed_cell_computes_on_what_it_is_fed(kind: str) -> None:
    module, args = mixed()
    reference = TorchSide("torch", module, args, {})
    truth = reference.run(Run("float64"))
    program = converter.from_torch(module, args)
    side = {
        "torch": lambda: reference,
        "interpreter": lambda: InterpreterSide(kind, program, args, {}),
        "onnxruntime": lambda: ExportedSide(kind, program, args, {}),
    }[kind]()
    fed, made = Key("softmax", 0, INPUT, "input"), Key("softmax", 0, OUTPUT, "result")
    fed_array = np.random.default_rng(0).standard_normal(truth.values[fed].shape)
    feed = replace(truth, values=truth.values | {fed: fed_array})
    run = Run("float32", Wanted(kind != "onnxruntime"), ReferenceRun.of(truth, truth.gradients.cotangents), feed)
    records = side.run(run)
    expected = torch.softmax(torch.from_numpy(fed_array), -1).numpy()
    np.testing.assert_allclose(records.values[made], expected, rtol=1e-5, atol=1e-6)
    # what was recorded at its output, not what it made of another input, goes on to the next Cell
    head = Key("head", 0, OUTPUT, "result")
    np.testing.assert_allclose(records.values[head], truth.values[head], rtol=1e-4, atol=1e-5)


def test_only_the_root_is_recorded_where_nothing_else_is_asked_for() -> None:
    module, args = mixed()
    program = converter.from_torch(module, args)
    for side in (TorchSide("torch", module, args, {}), InterpreterSide("interpreter", program, args, {})):
        records = side.run(Run("float32", Wanted(inner=False)))
        assert {key.path for key in records.values} == {""}


def test_onnx_model_takes_as_many_inputs_as_it_has() -> None:
    module, args = mixed()
    model = converter.to_onnx(converter.from_torch(module, args))
    with pytest.raises(UsageError, match="takes 1 inputs"):
        OnnxModelSide("candidate", model, (*args, *args), {})


def test_inputs_may_be_changed_in_place() -> None:
    """torch refuses that for a leaf that requires a gradient, as the inputs do."""

    class DoublesItsInput(nn.Module):
        def forward(self, x):
            return x.mul_(2).sin()

    for module in (DoublesItsInput(), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 3))):
        report = check(module, (torch.randn(2, 3),))
        assert report.ok
        assert "in place" in str(report)
