"""Quantized operators of ONNX Runtime's own domain, judged by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from cellbridge.converter import from_onnx
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.runtime import compile as compiled
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import CellbridgeError

MICROSOFT = "com.microsoft"


def model(
    operator: str,
    inputs: list[str],
    given: dict[str, Any],
    constants: dict[str, Any],
    outputs: tuple[Any, ...] = (np.uint8,),
    **options: Any,
) -> onnx.ModelProto:
    """One node; `constants` are initializers."""
    names = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(operator, inputs, names, domain=MICROSOFT, **options)

    def info(name: str, dtype: Any, shape: Any) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    declared = [info(name, array.dtype, ["n", *array.shape[1:]]) for name, array in given.items()]
    made = [info(name, dtype, None) for name, dtype in zip(names, outputs, strict=True)]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph([node], "net", declared, made, initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def agrees(made: onnx.ModelProto, given: dict[str, Any], rtol: float = 1e-5) -> None:
    """In the interpreter and compiled as the file in ONNX Runtime; integers but for single steps at ties."""
    expected_outputs = [*run_model(made, given).values()]
    program = from_onnx(made)
    for outputs in (program(*given.values()), compiled(program)(*given.values())):
        for y, expected in zip(outputs if isinstance(outputs, tuple) else (outputs,), expected_outputs, strict=True):
            assert y.dtype == expected.dtype
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(y, expected, rtol=rtol, atol=1e-5)
            else:
                apart = np.abs(y.astype(int) - expected.astype(int))
                assert y.shape == expected.shape
                assert apart.max() <= 1
                assert (apart > 0).mean() <= 0.02
                assert len(np.unique(expected)) > 3, "a test of nothing"


def integers(dtype: Any, *shape: int, seed: int = 0) -> Any:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def scale(value: float) -> Any:
    return np.float32(value)


def point(dtype: Any, value: int = 7) -> Any:
    return np.asarray(value, dtype)


DTYPES = [np.uint8, np.int8]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("points", [True, False])
def test_sums_and_products(dtype: Any, operator: str, points: bool) -> None:
    given = {"a": integers(dtype, 4, 6, 5), "b": integers(dtype, 1, 6, 5, seed=1)[:, :1]}
    constants = {"sa": scale(0.02), "sb": scale(0.03), "sc": scale(0.05), "za": point(dtype), "zb": point(dtype, 99)}
    constants["zc"] = point(dtype, 50)
    names = ["a", "sa", "za", "b", "sb", "zb", "sc", "zc"]
    if not points:  # ONNX Runtime needs the others
        names = names[:-1]
    made = model(operator, names, given, constants, (dtype,))
    made.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 1
    agrees(made, given)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearLeakyRelu", {}),
        ("QLinearSoftmax", {"opset": 13, "axis": 1}),
        ("QLinearSoftmax", {"opset": 11, "axis": 1}),
        ("QLinearSoftmax", {"opset": 13}),
    ],
)
def test_functions(dtype: Any, operator: str, options: dict[str, Any]) -> None:
    given = {"x": integers(dtype, 4, 3, 8)}
    constants = {"s": scale(0.03), "z": point(dtype, 100), "t": scale(1 / 256), "u": point(dtype, 0)}
    if operator == "QLinearLeakyRelu":
        constants |= {"t": scale(0.03), "u": point(dtype, 20)}
    agrees(model(operator, ["x", "s", "z", "t", "u"], given, constants, (dtype,), **options), given)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels_last", [0, 1])
def test_pools(dtype: Any, channels_last: int) -> None:
    given = {"x": integers(dtype, 2, 6, 7, 5)}
    constants = {"s": scale(0.03), "z": point(dtype, 30), "t": scale(0.02), "u": point(dtype, 10)}
    names = ["x", "s", "z", "t", "u"]
    agrees(model("QLinearGlobalAveragePool", names, given, constants, (dtype,), channels_last=channels_last), given)
    for options in (
        {"kernel_shape": [3, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "count_include_pad": 1},
        {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"},
    ):
        made = model("QLinearAveragePool", names, given, constants, (dtype,), channels_last=channels_last, **options)
        agrees(made, given)


@pytest.mark.parametrize("dtype", DTYPES)
def test_concat(dtype: Any) -> None:
    given = {"a": integers(dtype, 3, 4), "b": integers(dtype, 3, 2, seed=1)}
    constants = {"s": scale(0.02), "z": point(dtype), "t": scale(0.03), "u": point(dtype, 90), "v": scale(0.04)}
    names = ["v", "z", "a", "s", "z", "b", "t", "u"]
    agrees(model("QLinearConcat", names, given, constants, (dtype,), axis=-1), given)


def test_where() -> None:
    given = {"a": integers(np.uint8, 3, 9), "b": integers(np.uint8, 3, 9, seed=1)}
    constants = {"c": np.arange(9) % 2 == 0, "s": scale(0.02), "z": point(np.uint8), "t": scale(0.03)}
    names = ["c", "a", "s", "z", "b", "t", "z", "t", "z"]
    agrees(model("QLinearWhere", names, given, constants), given)


def seven_bits(*shape: int) -> np.ndarray[Any, Any]:
    """Weights of 7 bits: without VNNI, a CPU adds two products of uint8 and int8 in int16, which 8 bits overflow."""
    return integers(np.int8, *shape, seed=1) // np.int8(2)


@pytest.mark.parametrize("options", [{}, {"transA": 1}, {"transB": 1, "alpha": 0.5}])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("form", ["plain", "bias", "quantized"])
def test_gemm(options: dict[str, Any], columns: bool, form: str) -> None:
    given = {"a": integers(np.uint8, *((6, 4) if options.get("transA") else (4, 6)))}
    b = seven_bits(*((5, 6) if options.get("transB") else (6, 5)))
    scales = np.linspace(0.01, 0.03, 5).astype(np.float32) if columns else scale(0.02)
    zeros = np.zeros(5, np.int8) if columns else point(np.int8, 3)
    constants = {"s": scale(0.02), "z": point(np.uint8, 120), "b": b, "t": scales, "u": zeros}
    constants |= {"c": integers(np.int16, 5).astype(np.int32) // 4, "y": scale(0.1), "v": point(np.uint8, 128)}
    names = ["a", "s", "z", "b", "t", "u", *{"plain": [], "bias": ["c"], "quantized": ["c", "y", "v"]}[form]]
    made = model("QGemm", names, given, constants, (np.uint8 if form == "quantized" else np.float32,), **options)
    if options.get("transA"):
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 6
    agrees(made, given)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.every(2)
def test_products_of_integers_to_reals(columns: bool) -> None:
    given = {"a": integers(np.uint8, 2, 3, 6)}
    scales = np.linspace(0.01, 0.03, 5).astype(np.float32) if columns else scale(0.02)
    zeros = integers(np.int8, 5) if columns else point(np.int8, 3)
    constants = {"b": seven_bits(6, 5), "s": scale(0.02), "t": scales, "z": point(np.uint8, 120)}
    constants |= {"u": zeros, "bias": np.linspace(-1, 1, 5).astype(np.float32)}
    for names in (["a", "b", "s", "t"], ["a", "b", "s", "t", "z", "u"], ["a", "b", "s", "t", "z", "", "bias"]):
        agrees(model("MatMulIntegerToFloat", names, given, constants, (np.float32,)), given)
    x = {"x": np.random.default_rng(0).standard_normal((2, 3, 6)).astype(np.float32)}
    for names in (["x", "b", "t"], ["x", "b", "t", "u"], ["x", "b", "t", "u", "bias"]):
        agrees(model("DynamicQuantizeMatMul", names, x, constants, (np.float32,)), x, 1e-4)


def test_quantizers() -> None:
    x = {"x": np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)}
    constants = {"s": scale(0.02), "z": point(np.uint16, 30000), "t": np.float32([0.01, 0.02, 0.03, 0.04])}
    constants["u"] = np.array([1, 2, 3, 4], np.int8)
    agrees(model("QuantizeLinear", ["x", "s", "z"], x, constants, (np.uint16,)), x)
    agrees(model("QuantizeLinear", ["x", "t", "u"], x, constants, (np.int8,), axis=-1), x)
    whole = {"w": integers(np.int8, 3, 4)}
    agrees(model("DequantizeLinear", ["w", "t", "u"], whole, constants, (np.float32,), axis=1), whole)
    agrees(model("DequantizeLinear", ["w", "s"], whole, constants, (np.float32,)), whole)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("k", "block"), [(32, 16), (40, 32), (72, 16)])
@pytest.mark.parametrize("points", ["none", "packed", "real"])
def test_weights_of_few_bits(bits: int, k: int, block: int, points: str) -> None:
    if (bits, points) == (8, "real"):  # ONNX Runtime has no kernel for them
        points = "packed"
    n, blocks, rng = 5, -(-k // block), np.random.default_rng(0)
    x = {"x": rng.standard_normal((2, 3, k)).astype(np.float32)}
    constants = {
        "b": integers(np.uint8, n, blocks, block * bits // 8),
        "s": rng.uniform(0.01, 0.03, n * blocks).astype(np.float32),
        "z": integers(np.uint8, n * -(-blocks * bits // 8), seed=2),
        "bias": rng.standard_normal(n).astype(np.float32),
    }
    if points == "real":
        constants["z"] = rng.uniform(0, 2**bits, n * blocks).astype(np.float32)
    names = ["x", "b", "s", *([] if points == "none" else ["z"])]
    options = {"K": k, "N": n, "bits": bits, "block_size": block}
    agrees(model("MatMulNBits", names, x, constants, (np.float32,), **options), x, 1e-4)


def test_a_quantized_file_is_judged(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> net (float[n, 8] x) => (float[n, 8] y) {
        q = QuantizeLinear(x, s, z)
        sum = com.microsoft.QLinearAdd(q, s, z, q, s, z, t, z)
        squashed = com.microsoft.QLinearSigmoid(sum, t, z, u, zero)
        y = DequantizeLinear(squashed, u, zero)
    }"""
    made = onnx.parser.parse_model(text)
    constants = {"s": scale(0.02), "z": point(np.uint8, 128), "t": scale(0.04), "u": scale(1 / 256)}
    for name, array in {**constants, "zero": point(np.uint8, 0)}.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    path = str(tmp_path / "q.onnx")
    onnx.save(made, path)
    report = check_onnx(path)
    assert report.ok, str(report)


X8 = {"x": integers(np.uint8, 3, 4)}
CONSTANTS = {"s": scale(0.02), "z": point(np.uint8), "v": np.float32([1, 2, 3, 4]), "w": integers(np.uint8, 2, 2, 8)}


@pytest.mark.parametrize(
    ("operator", "names", "options", "message"),
    [
        ("QLinearAdd", ["x", "s", "z", "x"], {}, "its scale, is missing"),
        ("QLinearAdd", ["x", "s", "z", "x", "s", "z"], {}, "scale of the result is missing"),
        ("QLinearAdd", ["x", "v", "z", "x", "s", "z", "s", "z"], {}, "of 1 dimensions"),
        ("QLinearConcat", ["s", "z", "x", "s"], {"axis": 0}, "given 2 operands"),
        ("QLinearConcat", ["s", "z"], {"axis": 0}, "given 0 operands"),
        ("QLinearConcat", ["s", "z", "x", "s", "z"], {"axis": 2**40}, "out of range|axis"),
        ("QLinearSoftmax", ["x", "s", "z", "s", "z"], {}, "needed the attribute 'opset'"),
        ("QLinearAveragePool", ["x", "s", "z", "s", "z"], {"kernel_shape": [2**62, -1]}, "QLinearAveragePool"),
        ("QLinearAveragePool", ["x", "s", "z", "s", "z"], {"kernel_shape": [2, 2], "colour": 1}, "'colour'"),
        ("QGemm", ["x", "s", "z", "w", "s", "z"], {}, "needed matrices"),
        ("QGemm", ["x", "s", "z", "x", "s", "z"], {}, "QGemm"),
        ("MatMulNBits", ["x", "w", "s"], {"K": 2**62, "N": 2, "block_size": 16}, "no product of K"),
        ("MatMulNBits", ["x", "w", "s"], {"K": 32, "N": 2, "block_size": 17}, "in blocks of 17"),
        ("MatMulNBits", ["x", "w", "s"], {"K": 33, "N": 2, "block_size": 16}, r"needed B as uint8\[2, 3, 8\]"),
        ("MatMulNBits", ["x", "w", "s"], {"K": 32, "N": 2, "block_size": 16, "bits": 3}, "weights of 3 bits"),
        ("MatMulNBits", ["x", "w", "s"], {"K": 32, "N": 2, "block_size": 16}, "MatMulNBits"),
    ],
)
def test_nodes_that_can_not_be(operator: str, names: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(CellbridgeError, match=message):
        from_onnx(model(operator, names, X8, CONSTANTS, **options))
