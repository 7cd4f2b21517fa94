"""ONNX models as programs: names, parameters, sizes, what is refused; numbers of operators are in tests/coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from cellbridge.converter import from_onnx, from_torch, to_onnx, to_torch
from cellbridge.runtime import ConversionError, Program, UnsupportedOperators, UsageError
from cellbridge.runtime.ir.dims import symbol

RNG = np.random.default_rng(0)


def model(graph: str, opset: int = 18, **initializers: Any) -> onnx.ModelProto:
    """A model in onnx's text format, with initializers."""
    parsed = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {graph}')
    for name, data in initializers.items():
        parsed.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(data), name.replace("__", ".")))
    return parsed


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def ops_of(program: Program) -> list[str]:
    return [node.op for node in program.nodes if node.op != "boundary"]


def test_initializers_become_parameters_buffers_and_constants() -> None:
    graph = """net (float[n, 3, 4] x) => (float[n, 3, 4] y) {
        normal = BatchNormalization(x, scale, shift, mean, variance)
        flat = Reshape(normal, shape)
        halved = Mul(flat, half)
        back = Reshape(halved, whole)
        y = Add(back, offset)
    }"""
    program = from_onnx(
        model(
            graph,
            scale=floats(3), shift=floats(3), mean=floats(3), variance=np.abs(floats(3)), offset=floats(4),
            half=np.float32(0.5), shape=np.array([0, -1]), whole=np.array([-1, 3, 4]),
        )
    )  # fmt: skip
    assert set(program.parameters) == {"scale", "shift", "offset", "half"}
    assert set(program.buffers) == {"mean", "variance"}
    assert [value.name for value in program.inputs] == ["x"]
    assert program.inputs[0].shape == (symbol("n"), 3, 4)
    x = floats(2, 3, 4)
    y, gradients = program.value_and_grad(x)
    assert y.shape == (2, 3, 4)
    np.testing.assert_allclose(gradients.parameters["offset"], np.full(4, 6.0), rtol=1e-6)


def test_sizes_are_computed_on_import() -> None:
    graph = """net (float[n, k, 6] x) => (float[n, two, 3, k] y) {
        shape = Shape(x)
        zero = Constant<value_ints = [0]>()
        one = Constant<value_ints = [1]>()
        two_three = Constant<value_ints = [2, 3]>()
        n = Gather(shape, zero)
        k = Slice(shape, one, two)
        wanted = Concat<axis = 0>(n, k, two_three)
        split = Reshape(x, wanted)
        y = Transpose<perm = [0, 2, 3, 1]>(split)
    }"""
    program = from_onnx(model(graph, two=np.array([2])))
    assert ops_of(program) == ["reshape", "transpose"]
    assert program.outputs[0].shape == (symbol("n"), 2, 3, symbol("k"))
    x = floats(2, 5, 6)
    np.testing.assert_array_equal(program(x), x.reshape(2, 5, 2, 3).transpose(0, 2, 3, 1))


def test_sizes_that_are_data_become_tensors() -> None:
    graph = """net (float[n, k] x) => (float[n, k] y) {
        size = Size(x)
        real = Cast<to = 1>(size)
        y = Div(x, real)
    }"""
    x = floats(3, 4)
    np.testing.assert_allclose(from_onnx(model(graph))(x), x / 12, rtol=1e-6)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_may_be_an_input(keepdims: int) -> None:
    graph = f"net (float[2, 3, 4] x, int64[1] axes) => (y) {{ y = ReduceMean<keepdims = {keepdims}>(x, axes) }}"
    program = from_onnx(model(graph))
    x = floats(2, 3, 4)
    for axis in (0, -1):
        y, gradients = program.value_and_grad(x, np.array([axis]))
        np.testing.assert_allclose(y, x.mean(axis, keepdims=bool(keepdims)), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradients.inputs[0], np.full(x.shape, 1 / x.shape[axis]), rtol=1e-5)


def test_sizes_that_only_the_run_tells_still_broadcast() -> None:
    graph = """net (float[a] x, float[b] y, int64[1] end) => (float[c] z) {
        zero = Constant<value_ints = [0]>()
        part = Slice(x, zero, end)
        z = Mul(part, y)
    }"""
    program = from_onnx(model(graph))
    x, y = floats(5), floats(3)
    z, gradients = program.value_and_grad(x, y, np.array([3]))
    np.testing.assert_allclose(z, x[:3] * y)
    np.testing.assert_allclose(gradients.inputs[0], [*y, 0, 0])
    np.testing.assert_allclose(gradients.inputs[1], x[:3])
    np.testing.assert_allclose(program(x, floats(1), np.array([4])).shape, (4,))


def test_sizes_that_only_the_run_tells_in_torch() -> None:
    graph = """net (float[a, 3] x, int64[2] sizes) => (float[b, 3] first, float[c] rest) {
        one = Constant<value_ints = [-1]>()
        first, second = Split<axis = 0>(x, sizes)
        rest = Reshape(second, one)
    }"""
    module = to_torch(from_onnx(model(graph)))
    for split in ([1, 4], [3, 2], [5, 0]):
        x = torch.from_numpy(floats(5, 3)).requires_grad_()
        first, rest = module(x, torch.tensor(split))
        assert torch.equal(first, x[: split[0]])
        assert torch.equal(rest, x[split[0] :].flatten())
        (first.sum() + 2 * rest.sum()).backward()
        assert x.grad is not None
        assert x.grad[:, 0].tolist() == [1.0] * split[0] + [2.0] * split[1]


def test_attributes_with_dtypes_in_torch() -> None:
    graph = """net (int64[2] sizes) => (int64[a, b] y) {
        y = ConstantOfShape<value = int64[1] {7}>(sizes)
    }"""
    module = to_torch(from_onnx(model(graph)))
    assert torch.equal(module(torch.tensor([2, 3])), torch.full((2, 3), 7))


def test_an_absent_bound_stays_absent() -> None:
    class Bounded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x.clamp(min=0.5), x.clamp(max=0.5), torch.nn.functional.hardtanh(x)

    program = from_onnx(to_onnx(from_torch(Bounded(), (torch.ones(3),))))
    clamps = [node for node in program.nodes if node.op == "clamp"]
    bounds = [(node.attributes["minimum"], node.attributes["maximum"]) for node in clamps]
    assert bounds == [(0.5, None), (None, 0.5), (-1.0, 1.0)]


def test_no_gradient_comes_back_through_what_was_detached() -> None:
    class Detaching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x.exp().detach()

    x = torch.linspace(-1, 1, 5)
    read = from_onnx(to_onnx(from_torch(Detaching(), (x,)), optimize=False))
    _, gradients = read.value_and_grad(x)
    np.testing.assert_allclose(gradients.inputs[0], x.exp(), rtol=1e-6)


def test_what_a_mask_chooses_is_written_back() -> None:
    class Masked(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y[mask] = x[mask] * 2 + 1
            return y

    x, mask = torch.linspace(-1, 1, 12).reshape(4, 3), torch.tensor([True, False, False, True])
    read = from_onnx(to_onnx(from_torch(Masked(), (x, mask)), optimize=False))
    for chosen in (mask, ~mask, torch.ones(4, dtype=torch.bool), torch.zeros(4, dtype=torch.bool)):
        expected = Masked()(x, chosen)
        np.testing.assert_allclose(read(x, chosen), expected)
        assert torch.equal(to_torch(read)(x, chosen), expected)


def test_results_keep_their_order() -> None:
    program = from_onnx(model("net (float[4] x) => (float[2] b, float[2] a) { a, b = Split<num_outputs = 2>(x) }"))
    x = floats(4)
    b, a = program(x)
    np.testing.assert_array_equal(np.concatenate([a, b]), x)


def test_local_functions_are_inlined() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
        net (float[3] x) => (float[3] y) { y = local.scaled<factor = 3.0>(x) }
        <domain: "local", opset_import: ["" : 18]>
        scaled <factor: float = 2.0> (a) => (b) { c = Constant<value_float: float = @factor>() b = Mul(a, c) }"""
    program = from_onnx(onnx.parser.parse_model(text))
    np.testing.assert_allclose(program(np.ones(3, np.float32)), np.full(3, 3.0))


CONDITION = """net (float[n] x) => (float[m] y) {
    total = ReduceSum<keepdims = 0>(x)
    zero = Constant<value_float = 0.0>()
    positive = Greater(total, zero)
    y = If(positive) <
        then_branch = then () => (float[p] a) { a = Mul(x, w) },
        else_branch = otherwise () => (float[q] b) { b = Neg(x) }
    >
}"""


def test_branches_use_what_is_around_them_and_have_gradients() -> None:
    program = from_onnx(model(CONDITION, w=np.float32(3.0)))
    x = np.array([1.0, 2.0], np.float32)
    y, gradients = program.value_and_grad(x)
    np.testing.assert_allclose(y, 3 * x)
    np.testing.assert_allclose(gradients.parameters["w"], 3.0)
    y, gradients = program.value_and_grad(-x)
    np.testing.assert_allclose(y, x)
    np.testing.assert_allclose(gradients.inputs[0], [-1.0, -1.0])
    np.testing.assert_allclose(gradients.parameters["w"], 0.0)


LOOP = """net (int64 count, float[n] x) => (float[n] y, float[k, n] rows) {
    going = Constant<value = bool {1}>()
    y, rows = Loop(count, going, x) <body = step (int64 i, bool go, float[n] before)
            => (bool again, float[n] after, float[n] row) {
        again = Identity(go)
        after = Mul(before, w)
        row = Add(after, x)
    }>
}"""


def test_loops_carry_and_collect_and_have_gradients() -> None:
    program = from_onnx(model(LOOP, w=np.float32(2.0)))
    assert "loop" in ops_of(program)
    x = floats(3)
    y, rows = program(np.array(3), x)
    np.testing.assert_allclose(y, 8 * x, rtol=1e-6)
    np.testing.assert_allclose(rows, np.stack([3 * x, 5 * x, 9 * x]), rtol=1e-6)
    cotangents = [np.ones(3, np.float32), np.zeros((3, 3), np.float32)]
    _, gradients = program.value_and_grad(np.array(3), x, cotangents=cotangents)
    np.testing.assert_allclose(gradients.parameters["w"], 12 * x.sum(), rtol=1e-5)
    y, rows = program(np.array(0), x)
    assert rows.shape == (0, 3)


def test_all_missing_operators_are_listed() -> None:
    graph = """net (float[3] x, uint8[n] encoded) => (float[3] y) {
        a = ImageDecoder(encoded)
        b = com.acme.Magic(a)
        c = Relu(x)
        y = NoSuchOperator(c)
    }"""
    parsed = model(graph, 20)
    parsed.opset_import.append(onnx.helper.make_opsetid("com.acme", 1))
    with pytest.raises(UnsupportedOperators, match="2 uses") as raised:
        from_onnx(parsed)
    assert [name for name, _, _ in raised.value.operators] == ["ImageDecoder", "NoSuchOperator"]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("net (float[3] x) => (float[3] y) { y = Relu(z) }", "'z' is used before anything computes it"),
        ("net (float[3] x) => (float[3] y) { a = Relu(x) }", "'y' is used before anything computes it"),
        ("net (float[3] x) => (float[3] y) { y = Add(y, x) }", "'y' is used before anything computes it"),
        ("net (float[3] x, float[4] z) => (float[3] y) { y = Add(x, z) }", "don't broadcast"),
        ("net (float[3] x, int64[3] z) => (float[3] y) { y = Add(x, z) }", "one dtype"),
        ("net (string[3] x) => (string[3] y) { y = Identity(x) }", "tensors of string"),
        ("net (map(int64, float[1]) x) => (float[3] y) { y = Relu(x) }", "declared as map"),
        ("net (seq(float[3]) x) => (float[3] y) { y = Relu(x) }", "needed a tensor as operand 1, given a sequence"),
        ("net (float[3] x) => (float[3] y) { y = Transpose<perm = [0, 1]>(x) }", "permutation"),
        ("net (float[3] x) => (float[3] y) { y = Add(x) }", "needed the operands A, B"),
        ("net (float[3] x) => (float[3] y) { y = Relu(x, x) }", "2 operands"),
    ],
)
def test_malformed_models_are_refused(graph: str, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        from_onnx(model(graph))


def test_data_that_do_not_fit_are_refused() -> None:
    parsed = model("net (float[3] x) => (float[3] y) { y = Add(x, w) }", w=floats(3))
    parsed.graph.initializer[0].dims[0] = 2**40
    with pytest.raises(ConversionError, match="initializer 'w'"):
        from_onnx(parsed)


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "missing"])
def test_external_data_stay_in_the_folder(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(12))
    (tmp_path / "model").mkdir()
    parsed = model("net (float[3] x) => (float[3] y) { y = Add(x, w) }", w=floats(3))
    tensor = parsed.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = tmp_path / "model" / "model.onnx"
    path.write_bytes(parsed.SerializeToString())
    with pytest.raises(ConversionError, match="no file in the folder"):
        from_onnx(path)


def test_external_data_are_read(tmp_path: Path) -> None:
    w = floats(64, 64)
    parsed = model("net (float[64] x) => (float[64] y) { y = MatMul(x, w) }", w=w)
    onnx.save(parsed, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    x = floats(64)
    np.testing.assert_allclose(from_onnx(tmp_path / "model.onnx")(x), x @ w, rtol=1e-4, atol=1e-5)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(UsageError, match="can't read"):
        from_onnx(path)
    path.write_bytes(b"\x08\x09garbage")
    with pytest.raises(ConversionError):
        from_onnx(path)
