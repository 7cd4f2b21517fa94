"""ONNX files whose inputs or outputs are sequences and optionals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from cellbridge import converter
from cellbridge.parity.onnx_comparison import compare_onnx
from cellbridge.parity.onnx_files import check_onnx
from tests.converter.test_onnx_in import model

TWICE = [
    "net (float[4] x) => (seq(float[4]) y) { y = SequenceConstruct(x, x) }",
    "net (float[4] x) => (seq(float[4]) y) { a = Exp(x)  y = SequenceConstruct(a, x, a, a) }",
    "net (float[4] x) => (seq(float[4]) y, float[4] a) { a = Exp(x)  y = SequenceConstruct(a, a) }",
]


@pytest.mark.parametrize("graph", TWICE)
def test_a_tensor_that_is_returned_more_than_once_has_the_gradient_of_each(graph: str, tmp_path: Path) -> None:
    made, path = model(graph), str(tmp_path / "a.onnx")
    onnx.save(made, path)
    report = check_onnx(path)
    assert report.ok, str(report)
    assert compare_onnx(path, path).ok
    program = converter.from_onnx(made)
    x, count = np.zeros(4, np.float32), len(program.outputs)
    cotangents = [np.full(4, 10.0**i, np.float32) for i in range(count)]
    _, gradients = program.value_and_grad(x, cotangents=cotangents)
    np.testing.assert_allclose(gradients.inputs[0], sum(cotangents))
