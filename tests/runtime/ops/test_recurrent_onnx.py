"""Recurrent layers and their gradients in ONNX Runtime, over any number of steps of any number of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import cellbridge.runtime as ms
from cellbridge.converter import from_torch
from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime import ops
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import CellCall, Type, as_dtype
from cellbridge.runtime.lowering.model import Lowering
from cellbridge.runtime.lowering.writing import add_initializers
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.programs.plan import plan
from cellbridge.runtime.tracing import Builder, SymbolicTensor
from cellbridge.runtime.tree import TENSOR, Structure
from tests.runtime.ops.cases_recurrent import LAYERS, attributes_of, layer_inputs

Array = np.ndarray[Any, Any]


def one_layer(op: str, dtype: str, inputs: tuple[Array | None, ...], *, reverse: bool = True) -> Program:
    """A program of one layer, over any number of steps of any number of sequences."""
    builder = Builder()
    count = 2 if op == "lstm" else 1
    operands: list[SymbolicTensor | None] = []
    for i, array in enumerate(inputs):
        if array is None:
            operands.append(None)
            continue
        kind, shape = as_dtype(dtype) if array.dtype.kind == "f" else array.dtype, array.shape
        if i == 0:
            shape = (symbol("time"), symbol("batch"), *shape[2:])
        elif i <= count or array.dtype.kind == "i":
            shape = (symbol("batch"), *shape[1:])
        operands.append(builder.new_value(f"x{i}", Type(kind, shape)))
    results = ops.get(op)(*operands, **attributes_of(op, reverse))
    given = tuple(o.value for o in operands if o is not None)
    return Program(
        inputs=given,
        outputs=tuple(r.value for r in results),
        nodes=tuple(builder.nodes),
        parameters={},
        buffers={},
        constants=(),
        calls=(CellCall("", "Case"),),
        arguments=Structure("tuple", (Structure("tuple", (TENSOR,) * len(given)), Structure("dict"))),
        result=Structure("tuple", (TENSOR,) * len(results)),
    )


FORMS = [("lstm", "LSTM", 0), ("gru", "GRU", 0), ("rnn", "RNN", 0), ("lstm", "Scan", 2)]


@pytest.mark.parametrize(("op", "operator", "projection"), FORMS)
def test_symbolic_time_in_onnx(op: str, operator: str, projection: int) -> None:
    inputs = layer_inputs(op, 4, 2, 3, 5, projection=projection)
    arrays = [a.astype(np.float32) for a in inputs if a is not None]
    model = to_onnx(one_layer(op, "float32", inputs))
    assert operator in {node.op_type for node in model.graph.node}
    results = run_model(model, dict(zip([value.name for value in model.graph.input], arrays, strict=True)))
    narrow = (None if a is None else a.astype(np.float32) for a in inputs)
    expected = ops.get(op)(*narrow, **attributes_of(op, True))
    for a, b in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def check_compiled(op: str, inputs: tuple[Array | None, ...], reverse: bool, opset: int = 23) -> None:
    """Outputs and gradients in ONNX Runtime are the interpreter's, in float64, to rounding."""
    backward = differentiate(one_layer(op, "float64", inputs, reverse=reverse))
    values = [*backward.program.outputs, *(v for v in backward.input_gradients if v is not None)]
    rng = np.random.default_rng(0)
    ys = ops.get(op)(*inputs, **attributes_of(op, reverse))
    arrays = [*(a for a in inputs if a is not None), *(rng.standard_normal(y.shape) for y in ys)]
    lowering = Lowering(
        backward.program, opset, [(v.name, v) for v in backward.program.inputs], [(f"{v.name}.out", v) for v in values]
    )
    lowering.lower([step.node for step in plan(backward.program, values)])
    lowering.optimize()
    model = lowering.model()
    add_initializers(model, lowering.initializers())
    onnx.checker.check_model(model, full_check=True)
    names = {v.name: array for v, array in zip(backward.program.inputs, arrays, strict=True)}
    results = run_model(model, names).values()
    for actual, expected in zip(results, execute(backward.program, arrays, wanted=values), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12 * max(1.0, np.abs(expected).max()))


@settings(deadline=None, max_examples=25)
@given(
    op=st.sampled_from(LAYERS),
    time=st.integers(1, 5),
    batch=st.integers(1, 3),
    hidden=st.integers(1, 4),
    reverse=st.booleans(),
    biases=st.sampled_from(["", "ih", "hh", "ih hh"]),
    opset=st.sampled_from([17, 18, 21, 23]),
    data=st.data(),
)
def test_compiled_gradients_of_any_size(
    op: str, time: int, batch: int, hidden: int, reverse: bool, biases: str, opset: int, data: st.DataObject
) -> None:
    projection = data.draw(st.integers(0, hidden - 1)) if op == "lstm" else 0
    ends = data.draw(st.one_of(st.just(()), st.tuples(*[st.integers(0, time)] * batch)))
    inputs = layer_inputs(op, time, batch, 2, hidden, biases=biases, projection=projection, lengths=ends)
    check_compiled(op, inputs, reverse, opset)


@pytest.mark.parametrize("op", LAYERS)
def test_a_planted_fault_in_the_backward_scan_is_found(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = layer_inputs(op, 4, 2, 3, 5)
    check_compiled(op, inputs, False)
    rule = ops.get(f"{op}_gradient").onnx_rule
    assert rule is not None

    def forwards(graph: Any, *operands: str, reverse: bool, **attributes: Any) -> Any:
        return rule(graph, *operands, reverse=not reverse, **attributes)

    monkeypatch.setattr(ops.get(f"{op}_gradient"), "onnx_rule", forwards)
    with pytest.raises(AssertionError):
        check_compiled(op, inputs, False)


class Stacked(nn.Module):
    """Layers of each kind, both ways, with all that they can be given."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True, proj_size=2)
        self.gru = nn.GRU(4, 3, num_layers=2, batch_first=True, bidirectional=True, bias=False)
        self.rnn = nn.RNN(6, 3, batch_first=True, nonlinearity="relu")

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (_, last) = self.lstm(x, (h, c))
        return self.rnn(self.gru(y)[0])[0][:, -1], last


@pytest.mark.slow
def test_compiled_gradients_of_stacked_layers_are_those_of_torch() -> None:
    module = Stacked()

    def operands(batch: int) -> tuple[torch.Tensor, ...]:
        shapes = (batch, 5, 3), (4, batch, 2), (4, batch, 4)
        return tuple(torch.randn(shape, generator=torch.Generator().manual_seed(1)) for shape in shapes)

    batch = torch.export.Dim("batch")
    dynamic = {"x": {0: batch}, "h": {1: batch}, "c": {1: batch}}  # torch.export fixes the number of steps
    compiled = ms.compile(from_torch(module, operands(2), dynamic_shapes=dynamic), "cpu")
    for size in (2, 1, 5):
        given = [x.requires_grad_() for x in operands(size)]
        module.zero_grad()
        results = module(*given)
        cotangents = [torch.randn_like(y) for y in results]
        torch.autograd.backward(results, cotangents)
        outputs, gradients = compiled.value_and_grad(
            *(x.detach() for x in given), cotangents=[g.numpy() for g in cotangents]
        )
        expected = {name: p.grad for name, p in module.named_parameters()}
        pairs = [*zip(outputs, results, strict=True), *zip(gradients.inputs, (x.grad for x in given), strict=True)]
        pairs += [(gradients.parameters[name], g) for name, g in expected.items()]
        for actual, truth in pairs:
            assert truth is not None
            np.testing.assert_allclose(actual, truth.detach().numpy(), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(("op", "hidden"), [("lstm", 256), ("gru", 1024)])
@pytest.mark.every(2)
def test_a_weight_whose_rows_are_spread_in_memory(op: str, hidden: int) -> None:
    inputs = tuple(None if array is None else array.astype(np.float32) for array in layer_inputs(op, 3, 2, 2, hidden))
    program = one_layer(op, "float32", inputs)
    given = [array for array in inputs if array is not None]
    _, expected = program.value_and_grad(*given)
    _, actual = ms.compile(program, "cpu").value_and_grad(*given)
    for actual_gradient, expected_gradient in zip(actual.inputs, expected.inputs, strict=True):
        assert actual_gradient is not None
        assert expected_gradient is not None
        np.testing.assert_allclose(
            actual_gradient, expected_gradient, rtol=1e-4, atol=1e-5 * float(np.abs(expected_gradient).max())
        )
