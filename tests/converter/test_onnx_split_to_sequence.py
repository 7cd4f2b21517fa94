"""SplitToSequence of sizes that only the run tells, against ONNX Runtime, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.converter import from_onnx, to_torch
from cellbridge.runtime import compile as compiled
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import CellbridgeError, UnsupportedOperators
from tests.converter.test_onnx_in import floats, model

VECTOR = """net (float[n, 3] x, int64[2] k) => (float[a, b] y, int64 count) {{
    s = SplitToSequence<axis = {axis}>(x, k)
    second = SequenceAt(s, one)
    y = Exp(second)
    count = SequenceLength(s)
}}"""
SCALAR = """net (float[n, 3] x, int64 k, int64 i) => (float[a, b] y, int64 count, float[n, 3] whole) {{
    s = SplitToSequence<axis = {axis}>(x, k)
    piece = SequenceAt(s, i)
    y = Exp(piece)
    count = SequenceLength(s)
    whole = ConcatFromSequence<axis = {axis}>(s)
}}"""
ROWS = """net (float[n, 3] x, int64 i) => (float[{shape}] y, int64 count, float[n, 3] whole) {{
    s = SplitToSequence<axis = 0, keepdims = {keepdims}>(x)
    row = SequenceAt(s, i)
    y = Exp(row)
    count = SequenceLength(s)
    whole = ConcatFromSequence<axis = 0, new_axis = {new_axis}>(s)
}}"""


def agrees(graph: str, inputs: dict[str, Any], **initializers: Any) -> None:
    """A graph gives in the interpreter, compiled and in torch what it gives in ONNX Runtime, with torch's gradient."""
    made = model(graph, **initializers)
    program, expected_outputs = from_onnx(made), [*run_model(made, inputs).values()]
    arrays = list(inputs.values())
    for outputs in (program(*arrays), compiled(program)(*arrays)):
        for y, expected in zip(outputs, expected_outputs, strict=True):
            np.testing.assert_allclose(y, expected, rtol=1e-6)
    tensors = [torch.from_numpy(np.array(array)) for array in arrays]
    tensors[0].requires_grad_()
    results = to_torch(program)(*tensors)
    cotangents = [
        np.arange(w.size, dtype=np.float32).reshape(w.shape) if w.dtype == np.float32 else w for w in expected_outputs
    ]
    reals = [(r, torch.from_numpy(c)) for r, c in zip(results, cotangents, strict=True) if r.requires_grad]
    (expected,) = torch.autograd.grad([r for r, _ in reals], tensors[0], [c for _, c in reals])
    _, gradients = program.value_and_grad(*arrays, cotangents=[c for c in cotangents if c.dtype == np.float32])
    np.testing.assert_allclose(gradients.inputs[0], expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, -2])
@pytest.mark.parametrize("sizes", [[1, 4], [3, 2], [5, 0]])
def test_a_vector_of_sizes(axis: int, sizes: list[int]) -> None:
    graph = VECTOR.format(axis=axis)
    agrees(graph, {"x": floats(5, 3), "k": np.array(sizes)}, one=np.array(1))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("size", "position"), [(1, 0), (2, 1), (2, -1), (3, 0), (7, 0), (7, -1)])
def test_one_size_of_all_pieces(axis: int, size: int, position: int) -> None:
    inputs = {"x": floats(4, 3), "k": np.array(size), "i": np.array(position)}
    agrees(SCALAR.format(axis=axis), inputs)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("position", [0, 3, -1, -4])
def test_pieces_of_one(keepdims: int, position: int) -> None:
    graph = ROWS.format(shape="1, 3" if keepdims else "3", keepdims=keepdims, new_axis=1 - keepdims)
    agrees(graph, {"x": floats(4, 3), "i": np.array(position)})


def test_without_the_axis_where_pieces_of_one_are_asked_for() -> None:
    graph = """net (float[n, 3] x, int64 k, int64 i) => (float[3] y, int64 count) {
        s = SplitToSequence<keepdims = 0>(x, k)
        y = SequenceAt(s, i)
        count = SequenceLength(s)
    }"""
    inputs = {"x": floats(4, 3), "k": np.array(1), "i": np.array(2)}
    agrees(graph, inputs)
    with pytest.raises(CellbridgeError):
        from_onnx(model(graph))(floats(4, 3), np.array(2), np.array(0))
    fixed = graph.replace("int64 k, ", "").replace("float[n,", "float[4,")
    agrees(fixed, {"x": floats(4, 3), "i": np.array(2)}, k=np.array(1))


def test_a_fixed_size_of_a_symbolic_axis() -> None:
    graph = SCALAR.replace("int64 k, ", "").format(axis=0)
    agrees(graph, {"x": floats(5, 3), "i": np.array(2)}, k=np.array(2))


def test_a_position_that_only_the_run_tells() -> None:
    graph = """net (float[n, 3] x, int64 i) => (float[n, 3] y, int64 count) {
        a = Exp(x)
        b = Neg(x)
        s = SequenceConstruct(a, b, x)
        y = SequenceAt(s, i)
        count = SequenceLength(s)
    }"""
    for position in (0, 1, 2, -1, -3):
        agrees(graph, {"x": floats(2, 3), "i": np.array(position)})
    for position in (3, -4):
        with pytest.raises(CellbridgeError, match="within"):
            from_onnx(model(graph))(floats(2, 3), np.array(position))


def test_sizes_of_a_split_are_written_without_a_number_of_outputs() -> None:
    graph = "net (float[n, 3] x, int64[2] k) => (float[a, 3] y, float[b, 3] z) { y, z = Split<axis = 0>(x, k) }"
    agrees(graph, {"x": floats(5, 3), "k": np.array([1, 4])})


@pytest.mark.parametrize(
    ("size", "position", "message"), [(2, 2, "within"), (2, -3, "within"), (0, 0, ""), (-1, 0, "")]
)
def test_positions_and_sizes_that_there_are_not_are_errors(size: int, position: int, message: str) -> None:
    program = from_onnx(model(SCALAR.format(axis=0)))
    with pytest.raises(CellbridgeError, match=message):
        program(floats(4, 3), np.array(size), np.array(position))


def test_what_needs_the_number_of_pieces_is_refused() -> None:
    for graph in (
        "net (float[n, 3] x, int64 k) => (seq(float[a, 3]) s) { s = SplitToSequence(x, k) }",
        "net (float[n, 3] x, int64[m] k) => (seq(float[a, 3]) s) { s = SplitToSequence(x, k) }",
        "net (float[n, 3] x, int64 k) => (float[a, 3] y) { s = SplitToSequence(x, k)  t = SequenceErase(s)  "
        "y = ConcatFromSequence<axis = 0>(t) }",
        "net (float[n, 3] x, int64 k) => (float[a, 3] y) { s = SplitToSequence(x, k)  y = Relu(s) }",
    ):
        with pytest.raises(UnsupportedOperators):
            from_onnx(model(graph))
