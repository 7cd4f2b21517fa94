"""Valid files with zeros, or with shapes that an input determines, are judged or refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from click.testing import CliRunner

from cellbridge.converter import from_onnx
from cellbridge.parity.cli import main

GRAPHS = {
    "codes of zeros": """(float[3] x) => (uint8[3] q, float s, uint8 z, float[3] y)
        { c = Constant <value = float[3] {0, 0, 0}> ()  q, s, z = DynamicQuantizeLinear (c)  y = Relu (x) }""",
    "codes of a difference": """(float[n] x) => (float[n] y)
        { a = Sub (x, x)  q, s, z = DynamicQuantizeLinear (a)  y = DequantizeLinear (q, s, z) }""",
    "zeros of a shape": "(float[1] x, int64[2] p) => (float[a, b] y) { c = ConstantOfShape (p)  y = Add (c, x) }",
    "draws of a shape": """(float[3] x, int64[2] p) => (float[a, b] y)
        { c = ConstantOfShape (p)  r = RandomNormalLike (c)  m = ReduceMax <keepdims = 0> (x)  y = Add (r, m) }""",
    "a range": """(float[1] x, int64 p) => (float[a] y) { z = Constant <value = int64 {0}> ()
        o = Constant <value = int64 {1}> ()  r = Range (z, p, o)  f = Cast <to = 1> (r)  y = Add (f, x) }""",
    "a window": "(float[1] x, int64 p) => (float[a] y) { w = BlackmanWindow (p)  y = Mul (w, x) }",
    "a symmetric window": "(float[1] x, int64 p) => (float[a] y) { w = HannWindow <periodic = 0> (p)  y = Mul (w, x) }",
    "slices": "(float[3, 4] x, int64[1] p, int64[1] q) => (float[a, b] y) { y = Slice (x, p, q) }",
    "pieces": """(float[n, 4] x) => (float[a, 4] y)
        { s = SplitToSequence <axis = 0> (x)  t = SequenceInsert (s, x)  y = ConcatFromSequence <axis = 0> (t) }""",
    "no rows": "(float[0, 4] x) => (float[4, 4] y) { t = Transpose (x)  y = MatMul (t, x) }",
    "2 ** 60 iterations": """(float[3] x) => (float[3] y) { M = Constant <value = int64 {1152921504606846976}> ()
        yes = Constant <value = bool {1}> ()
        y = Loop (M, yes, x) <body = b (int64 i, bool c, float[3] h) => (bool d, float[3] k)
            { d = Identity (c)  k = Neg (h) }> }""",
}
SIZES = {name: np.array([2, 3], np.int64) for name in ("zeros of a shape", "draws of a shape")}
REFUSED = {"2 ** 60 iterations": "loops run more than 16384 iterations"}


@pytest.mark.every(2)
@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("kind", GRAPHS)
def test_no_bug_of_ours(tmp_path: Path, kind: str, command: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> net {GRAPHS[kind]}')
    onnx.save(model, tmp_path / "m.onnx")
    words = [command, *[str(tmp_path / "m.onnx")] * (2 if command == "compare" else 1), "--no-probe"]
    if kind in SIZES:
        inputs = {v.name: SIZES[kind] for v in model.graph.input if v.name == "p"}
        shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
        np.savez(tmp_path / "inputs.npz", x=np.ones(shape, np.float32), **inputs)
        words += ["--inputs", str(tmp_path / "inputs.npz")]
    result = CliRunner().invoke(main, words)
    assert "bug in parity" not in result.output
    assert "a fault in cellbridge" not in result.output
    assert result.exit_code == (2 if kind in REFUSED else 0), result.output
    assert REFUSED.get(kind, "") in result.output


def test_codes_of_zeros_are_those_of_onnxruntime() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> net (float[3] x) => (uint8[3] q, float s, uint8 z)
        { q, s, z = DynamicQuantizeLinear (x) }"""
    )
    zeros = np.zeros(3, np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert list(map(np.ndarray.tolist, from_onnx(model)(zeros))) == [
        x.tolist() for x in session.run(None, {"x": zeros})
    ]
