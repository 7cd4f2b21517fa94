"""Programs written as ONNX: names, sizes, structure and files; the ops' own forms are tried in test_all_ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cellbridge.converter import from_onnx, from_torch, to_torch
from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime import ConversionError, UnsupportedOperators, UsageError, compile, execute, ops
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.ir import dims
from cellbridge.runtime.ir.dims import Dim, symbol
from cellbridge.runtime.ir.types import FLOAT32, INT64, Buffer, ProgramParameter, Type
from cellbridge.runtime.lowering import opsets
from cellbridge.runtime.ops import boundary, elementwise, random, shaping, slicing
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.tracing import Builder
from tests.converter.programs import RNG, checked, finish, floats, metadata, names, two_cells, value_of


def test_cells_parameters_and_types_are_written() -> None:
    program = two_cells()
    model = checked(to_onnx(program))
    graph = model.graph
    assert names(graph.input) == ["x"]
    assert names(graph.output) == ["output"]
    assert {"body.0.weight", "body.0.bias", "head.weight"} <= set(names(graph.initializer))
    assert [dim.dim_param or dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == ["batch", 4]
    assert {node.op_type for node in graph.node} <= {"Gemm", "MatMul", "Add", "Transpose"}, "boundaries, or a dead node"
    prefixes = {node.name.rpartition("/")[0] for node in graph.node}
    assert prefixes == {"/body/0", "/head@1"}
    for node in graph.node:
        in_body = node.name.startswith("/body/0/")
        expected = {"cellbridge.cell": "body.0" if in_body else "head@1"}
        if in_body:
            expected["cellbridge.source"] = "model.py:12: y = self.body(x)"
        assert metadata(node) == expected
    typed = {info.name: info.type.tensor_type for info in graph.value_info}
    assert typed["linear"].shape.dim[0].dim_param == "batch"
    assert typed["linear"].shape.dim[1].dim_value == 3


def test_the_model_computes_what_the_program_does() -> None:
    program = two_cells()
    model = to_onnx(program)
    for batch in (1, 5):
        x = floats(batch, 4)
        (expected,) = execute(program, [x])
        np.testing.assert_allclose(run_model(model, {"x": x})["output"], expected, rtol=1e-5, atol=1e-6)


def test_names_come_from_arguments_and_result() -> None:
    b = Builder()
    x, mask, state = (b.new_value(stem, Type(FLOAT32, (2,))) for stem in ("x", "args_mask", "args_state"))
    total = x + mask
    program = finish(
        b, [x], {"mask": mask, "state": {"hidden": state}}, {"logits": total, "past": (total * state, state)}
    )
    model = checked(to_onnx(program))
    assert names(model.graph.input) == ["x", "mask", "state.hidden"]
    assert names(model.graph.output) == ["logits", "past.0", "past.1"]
    sequence = finish(b, [x, mask, state], {}, (total, (x,)))
    assert names(to_onnx(sequence).graph.output) == ["output_0", "output_1.0"]


def test_names_that_meet_are_told_apart() -> None:
    b = Builder()
    weight, x = b.new_value("p_weight", Type(FLOAT32, (2,))), b.new_value("weight", Type(FLOAT32, (2,)))
    data = floats(2)
    program = finish(
        b, [x], {}, {"weight": x * weight}, parameters={"weight": ProgramParameter(value_of(weight), data)}
    )
    model = checked(to_onnx(program))
    assert names(model.graph.initializer) == ["weight"]
    assert names(model.graph.input) == ["weight_1"]
    assert names(model.graph.output) == ["weight_2"]
    x_data = floats(2)
    np.testing.assert_allclose(run_model(model, {"weight_1": x_data})["weight_2"], x_data * data, rtol=1e-6)


def test_inputs_constants_and_one_tensor_twice_can_be_outputs() -> None:
    b = Builder()
    x = b.new_value("x", Type(FLOAT32, (2,)))
    y = elementwise.exp(x)
    same = boundary.boundary(y, call=0, kind="output", slot="")
    program = finish(b, [x], {}, (x, b.constant(np.float32([3.0, 4.0])), y, same, y))
    data = floats(2)
    results = list(run_model(checked(to_onnx(program)), {"x": data}).values())
    expected = [data, np.float32([3.0, 4.0]), np.exp(data), np.exp(data), np.exp(data)]
    np.testing.assert_allclose(np.stack(results), np.stack(expected), rtol=1e-6)


def test_buffer_updates_are_outputs() -> None:
    b = Builder()
    x, mean = b.new_value("x", Type(FLOAT32, (2,))), b.new_value("b_mean", Type(FLOAT32, (2,)))
    new = mean * 0.9 + x * 0.1
    buffers = {"norm.running_mean": Buffer(value_of(mean), np.ones(2, np.float32), value_of(new))}
    program = finish(b, [x], {}, x - mean, buffers=buffers, train=True)
    model = checked(to_onnx(program))
    assert names(model.graph.output) == ["output", "update.norm.running_mean"]
    assert "norm.running_mean" in names(model.graph.initializer)
    result = run_model(model, {"x": np.float32([2.0, 4.0])})
    np.testing.assert_allclose(result["update.norm.running_mean"], [1.1, 1.3], rtol=1e-6)


def test_values_can_be_observed() -> None:
    program = two_cells()
    inner = next(node.outputs[0] for node in program.nodes if node.op == "linear")
    model = checked(to_onnx(program, observe=[inner, program.inputs[0]]))
    assert names(model.graph.output) == ["output", inner.name, "x_1"]
    x = floats(3, 4)
    results = run_model(model, {"x": x}, outputs=[inner.name, "x_1"])
    np.testing.assert_allclose(results[inner.name], execute(program, [x], wanted=[inner])[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results["x_1"], x)


def test_draws_can_be_replayed() -> None:
    b = Builder()
    x = b.new_value("x", Type(FLOAT32, (3, 4)))
    keep = b.create(random.bernoulli, shape=(3, 4), probability=0.5, dtype=FLOAT32)
    b.create(random.bernoulli, shape=(3, 4), probability=0.5, dtype=FLOAT32)  # dead
    program = finish(b, [x], {}, x * keep)
    model = checked(to_onnx(program, draws_as_inputs=True))
    sampled = value_of(keep).name
    assert names(model.graph.input) == ["x", sampled]
    data, mask = floats(3, 4), np.float32(RNG.integers(0, 2, (3, 4)))
    np.testing.assert_array_equal(run_model(model, {"x": data, sampled: mask})["output"], data * mask)
    assert names(to_onnx(program).graph.input) == ["x"]


def test_gradient_programs_can_be_written() -> None:
    program = two_cells()
    backward = differentiate(program)
    gradient = backward.parameter_gradients["body.0.weight"]
    assert gradient is not None
    model = checked(to_onnx(backward.program, observe=[gradient]))
    x, g = floats(3, 4), floats(3, 2)
    feeds = dict(zip(names(model.graph.input), (x, g), strict=True))
    (expected,) = execute(backward.program, [x, g], wanted=[gradient])
    np.testing.assert_allclose(run_model(model, feeds)[gradient.name], expected, rtol=1e-4, atol=1e-6)


OPSETS = range(opsets.OLDEST, opsets.newest() + 1)


@pytest.mark.parametrize("opset", OPSETS)
def test_every_opset_is_written(opset: int) -> None:
    program, x = two_cells(), floats(3, 4)
    model = checked(to_onnx(program, opset=opset))
    (expected,) = execute(program, [x])
    np.testing.assert_allclose(run_model(model, {"x": x})["output"], expected, rtol=1e-5, atol=1e-6)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", opset)]


def test_opsets() -> None:
    assert 26 <= opsets.newest() <= onnx.defs.onnx_opset_version()
    assert to_onnx(two_cells()).opset_import[0].version == opsets.OLDEST == 17
    for opset in (16, opsets.NEWEST + 1, 0, -1):
        with pytest.raises(UsageError, match=rf"opset must be 17 to {opsets.NEWEST}, given {opset}"):
            to_onnx(two_cells(), opset=opset)


def test_an_operator_that_the_opset_lacks_is_an_error() -> None:
    b = Builder()
    x = b.new_value("x", Type(INT64, (2,)))
    program = finish(b, [x], {}, ops.get("bitwise_and")(x, x))
    with pytest.raises(ConversionError, match="ONNX has BitwiseAnd from opset 18 on: export with opset 18 or a newer"):
        to_onnx(program, opset=17)
    assert checked(to_onnx(program, opset=18)).graph.node[0].op_type == "BitwiseAnd"


# ---- symbolic sizes


def sizes_model(expressions: list[Dim], shape: tuple[Dim, ...]) -> onnx.ModelProto:
    """Takes `x` of that shape, and returns for each expression vectors of max(e, 0) and of max(-e, 0) elements."""
    b = Builder()
    x = b.new_value("x", Type(FLOAT32, shape))
    signed = [e for expression in expressions for e in (expression, 0 - expression)]
    full = ops.get("full")
    results = tuple(b.create(full, shape=(dims.maximum(e, 0),), value=1.0, dtype=FLOAT32) for e in signed)
    return checked(to_onnx(finish(b, [x], {}, results)))


DIMS = st.recursive(
    st.sampled_from([symbol("n"), symbol("m")]) | st.integers(-7, 7),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 5)).map(lambda p: p[0] // p[1]),
        st.tuples(inner, st.integers(1, 5)).map(lambda p: p[0] % p[1]),
        st.tuples(inner, inner).map(lambda p: dims.maximum(*p)),
        st.tuples(inner, inner).map(lambda p: dims.minimum(*p)),
    ),
    max_leaves=5,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(DIMS, min_size=1, max_size=3), st.integers(1, 9), st.integers(1, 9))
def test_sizes_are_computed_at_run_time(expressions: list[Dim], n: int, m: int) -> None:
    model = sizes_model(expressions, (symbol("n"), symbol("m")))
    results = list(run_model(model, {"x": floats(n, m)}).values())
    for i, expression in enumerate(expressions):
        expected = dims.evaluate(expression, {"n": n, "m": m})
        assert results[2 * i].size - results[2 * i + 1].size == expected


def test_a_symbol_is_read_from_a_linear_dimension() -> None:
    model = sizes_model([symbol("n")], (2 * symbol("n") + 1,))
    assert run_model(model, {"x": floats(7)})["output_0"].shape == (3,)


def test_a_symbol_that_no_input_has_is_an_error() -> None:
    with pytest.raises(ConversionError, match=r"op full in Cell .* the size 'n' is needed, but no input has"):
        sizes_model([symbol("n")], (symbol("n") * symbol("m"),))


# ---- what can't be written


def test_all_unsupported_operators_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("linear", "relu"):
        monkeypatch.setattr(ops.get(name), "onnx_rule", None)
        monkeypatch.setattr(ops.get(name), "no_onnx_reason", f"no {name} today")
    with pytest.raises(UnsupportedOperators) as caught:
        to_onnx(two_cells())
    assert caught.value.operators == [
        ("linear", "body.0", "model.py:12: y = self.body(x)"),
        ("linear", "head", ""),
    ], "the dead relu isn't needed"
    for part in ("2 operators", "Cell body.0 at model.py:12: y = self.body(x)", "Cell head@1", "no linear today"):
        assert part in str(caught.value)


def test_a_rule_that_refuses_names_cell_and_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("not with these attributes")

    monkeypatch.setattr(ops.get("linear"), "onnx_rule", refuse)
    message = r"op linear in Cell body\.0 at model\.py:12: .* can't be written in ONNX: not with these attributes"
    with pytest.raises(ConversionError, match=message):
        to_onnx(two_cells())


def test_a_symbolic_attribute_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ops.get("linear"), "onnx_rule", lambda g, *x: g.op("Concat", x[0], x[0], axis=g.type(x[0]).shape[0])
    )
    with pytest.raises(ConversionError, match="attribute axis=batch of ONNX Concat"):
        to_onnx(two_cells())


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "uint8", "bool", "int64"])
def test_constants_keep_their_dtype(dtype: str) -> None:
    b = Builder()
    data = np.array([0.0, 1.0, 2.0 / 3.0])
    constant = b.constant(data, dtype)
    x = b.new_value("x", Type(constant.dtype, (1, 3)))
    program = finish(b, [x], {}, slicing.concat(x, shaping.reshape(constant, shape=(1, 3)), axis=0))
    model = checked(to_onnx(program, optimize=False))
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    array = stored[value_of(constant).name]
    assert array.dtype == constant.dtype
    np.testing.assert_array_equal(array, data.astype(constant.dtype))


def test_half_a_program_runs_in_float16() -> None:
    program = two_cells().astype("float16")
    x = floats(3, 4).astype(np.float16)
    result = run_model(checked(to_onnx(program)), {"x": x})["output"]
    np.testing.assert_allclose(result, execute(program, [x])[0], rtol=5e-3, atol=5e-3)


def test_nothing_is_computed_that_no_output_needs() -> None:
    class Pooled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.max_pool2d(x, 2)

    model = to_onnx(from_torch(Pooled(), (torch.randn(1, 2, 4, 4),)))
    (node,) = model.graph.node
    assert (node.op_type, len(node.output)) == ("MaxPool", 1)


class OfParameters(nn.Module):
    """Applies what ONNX lacks to a parameter and to a buffer alone, and, if asked, to an input."""

    def __init__(self, of_input: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("metric", 2 * torch.eye(4) + 0.1 * torch.randn(4, 4))
        self.of_input = of_input

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        turned = torch.linalg.matrix_exp(self.weight - self.weight.mT)
        whitened = x @ turned @ torch.linalg.inv(self.metric @ self.metric.mT)
        spectrum = torch.linalg.eigvals(x if self.of_input else self.weight)
        return whitened, torch.slogdet(self.weight)[1] * spectrum.real.sum() * x.shape[0]


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.every(2)
def test_what_onnx_lacks_is_computed_where_it_depends_on_no_input(optimize: bool) -> None:
    torch.manual_seed(0)  # now and then a matrix is ill-conditioned
    module, x = OfParameters().eval(), torch.randn(3, 4)
    program = from_torch(module, (x,), dynamic_shapes=({0: "batch"},))
    model = checked(to_onnx(program, optimize=optimize))
    assert {"Scan", "Loop"}.isdisjoint(node.op_type for node in model.graph.node)
    x = torch.randn(5, 4)
    results = run_model(model, {"x": x.numpy()})
    for result, expected in zip(results.values(), module(x), strict=True):
        np.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-5, atol=1e-5)
    made = to_torch(from_onnx(model))  # `weight.log_determinant` beside `weight`, if that is in the model
    for result, expected in zip(made(x), module(x), strict=True):
        torch.testing.assert_close(result, expected)
    for result, expected in zip(compile(program)(x), module(x), strict=True):
        np.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_what_onnx_lacks_is_refused_where_it_depends_on_an_input() -> None:
    with pytest.raises(UnsupportedOperators, match=r"^1 operators have no ONNX form:\n  op eig in"):
        to_onnx(from_torch(OfParameters(of_input=True), (torch.randn(4, 4),)))


def test_a_resize_that_onnx_lacks_is_computed_of_a_parameter() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.randn(1, 3, 5, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scales = [(size + 0.1) / 5 for size in x.shape[2:]]
            return x + nn.functional.interpolate(self.positions, scale_factor=scales, mode="bicubic")

    module, x = Positions(), torch.randn(2, 3, 7, 8)
    model = checked(to_onnx(from_torch(module, (x,))))
    np.testing.assert_allclose(run_model(model, {"x": x.numpy()})["output"], module(x).detach().numpy(), atol=1e-5)
