"""Each fault that lowered models avoid is there in the versions that are said to have it, and in no other."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RuntimeException
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from cellbridge import runtime
from cellbridge.converter import from_torch, to_onnx
from cellbridge.runtime import workarounds
from cellbridge.runtime.providers import find
from cellbridge.runtime.workarounds import OLDEST, WORKAROUNDS, is_needed
from tests.converter.capturing import Function
from tests.runtime.lowering.bare_operators import Array, constant, float32, int64, results, run, scan

ROOT = Path(__file__).parents[2]
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


def lacks_kernel(op: str, *inputs: Array, **attributes: Any) -> bool:
    try:
        run(op, *inputs, **attributes)
    except (NoKernel, RuntimeException):
        return True
    return False


def transform_error(dtype: Any, size: int, inverse: int) -> float:
    x = np.random.default_rng(0).normal(size=(1, size, 2)).astype(dtype)
    y = run("DFT", x, inverse=inverse)[0].astype(np.float64)
    exact = (np.fft.ifft if inverse else np.fft.fft)(x[0].astype(np.float64) @ [1, 1j])
    return float(np.abs(y @ [1, 1j] - exact).max() / np.abs(exact).max())


def sums_lose_slices() -> bool:
    """Of threads that add to one place, in one of some runs."""
    zero, places, ones = np.zeros((1, 1), np.float32), np.zeros((10**6, 1), np.int64), np.ones((10**6, 1), np.float32)
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")
    return any(results([node], 8, x=zero, i=places, u=ones)[0][0, 0] != 10**6 for _ in range(20))


def row_error() -> float:
    x = np.full((65536, 8), 0.1, np.float32)
    exact = x.astype(np.float64).sum(0)
    y = run("ReduceSum", x, int64(0), keepdims=0)
    return float(np.abs(y / exact - 1).max())


def run_where(chosen: Array, rejected: Array) -> Array:
    """`chosen`, which is the second operand of Where."""
    node = helper.make_node("Where", ["c", "a", "b"], ["y"])
    is_chosen = helper.make_node("Equal", ["a", "a"], ["c"])
    return results([is_chosen, node], a=chosen, b=rejected)[0]


def scan_fails() -> bool:
    try:
        scan(0)
    except Fail:
        return True
    return False


def product_error() -> float:
    matrix, vector = np.arange(6, dtype=np.float32).reshape(2, 3), float32(1, 2)
    nodes = [helper.make_node("Transpose", ["a"], ["t"]), helper.make_node("MatMul", ["t", "v"], ["y"])]
    return float(np.abs(results(nodes, a=matrix, v=vector)[0] - matrix.T @ vector).max())


def factor_error() -> float:
    x, third = np.random.default_rng(0).normal(size=(3, 3)), np.array(1 / 3)
    nodes = [
        constant("f", third),
        helper.make_node("Mul", ["x", "f"], ["s"]),
        helper.make_node("MatMul", ["s", "x"], ["y"]),
    ]
    return float(np.abs(results(nodes, x=x)[0] - (x * third) @ x).max())


def padding_is_lost() -> bool:
    nodes = [
        constant("p", int64(0, 0, 1, 1, 0, 0, 1, 1)),
        helper.make_node("Pad", ["x", "p"], ["t"]),
        helper.make_node("MaxPool", ["t"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    return bool((results(nodes, x=-np.ones((1, 1, 2, 2), np.float32))[0] != 0).any())


def ends_process(statement: str) -> bool:
    """Whether a statement in the terms of `bare_operators` ends a process of its own by a signal."""
    code = f"from tests.runtime.lowering.bare_operators import *; {statement}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode <= 0, done.stderr.decode()
    return done.returncode < 0


ROWS = np.array([[-np.inf, -200, -200]] * 2, np.float32)
LARGE = 2**40 + 2**31 + 1
FAULTS: dict[str, Callable[[], bool]] = {
    "sum of int64": lambda: int(run("ReduceSum", int64(2**53 + 1, 0), keepdims=0)) != 2**53 + 1,
    "log-sum-exp after -inf": lambda: np.isneginf(run("ReduceLogSumExp", ROWS, int64(1), keepdims=0)).all(),
    "maximum of int64": lambda: int(run("Max", int64(*[LARGE + 4] * 16), int64(*[LARGE - 2**31] * 16))[0]) != LARGE + 4,
    "mean of an empty tensor": lambda: not np.isnan(run("ReduceMean", float32(), keepdims=0)),
    "power of int64": lambda: int(run("Pow", int64(3), int64(39))[0]) != 3**39,
    "remainder of int64": lambda: int(run("Mod", int64(2**60 + 1), int64(2), fmod=1)[0]) != 1,
    "sign of zero": lambda: not np.signbit(run_where(float32(-0.0), float32(1))),
    "absent bound": lambda: not np.isinf(run("Clip", float32(np.inf), np.array(0, np.float32))[0]),
    "convolution of float64": lambda: lacks_kernel("Conv", np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2))),
    "DFT of float32": lambda: transform_error(np.float32, 997, 0) > 1e-5,
    "inverse DFT of float64": lambda: transform_error(np.float64, 7, 1) > 1e-12,
    "Where on bool": lambda: lacks_kernel("Where", *[np.array([True])] * 3),
    "scatter-add of float16": lambda: lacks_kernel(
        "ScatterElements", np.zeros(2, np.float16), int64(0), np.ones(1, np.float16), reduction="add"
    ),
    "scatter-add to one index": sums_lose_slices,
    "sum over many rows": lambda: row_error() > 1e-4,
    "last axis of an empty tensor": lambda: (
        run("ReduceSum", np.zeros((3, 0), np.int64), int64(-1), keepdims=0).ndim == 2
    ),
    "Scan over an empty axis": scan_fails,
    "Scan over an empty axis that isn't the first": lambda: ends_process("scan(1)"),
    "smallest integer divided by -1": lambda: ends_process("run('Div', int64(LEAST), int64(-1))"),
    "remainder of the smallest integer by -1": lambda: ends_process("run('Mod', int64(LEAST), int64(-1))"),
    "LSTM on an empty batch": lambda: ends_process("recurrent('LSTM')"),
    "GRU on an empty batch": lambda: ends_process("recurrent('GRU')"),
    "transposed matrix times vector": lambda: product_error() > 1,
    "float64 factor of a product": lambda: factor_error() > 1e-12,
    "padding before a pool": padding_is_lost,
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_shows_exactly_in_the_versions_without_a_fix(name: str) -> None:
    fixed_in = WORKAROUNDS[name].fixed_in
    is_faulty = fixed_in is None or fixed_in > VERSION
    if name == "maximum of int64" and is_faulty:
        return  # on processors with AVX-512 alone
    assert FAULTS[name]() == is_faulty


def unused_input_shifts_others(ort_name: str) -> bool:
    """Whether a provider takes another input for the one that follows an unused one."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "uaxy"]
    nodes = [helper.make_node("Relu", ["a"], ["x"]), helper.make_node("Neg", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "unused", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[ort_name])
    given = {"u": np.array([5, 6], np.float32), "a": np.array([1, 2], np.float32)}
    (x, y) = session.run(None, given)
    return not (np.array_equal(x, given["a"]) and np.array_equal(y, -given["a"]))


def attention_is_not_read(ort_name: str) -> bool:
    """Whether a provider refuses a model with Attention, whose other operators it runs."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 3, 4]) for name in "qkvy"]
    graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v"], ["y"])], "one", values[:3], values[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=[ort_name], enable_fallback=0)
    except (Fail, RuntimeException):
        return True
    return False


OF_PROVIDERS: dict[str, Callable[[str], bool]] = {
    "attention as one operator": attention_is_not_read,
    "unused input": unused_input_shifts_others,
}


@pytest.mark.parametrize("name", OF_PROVIDERS)
def test_a_fault_of_a_provider_shows_exactly_in_the_versions_without_a_fix(name: str) -> None:
    workaround = WORKAROUNDS[name]
    ort_name = find(workaround.provider).ort_name
    if ort_name not in onnxruntime.get_available_providers():
        pytest.skip(f"the installed ONNX Runtime has no {workaround.provider}")
    assert OF_PROVIDERS[name](ort_name) == (workaround.fixed_in is None or workaround.fixed_in > VERSION)


def test_every_workaround_is_tried() -> None:
    assert {*FAULTS, *OF_PROVIDERS} == WORKAROUNDS.keys()
    assert all((WORKAROUNDS[name].provider == "cpu") == (name in FAULTS) for name in WORKAROUNDS)


def test_the_processor_has_no_fault_of_a_provider() -> None:
    assert not any(shows("CPUExecutionProvider") for shows in OF_PROVIDERS.values())


def test_every_workaround_stands_where_it_is_said_to() -> None:
    for workaround in WORKAROUNDS.values():
        assert (Path(runtime.__file__).parent / workaround.avoided_in).is_file()


def test_a_process_that_goes_on_is_not_ended() -> None:
    assert not ends_process("run('Div', int64(LEAST), int64(1))")


def test_the_oldest_version_is_that_of_the_project() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = [text for text in dependencies if text.startswith("onnxruntime")]
    assert bounds
    assert all(f">={OLDEST[0]}.{OLDEST[1]}," in bound for bound in bounds)


def test_a_direct_form_is_written_once_no_supported_version_has_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_needed("maximum of int64")
    monkeypatch.setattr(workarounds, "OLDEST", (1, 32))
    assert not is_needed("maximum of int64")
    assert is_needed("sum over many rows")
    a, b = int64(*[LARGE + 4] * 16), int64(*[LARGE - 2**31] * 16)
    order = Function(lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)))
    program = from_torch(order, (torch.from_numpy(a), torch.from_numpy(b)))
    model = to_onnx(program)
    assert [node.op_type for node in model.graph.node] == ["Max", "Min"]
    if VERSION >= (1, 32):
        for result, expected in zip(runtime.compile(program)(a, b), (a, b), strict=True):
            np.testing.assert_array_equal(result, expected)
