"""A quantized file in ONNX Runtime, judged from the codes of float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.quantized.quantizers import Quantizer
from cellbridge.parity.sides.quantized_steps import CodesOfFloat64

INT8 = np.dtype(np.int8)


def chain(per_channel: bool) -> onnx.ModelProto:
    """A quantizer inside a network, whose ties are rounded either way, and a product after it that spreads them."""
    scale = np.linspace(0.05, 0.11, 16).astype(np.float32) if per_channel else np.array(0.1, np.float32)
    zero = np.zeros(scale.shape, np.int8)
    weight = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32) * 20
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["h"]),
        helper.make_node("QuantizeLinear", ["h", "scale", "zero"], ["q"], axis=1),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], axis=1),
        helper.make_node("MatMul", ["d", "weight"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "last", "none"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "last", "none"], ["y"]),
    ]
    tensors = {"scale": scale, "zero": zero, "weight": weight, "factor": np.array(1.1, np.float32)}
    tensors |= {"last": np.array(0.7, np.float32), "none": np.array(0, np.int8)}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, n]) for name, n in (("x", 16), ("y", 64))]
    graph = helper.make_graph(
        nodes, "g", infos[:1], infos[1:], [numpy_helper.from_array(a, name) for name, a in tensors.items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def ties(per_channel: bool) -> np.ndarray:
    """Inputs that lie between two steps, as far as float32 can tell."""
    codes = np.random.default_rng(1).integers(-20, 20, (8, 16)) + 0.5
    scale = np.linspace(0.05, 0.11, 16) if per_channel else 0.1
    return (codes * scale / 1.1).astype(np.float32)


@pytest.mark.parametrize("per_channel", [False, True])
def test_what_follows_a_tie_is_judged_from_the_same_codes(per_channel: bool, tmp_path: Path) -> None:
    onnx.save(chain(per_channel), tmp_path / "chain.onnx")
    x = ties(per_channel)
    x[:7] = np.round(x[:7], 1) + np.float32(0.012)  # few ties
    np.savez(tmp_path / "x.npz", x=x)
    report = check_onnx(str(tmp_path / "chain.onnx"), inputs=str(tmp_path / "x.npz"))
    assert report.ok, str(report)


def test_codes_that_differ_by_more_than_a_step_are_a_misfit() -> None:
    model = chain(False)
    cut = CodesOfFloat64(model, "cpu")
    assert cut.run({"x": ties(False)}) is not None
    assert not [each for each in cut.mismatches if "steps" in each.reason]
    wrong = CodesOfFloat64(model, "cpu")
    right = wrong._codes_in_float64
    wrong._codes_in_float64 = lambda inputs: {
        n: np.clip(a, -100, 100) + 2 * (n == "r") for n, a in right(inputs).items()
    }  # type: ignore[method-assign]
    wrong.run({"x": ties(False)})
    assert any(each.tensor == "codes r" and "steps" in each.reason for each in wrong.mismatches)


def test_many_single_steps_are_a_misfit() -> None:
    cut = CodesOfFloat64(chain(False), "cpu")
    cut._require_few("r", np.zeros(1000, np.int8), np.arange(1000).astype(np.int8) % 2)
    assert len(cut.mismatches) == 1
    cut._require_few("r", np.zeros(1000, np.int8), (np.arange(1000) < 5).astype(np.int8))
    assert len(cut.mismatches) == 1


def test_steps_are_counted_by_channel() -> None:
    quantizer = Quantizer("s", np.array([0.1, 1.0]), np.array([0.0, 3.0]), INT8, axis=1)
    codes = np.array([[1, 5]], np.int8)
    np.testing.assert_allclose(quantizer.numbers(codes), [[0.1, 2.0]])
    np.testing.assert_allclose(quantizer.steps_between(codes, np.array([[0.15, 3.0]])), [[0.5, 1.0]], atol=1e-5)
    np.testing.assert_allclose(quantizer.beyond(np.array([[0.0, 130.0]])), [[0.0, 5.5]])
