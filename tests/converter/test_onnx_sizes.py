"""Sizes of ONNX models: given on import, without names, decided by the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch

from cellbridge.converter import from_onnx, to_torch
from cellbridge.runtime import compile as compiled
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import CellbridgeError, ConversionError, ConversionWarning, UsageError
from cellbridge.runtime.ir.dims import symbol

RNG = np.random.default_rng(0)


def model(graph: str, opset: int = 20, **initializers: Any) -> onnx.ModelProto:
    parsed = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {graph}')
    for name, data in initializers.items():
        parsed.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(data), name))
    return parsed


def with_dims(parsed: onnx.ModelProto, *names: str) -> onnx.ModelProto:
    """The model with these names for the dimensions of its first input."""
    for dim, name in zip(parsed.graph.input[0].type.tensor_type.shape.dim, names, strict=True):
        dim.dim_param = name
    return parsed


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


DOUBLED = "net (float[a, b] x) => (float[c, d] y) { y = Add(x, x) }"


@pytest.mark.parametrize("name", ["?", "-1", " ", "*", "None", "..."])
def test_names_that_tell_nothing_are_not_one_symbol(name: str) -> None:
    program = from_onnx(with_dims(model(DOUBLED), name, name))
    first, second = program.inputs[0].shape
    assert first != second
    assert program(floats(2, 3)).shape == (2, 3)


def test_names_that_differ_in_signs_only_are_two_symbols() -> None:
    program = from_onnx(with_dims(model(DOUBLED), "n.a", "n_a"))
    assert program(floats(2, 3)).shape == (2, 3)
    program = from_onnx(with_dims(model(DOUBLED), "n_a", "n.a + 1!"))
    assert program(floats(2, 3)).shape == (2, 3)
    with pytest.raises(UsageError, match="needed size n = 2"):
        from_onnx(with_dims(model(DOUBLED), "n", "n"))(floats(2, 3))


@pytest.mark.parametrize("name", ["N%s%n", "N//2", "N*M", "N + M", "max(N, M)", "N-N", "2*3", "N % (M - 2)"])
def test_an_expression_of_sizes_that_nothing_tells_is_one_symbol(name: str) -> None:
    program = from_onnx(with_dims(model(DOUBLED), name, name))
    first, second = program.inputs[0].shape
    assert first == second == symbol(str(first))
    assert program(floats(3, 3)).shape == (3, 3)
    with pytest.raises(UsageError, match=r"needed size .* = 2"):
        program(floats(2, 3))
    assert from_onnx(with_dims(model(DOUBLED), name, "m"))(floats(2, 3)).shape == (2, 3)
    assert from_onnx(with_dims(model(DOUBLED), name, name), shapes={"x": (5, 5)}).inputs[0].shape == (5, 5)


def test_an_expression_of_sizes_that_an_input_tells_is_kept() -> None:
    program = from_onnx(with_dims(model(DOUBLED), "2*n", "n//2"))
    assert program.inputs[0].shape == (2 * symbol("n"), symbol("n") // 2)
    assert program(floats(6, 1)).shape == (6, 1)
    with pytest.raises(UsageError, match=r"needed size .* = 1, given 2"):
        program(floats(6, 2))


def test_a_symbol_for_an_expression_is_no_name_that_is_taken() -> None:
    program = from_onnx(with_dims(model(DOUBLED), "N__2", "N//2"))
    first, second = program.inputs[0].shape
    assert first != second
    assert program(floats(2, 3)).shape == (2, 3)


def test_given_shapes_are_decided_on_import() -> None:
    graph = """net (float[n, k] x, float[n] z) => (float[n] y) {
        shape = Shape(x)
        one = Constant<value_ints = [1]>()
        width = Gather(shape, one)
        limit = Constant<value_ints = [4]>()
        long = Less(limit, width)
        flag = Squeeze(long)
        y = If(flag) <then_branch = first () => (a) { a = Neg(z) }, else_branch = second () => (b) { b = Exp(z) }>
    }"""
    assert [v.shape for v in from_onnx(model(graph)).inputs] == [(symbol("n"), symbol("k")), (symbol("n"),)]
    program = from_onnx(model(graph), shapes={"x": (2, 7)})
    assert [v.shape for v in program.inputs] == [(2, 7), (2,)]  # n is one size everywhere
    assert [node.op for node in program.nodes if node.op != "boundary"] == ["neg"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"u": (1,)}, "no input 'u': it takes x, z"),
        ({"x": (2,)}, r"'x' of the model is float32\[n, 4\]: it can't have the shape \[2\]"),
        ({"x": (2, 3)}, r"can't have the shape \[2, 3\]"),
        ({"x": (-2, 4)}, r"can't have the shape \[-2, 4\]"),
        ({"x": (2, 4), "z": (3,)}, r"'z' of the model is float32\[n\]: it can't have the shape \[3\]"),
    ],
)
def test_shapes_that_do_not_fit(shapes: Any, message: str) -> None:
    graph = "net (float[n, 4] x, float[n] z) => (float[n, 4] y) { y = Neg(x) }"
    with pytest.raises(UsageError, match=message):
        from_onnx(model(graph), shapes=shapes)


SQUEEZED = """net (float[n, k, t] x) => (float[n, k] y) {
    shape = Shape(x)
    two = Constant<value_ints = [2]>()
    one = Constant<value_ints = [1]>()
    last = Gather(shape, two)
    alone = Equal(last, one)
    z = If(alone) <
        then_branch = squeezed () => (a) { a = Squeeze(x, two) },
        else_branch = whole () => (b) { b = Identity(x) }
    >
    y = Gemm(z, w)
}"""


def test_one_branch_of_two_ranks_is_taken_and_checked_when_the_program_runs() -> None:
    proto = model(SQUEEZED, w=floats(4, 3))
    with pytest.warns(ConversionWarning, match="branch"):
        program = from_onnx(proto)
    x = floats(5, 4, 1)
    np.testing.assert_allclose(program(x), run_model(proto, {"x": x})["y"], rtol=1e-6)
    with pytest.raises(CellbridgeError):
        program(floats(5, 4, 2))
    module = to_torch(program)
    np.testing.assert_allclose(module(torch.from_numpy(x)).detach().numpy(), program(x), rtol=1e-5)
    with pytest.raises(RuntimeError):
        module(torch.from_numpy(floats(5, 4, 2)))


def test_the_branch_that_fits_what_follows_is_taken() -> None:
    proto = model(
        SQUEEZED.replace("Gemm(z, w)", "Conv(z, w)").replace("float[n, k] y", "float[n, k, t] y"), w=floats(2, 4, 1)
    )
    with pytest.warns(ConversionWarning):
        program = from_onnx(proto)
    x = floats(5, 4, 3)
    np.testing.assert_allclose(program(x), run_model(proto, {"x": x})["y"], rtol=1e-5, atol=1e-6)
    with pytest.raises(CellbridgeError, match="takes its other branch"):
        program(floats(5, 4, 1))


def test_where_no_branch_fits_the_first_reason_is_told() -> None:
    graph = SQUEEZED.replace("Gemm(z, w)", "Conv(z, w)").replace("[n, k, t]", "[n, 4, t]")
    with pytest.warns(ConversionWarning), pytest.raises(ConversionError, match="Conv"):
        from_onnx(model(graph, w=floats(2, 7, 1)))


def test_a_branch_that_these_sizes_do_not_fit_is_checked_away() -> None:
    graph = """net (float[n, k] x, int64 rate) => (float[n, m] y) {
        known = Constant<value_int = 16000>()
        fast = Equal(rate, known)
        y = If(fast) <
            then_branch = first () => (a) { a = MatMul(x, w) },
            else_branch = second () => (b) { b = MatMul(x, v) }
        >
    }"""
    proto = model(graph, w=floats(4, 2), v=floats(8, 2))
    with pytest.warns(ConversionWarning):
        program = from_onnx(proto, shapes={"x": (3, 4)})
    x, rate = floats(3, 4), np.array(16000)
    np.testing.assert_allclose(program(x, rate), run_model(proto, {"x": x, "rate": rate})["y"], rtol=1e-5)
    with pytest.raises(CellbridgeError, match="takes its other branch"):
        program(x, np.array(8000))


def test_states_of_sizes_that_are_called_otherwise() -> None:
    graph = """net (float[t, n, 4] x, float[1, m, 3] h, float[1, m, 3] c) => (float[t, 1, n, 3] y) {
        y = LSTM <hidden_size = 3> (x, w, r, b, , h, c)
    }"""
    proto = model(graph, w=floats(1, 12, 4), r=floats(1, 12, 3), b=floats(1, 24))
    program = from_onnx(proto)
    inputs = {"x": floats(5, 2, 4), "h": floats(1, 2, 3), "c": floats(1, 2, 3)}
    np.testing.assert_allclose(program(*inputs.values()), run_model(proto, inputs)["y"], rtol=1e-5, atol=1e-6)
    with pytest.raises(CellbridgeError):
        program(inputs["x"], floats(1, 3, 3), floats(1, 3, 3))


@pytest.mark.parametrize("expression", ["Mean(x, z)", "PRelu(x, z)", "Gemm(x, w, z)", "Add(x, z)", "Max(x, z)"])
def test_whether_operands_broadcast_may_be_known_to_the_run_only(expression: str) -> None:
    graph = f"net (float[n, 4] x, float[m, k] z) => (float[n, 4] y) {{ y = {expression} }}"
    proto = model(graph, w=floats(4, 4)) if "w" in expression else model(graph)
    program = from_onnx(proto)
    x = floats(3, 4)
    for z in (floats(3, 4), floats(1, 4), floats(3, 1)):
        np.testing.assert_allclose(program(x, z), run_model(proto, {"x": x, "z": z})["y"], rtol=1e-5, atol=1e-6)
    with pytest.raises(CellbridgeError):
        program(x, floats(2, 4))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(
    "node",
    [
        "Conv<{0}, strides = [2, 3]>(x, w)",
        "Conv<{0}, strides = [2, 1]>(x, w)",
        "Conv<{0}, strides = [3, 3]>(x, small)",
        "MaxPool<{0}, strides = [2, 2], kernel_shape = [3, 4]>(x)",
        "AveragePool<{0}, strides = [2, 3], kernel_shape = [3, 2]>(x)",
        "AveragePool<{0}, strides = [2, 3], kernel_shape = [3, 4], count_include_pad = 1>(x)",
        "LpPool<{0}, strides = [2, 2], kernel_shape = [3, 3]>(x)",
    ],
)
def test_same_padding_with_strides_along_open_axes(node: str, auto_pad: str) -> None:
    made = node.format(f'auto_pad = "{auto_pad}"')
    graph = f"net (float[n, 2, h, v] x) => (float[n, c, p, q] y) {{ y = {made} }}"
    read = model(graph, w=floats(4, 2, 3, 5), small=floats(4, 2, 1, 1))
    program = from_onnx(read)
    for sizes in ((7, 8), (6, 9), (1, 5)):
        x = floats(2, 2, *sizes)
        np.testing.assert_allclose(program(x), run_model(read, {"x": x})["y"], rtol=1e-4, atol=1e-5)


def test_a_shortcut_beside_same_padding_along_open_axes() -> None:
    graph = """net (float[n, 2, h, v] x) => (float[n, 4, p, q] y) {
        a = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, w)
        b = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, small)
        y = Add(a, b)
    }"""
    made = model(graph, w=floats(4, 2, 3, 3), small=floats(4, 2, 1, 1))
    program, x = from_onnx(made), floats(1, 2, 7, 8)
    assert program.outputs[0].shape[2] == (symbol("h") + 1) // 2
    np.testing.assert_allclose(program(x), run_model(made, {"x": x})["y"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_torch(program)(torch.from_numpy(x)).detach(), program(x), rtol=1e-4, atol=1e-5)


ENDS = [
    ("[0]", "[5]", "[0]", "[1]"),
    ("[3]", "[5]", "[0]", "[1]"),
    ("[-4]", "[5]", "[0]", "[2]"),
    ("[1]", "[7]", "[-2]", "[3]"),
    ("[0]", "[9223372036854775807]", "[0]", "[1]"),
]


@pytest.mark.parametrize(("start", "end", "axis", "step"), ENDS)
def test_a_slice_ends_where_the_axis_does(start: str, end: str, axis: str, step: str) -> None:
    graph = f"""net (float[n, 3] x) => (float[m, 3] y) {{
        starts = Constant<value_ints = {start}>()
        ends = Constant<value_ints = {end}>()
        axes = Constant<value_ints = {axis}>()
        steps = Constant<value_ints = {step}>()
        part = Slice(x, starts, ends, axes, steps)
        y = Exp(part)
    }}"""
    made = model(graph)
    program = from_onnx(made)
    module = to_torch(program)
    for size in (4, 5, 6, 9):
        x = floats(size, 3)
        (expected_output,) = run_model(made, {"x": x}).values()
        y, gradients = program.value_and_grad(x, cotangents=[np.ones_like(expected_output)])
        np.testing.assert_allclose(y, expected_output, rtol=1e-6)
        np.testing.assert_allclose(compiled(program)(x), expected_output, rtol=1e-6)
        t = torch.from_numpy(x).requires_grad_()
        out = module(t)
        np.testing.assert_allclose(out.detach(), expected_output, rtol=1e-6)
        (expected,) = torch.autograd.grad(out.sum(), t)
        np.testing.assert_allclose(gradients.inputs[0], expected, rtol=1e-6)


def test_an_end_that_the_model_needs_to_be_reached_is_taken_to_be() -> None:
    graph = """net (float[n, 3] x) => (float[2, 2] y) {
        starts = Constant<value_ints = [0]>()
        ends = Constant<value_ints = [4]>()
        part = Slice(x, starts, ends)
        shape = Constant<value_ints = [2, 6]>()
        rows = Reshape(part, shape)
        y = MatMul(rows, w)
    }"""
    made = model(graph, w=floats(6, 2))
    x = floats(5, 3)
    np.testing.assert_allclose(from_onnx(made)(x), run_model(made, {"x": x})["y"], rtol=1e-5)
