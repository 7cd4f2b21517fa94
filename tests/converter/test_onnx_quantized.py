"""Operators on the codes of quantizers, judged by ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from cellbridge.converter import from_onnx
from cellbridge.runtime.compiled.session import run_model

RNG = np.random.default_rng(0)
SCALES = (
    "float a_s = {0.05131}, uint8 a_z = {120}, float b_s = {0.03173}, uint8 b_z = {131}, "
    "float y_s = {0.04279}, uint8 y_z = {117}"
)
A, B, Y = "a, a_s, a_z", "b, b_s, b_z", "y_s, y_z"
TWO = {"a": (2, 3, 6, 6), "b": (2, 3, 6, 6)}


def apart(node: str, shapes: dict[str, tuple[int, ...]], extra: str = "") -> np.ndarray[Any, Any]:
    """Codes by which the interpreter and ONNX Runtime differ."""
    declared = ", ".join(f"uint8[{', '.join(map(str, shape))}] {name}" for name, shape in shapes.items())
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> '
        f"net ({declared}) => (uint8 y) <{SCALES}{extra}> {{ {node} }}"
    )
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inputs = {name: RNG.integers(60, 190, shape).astype(np.uint8) for name, shape in shapes.items()}
    (expected,) = run_model(model, inputs).values()
    found = from_onnx(model)(*inputs.values())
    assert found.dtype == expected.dtype == np.uint8
    assert found.shape == expected.shape
    assert len(np.unique(expected)) > 3
    return np.abs(found.astype(int) - expected.astype(int))


@pytest.mark.parametrize(
    ("node", "shapes"),
    [
        (f"y = com.microsoft.QLinearAdd({A}, {B}, {Y})", TWO),
        (f"y = com.microsoft.QLinearAdd({A}, {B}, {Y})", {"a": (2, 3, 6), "b": (6,)}),
        (f"y = com.microsoft.QLinearMul({A}, {B}, {Y})", TWO),
        (f"y = com.microsoft.QLinearSigmoid({A}, {Y})", {"a": (4, 5)}),
        (f"y = com.microsoft.QLinearLeakyRelu<alpha = 0.2>({A}, {Y})", {"a": (4, 5)}),
        (f"y = com.microsoft.QLinearGlobalAveragePool({A}, {Y})", {"a": (4, 9, 6, 6)}),
        (f"y = com.microsoft.QLinearAveragePool<kernel_shape = [3, 2]>({A}, {Y})", {"a": (2, 3, 6, 6)}),
        (f"y = com.microsoft.QLinearConcat<axis = 1>({Y}, {A}, {B})", TWO),
        (f"y = com.microsoft.QGemm<transB = 1>({A}, {B}, c, {Y})", {"a": (3, 8), "b": (5, 8)}),
        (f"y = com.microsoft.QGemm<alpha = 0.5, transA = 1>({A}, {B}, c, {Y})", {"a": (8, 3), "b": (8, 5)}),
        (f"y = com.microsoft.QGemm({A}, {B}, , {Y})", {"a": (3, 8), "b": (8, 5)}),
    ],
)  # fmt: skip
def test_codes_are_those_of_onnxruntime(node: str, shapes: dict[str, tuple[int, ...]]) -> None:
    steps = apart(node, shapes, ", int32[5] c = {10, -900, 500, 0, 77}")
    assert steps.max() <= 1
    assert (steps > 0).sum() <= max(1, steps.size // 64)


def test_a_softmax_by_table_is_off_by_single_steps() -> None:
    node = "y = com.microsoft.QLinearSoftmax<axis = -1, opset = 13>(a, a_s, a_z, p_s, p_z)"
    assert apart(node, {"a": (6, 9)}, ", float p_s = {0.00390625}, uint8 p_z = {0}").max() <= 1


def test_codes_of_16_bits() -> None:
    node = "c = com.microsoft.DequantizeLinear(a, a_s, a_z) h = com.microsoft.QuantizeLinear(c, w_s, w_z) " \
        "d = com.microsoft.DequantizeLinear(h, w_s, w_z) y = QuantizeLinear(d, y_s, y_z)"  # fmt: skip
    assert apart(node, {"a": (6, 9)}, ", float w_s = {0.001}, uint16 w_z = {30000}").max() <= 1
