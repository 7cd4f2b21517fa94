"""Operators of ONNX Runtime's own domain, judged by ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from cellbridge.converter import from_onnx
from cellbridge.runtime.compiled.session import run_model

RNG = np.random.default_rng(0)
KINDS = {"float32": "float", "int32": "int32", "int64": "int64", "uint8": "uint8", "int8": "int8", "bool": "bool"}


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    return RNG.integers(low, high, shape).astype(dtype)


def agrees(
    nodes: str, outputs: str = "float y", *, opset: int = 17, ml: int = 3, **inputs: np.ndarray[Any, Any]
) -> None:
    """A graph gives in the interpreter what it gives in ONNX Runtime: at its sizes, and with open ones."""
    for named in (False, True):
        declared = []
        for name, array in inputs.items():
            dims = [
                "n" if named and size == 2 and i == 0 and array.ndim > 2 else size for i, size in enumerate(array.shape)
            ]
            kind = KINDS[array.dtype.name]
            declared.append(f"{kind}[{', '.join(map(str, dims))}] {name}" if dims else f"{kind} {name}")
        text = (
            f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1, "ai.onnx.ml" : {ml}]> '
            f"net ({', '.join(declared)}) => ({outputs}) {{ {nodes} }}"
        )
        model = onnx.parser.parse_model(text)
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        expected = list(run_model(model, inputs).values())
        results = from_onnx(model)(*inputs.values())
        for y, expected_array in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
            assert y.dtype == expected_array.dtype
            np.testing.assert_allclose(y, expected_array, rtol=2e-5, atol=2e-6)


X, BIAS = floats(2, 5, 8), floats(8)


@pytest.mark.parametrize(
    "node",
    [
        "y = com.microsoft.Gelu(x)",
        "y = com.microsoft.FastGelu(x)",
        "y = com.microsoft.QuickGelu(x)",
        "y = com.microsoft.QuickGelu<alpha = 1.5>(x)",
    ],
)
def test_activations(node: str) -> None:
    agrees(node, x=X)


def test_activations_with_a_bias() -> None:
    agrees("y = com.microsoft.BiasGelu(x, b)", x=X, b=BIAS)
    agrees("y = com.microsoft.FastGelu(x, b)", x=X, b=BIAS)


@pytest.mark.parametrize(
    "options", ["", "alpha = 0.5", "transB = 1", "transA = 1, alpha = 2.0", "transA = 1, transB = 1"]
)
def test_products(options: str) -> None:
    a = floats(2, 5, 3) if "transA" in options else floats(2, 3, 5)
    b = floats(2, 4, 5) if "transB" in options else floats(2, 5, 4)
    agrees(
        f"y = com.microsoft.FusedMatMul<{options}>(a, b)" if options else "y = com.microsoft.FusedMatMul(a, b)",
        a=a,
        b=b,
    )


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
def test_products_and_convolutions_that_end_in_an_activation(activation: str) -> None:
    options = f'activation = "{activation}", activation_alpha = 0.1'
    agrees(f"y = com.microsoft.FusedGemm<{options}>(a, b, c)", a=floats(2, 3), b=floats(3, 4), c=floats(4))
    parameters = ", activation_params = [0.1]" if activation == "LeakyRelu" else ""
    conv = f'y = com.microsoft.FusedConv<activation = "{activation}", kernel_shape = [3]{parameters}>'
    agrees(f"{conv}(x, w, b)", x=floats(2, 4, 9), w=floats(6, 4, 3), b=floats(6))


def test_normalizations() -> None:
    skip = floats(2, 5, 8)
    agrees("y = com.microsoft.SkipLayerNormalization(x, s, g, b)", x=X, s=skip, g=floats(8), b=BIAS)
    agrees(
        "y, m, i, t = com.microsoft.SkipLayerNormalization<epsilon = 0.01>(x, s, g, b, c)".replace("m, i,", ",,"),
        "float y, float t", x=X, s=skip, g=floats(8), b=BIAS, c=floats(8),
    )  # fmt: skip
    agrees("y = com.microsoft.SkipSimplifiedLayerNormalization(x, s, g)", x=X, s=skip, g=floats(8))
    agrees("y = SimplifiedLayerNormalization<axis = -1, epsilon = 0.001>(x, g)", x=X, g=floats(8))


def test_embeddings() -> None:
    tables = {"w": floats(11, 8), "p": floats(7, 8), "s": floats(2, 8), "g": floats(8), "b": floats(8)}
    ids, segments = integers(0, 11, 2, 5), integers(0, 2, 2, 5)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    agrees(
        "y, m = com.microsoft.EmbedLayerNormalization(i, k, w, p, s, g, b, q)", "float y, int32 m",
        i=ids, k=segments, **tables, q=mask,
    )  # fmt: skip


MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


@pytest.mark.parametrize(
    ("options", "operands", "more"),
    [
        ("", "x, w, b", {}),
        ("unidirectional = 1,", "x, w, b", {}),
        ("scale = 0.3,", "x, w, b", {}),
        ("", "x, w, b, m", {"m": MASK}),
        ("unidirectional = 1,", "x, w, b, m", {"m": MASK}),
        ("", "x, w, b, m", {"m": np.array([3, 5], np.int32)}),
        ("", "x, w, b, , , a", {"a": floats(2, 2, 5, 5)}),
    ],
)
def test_attention(options: str, operands: str, more: dict[str, Any]) -> None:
    inputs = {"x": X, "w": floats(8, 24), "b": floats(24)} | more
    agrees(f"y = com.microsoft.Attention<{options} num_heads = 2>({operands})", **inputs)


def test_attention_with_a_past() -> None:
    node = "y, p = com.microsoft.Attention<unidirectional = 1, num_heads = 2>(x, w, b, , q)"
    agrees(node, "float y, float p", x=X, w=floats(8, 24), b=floats(24), q=floats(2, 2, 2, 3, 4))


@pytest.mark.parametrize(
    ("options", "operands", "more"),
    [
        ("", "q, k, v", {}),
        ("scale = 0.2,", "q, k, v, b", {"b": floats(24)}),
        ("", "q, k, v, , m", {"m": np.array([[1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1, 0]], np.int32)}),
        ("", "q, k, v, , , a", {"a": floats(2, 2, 5, 6)}),
    ],
)
def test_multi_head_attention(options: str, operands: str, more: dict[str, Any]) -> None:
    inputs = {"q": X, "k": floats(2, 6, 8), "v": floats(2, 6, 8)} | more
    agrees(f"y = com.microsoft.MultiHeadAttention<{options} num_heads = 2>({operands})", **inputs)


def test_multi_head_attention_with_a_past() -> None:
    node = "y, a, c = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v, , , , p, r)"
    inputs = {"q": X, "k": floats(2, 5, 8), "v": floats(2, 5, 8), "p": floats(2, 2, 3, 4), "r": floats(2, 2, 3, 4)}
    agrees(node, "float y, float a, float c", **inputs)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", [np.array([3]), np.array([[0, 1, 2, 3, 4], [4, 2, 3, 1, 0]])])
def test_rotary_embedding(interleaved: int, positions: Any) -> None:
    caches = {"c": floats(9, 2), "s": floats(9, 2)}
    node = f"y = com.microsoft.RotaryEmbedding<interleaved = {interleaved}>(x, p, c, s)"
    agrees(node, x=X, p=positions, **caches)
    agrees(node, x=floats(2, 3, 5, 4), p=positions, **caches)
