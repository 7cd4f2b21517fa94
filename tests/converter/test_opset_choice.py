"""Which opset a model is written in: the lowest that holds it without loss, or the one asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cellbridge.converter import from_onnx, from_torch, to_onnx
from cellbridge.runtime import ConversionError, UsageError
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.lowering import opsets
from cellbridge.runtime.ops.random import use_seed


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


X, IMAGE, HEADS = torch.randn(3, 4), torch.randn(1, 4, 6, 6), torch.randn(1, 2, 3, 4)
# which opset each is written in, for which operator, and what is in the file
LOWEST: dict[str, tuple[nn.Module, torch.Tensor, int, str]] = {
    "conv": (nn.Conv2d(4, 3, 3), IMAGE, 17, "Conv"),
    "layer_norm": (nn.LayerNorm(4), X, 17, "LayerNormalization"),
    "mean": (Function(lambda x: x.mean(1)), X, 17, "ReduceMean"),
    "silu": (nn.SiLU(), X, 17, "Sigmoid"),
    "cumprod": (Function(lambda x: x.cumprod(1)), X, 17, "Scan"),
    "gelu64": (nn.GELU().double(), X.double(), 17, "Where"),
    "mish": (nn.Mish(), X, 18, "Mish"),
    "pad": (Function(lambda x: F.pad(x, (1, 1))), X, 18, "Pad"),
    "bits": (Function(lambda x: (x * 9).int() & 6), X, 18, "BitwiseAnd"),
    "gelu": (nn.GELU(), X, 20, "Gelu"),
    "attention": (Function(lambda x: F.scaled_dot_product_attention(x, x, x)), HEADS, 23, "Attention"),
    "rms_norm": (nn.RMSNorm(4), X, 23, "RMSNormalization"),
    "all": (nn.Sequential(nn.GELU(), nn.Mish(), nn.RMSNorm(4), nn.GELU()), X, 23, "Gelu"),
}


@pytest.mark.parametrize("name", LOWEST)
def test_the_lowest_opset_that_holds_the_model(name: str) -> None:
    module, x, opset, operator = LOWEST[name]
    program = from_torch(module.eval(), (x,))
    model = to_onnx(program)
    assert model.opset_import[0].version == opset
    assert operator in {node.op_type for node in model.graph.node}
    (given,) = (i.name for i in model.graph.input)
    for written in (model, to_onnx(program, opset=opset), to_onnx(program, opset=23)):
        (y,) = run_model(written, {given: x.numpy()}).values()
        np.testing.assert_allclose(y, program(x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["mish", "gelu", "attention", "rms_norm", "all"])
def test_an_older_opset_takes_apart_what_it_lacks(name: str) -> None:
    module, x, _, _ = LOWEST[name]
    program = from_torch(module.eval(), (x,))
    model = to_onnx(program, opset=17)
    (y,) = run_model(model, {model.graph.input[0].name: x.numpy()}).values()
    np.testing.assert_allclose(y, program(x), rtol=2e-5, atol=2e-6)


def test_what_an_opset_lacks_and_nothing_stands_for_is_refused_in_it() -> None:
    module, x, _, _ = LOWEST["bits"]
    with pytest.raises(ConversionError, match="ONNX has BitwiseAnd from opset 18 on"):
        to_onnx(from_torch(module, (x,)), opset=17)


def bits_of_numbers() -> onnx.ModelProto:
    text = '<ir_version: 10, opset_import: ["" : 26]> g (float[3] x) => (int32[3] y) { y = BitCast<to = 6>(x) }'
    return onnx.parser.parse_model(text)


def test_beyond_the_best_opset_only_where_nothing_else_says_it() -> None:
    program = from_onnx(bits_of_numbers())
    model = to_onnx(program)
    assert opsets.describe(model) == "opset 26, the lowest with BitCast"
    x = np.array([1, -2, 0.5], np.float32)
    (y,) = run_model(model, {"x": x}).values()
    np.testing.assert_array_equal(y, x.view(np.int32))


def test_random_draws_have_no_kernels_in_newer_opsets() -> None:
    both = Function(lambda x: F.scaled_dot_product_attention(x, x, x) + torch.rand_like(x))
    with use_seed(0):
        model = to_onnx(from_torch(both, (HEADS,)))
    assert model.opset_import[0].version <= opsets.WITH_DRAWS
    assert "Attention" not in {node.op_type for node in model.graph.node}
    run_model(model, {model.graph.input[0].name: HEADS.numpy()})


def test_an_opset_that_is_asked_for_gives_its_operators() -> None:
    program = from_torch(Function(lambda x: F.silu(x).cumprod(1)), (X,))
    model = to_onnx(program, opset=26)
    # ONNX Runtime (1.31, 1.32) has no kernel for Swish, and takes it apart in opset 24 only
    assert {"Sigmoid", "CumProd"} <= {node.op_type for node in model.graph.node}
    assert opsets.describe(model) == "opset 26, asked for"
    (y,) = run_model(model, {model.graph.input[0].name: X.numpy()}).values()
    np.testing.assert_allclose(y, program(X), rtol=2e-5, atol=2e-6)


def test_what_a_file_says_of_its_opset() -> None:
    assert opsets.describe(to_onnx(from_torch(nn.GELU(), (X,)))) == "opset 20, the lowest with Gelu"
    assert opsets.describe(to_onnx(from_torch(nn.ReLU(), (X,)))) == "opset 17, the lowest that is written"


def test_an_opset_that_onnxruntime_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opsets, "newest", lambda: 26)
    opsets.require_loadable(26)
    with pytest.raises(UsageError, match="loads models up to opset 26: one of opset 27 can't be checked"):
        opsets.require_loadable(27)
    assert to_onnx(from_torch(nn.SiLU(), (X,)), opset=28).opset_import[0].version == 28
