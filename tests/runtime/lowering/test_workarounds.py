"""Each fault that lowered models avoid is there in the versions that are said to have it, and in no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from cellbridge import runtime
from cellbridge.runtime.lowering.workarounds import WORKAROUNDS

Array = np.ndarray[Any, Any]
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


def run(op: str, *inputs: Array, **attributes: Any) -> Array:
    """What the bare operator gives."""
    names = [f"x{i}" for i in range(len(inputs))]
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
    ]
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", given, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(zip(names, inputs, strict=True)))[0])


def lacks_kernel(op: str, *inputs: Array) -> bool:
    try:
        run(op, *inputs)
    except NoKernel:
        return True
    return False


def int64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def float32(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def transform_error(dtype: Any, size: int, inverse: int) -> float:
    x = np.random.default_rng(0).normal(size=(1, size, 2)).astype(dtype)
    y = run("DFT", x, inverse=inverse)[0].astype(np.float64)
    exact = (np.fft.ifft if inverse else np.fft.fft)(x[0].astype(np.float64) @ [1, 1j])
    return float(np.abs(y @ [1, 1j] - exact).max() / np.abs(exact).max())


ROWS = np.array([[-np.inf, -200, -200]] * 2, np.float32)
LARGE = 2**40 + 2**31 + 1
FAULTS: dict[str, Callable[[], bool]] = {
    "sum of int64": lambda: int(run("ReduceSum", int64(2**53 + 1, 0), keepdims=0)) != 2**53 + 1,
    "log-sum-exp after -inf": lambda: np.isneginf(run("ReduceLogSumExp", ROWS, int64(1), keepdims=0)).all(),
    "order of int64": lambda: int(run("Max", int64(*[LARGE + 4] * 16), int64(*[LARGE - 2**31] * 16))[0]) != LARGE + 4,
    "mean of nothing": lambda: not np.isnan(run("ReduceMean", float32(), keepdims=0)),
    "power of int64": lambda: int(run("Pow", int64(3), int64(39))[0]) != 3**39,
    "remainder of int64": lambda: int(run("Mod", int64(2**60 + 1), int64(2), fmod=1)[0]) != 1,
    "absent bound": lambda: not np.isinf(run("Clip", float32(np.inf), np.array(0, np.float32))[0]),
    "convolution of float64": lambda: lacks_kernel("Conv", np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2))),
    "transform of float32": lambda: transform_error(np.float32, 997, 0) > 1e-5,
    "inverse transform of float64": lambda: transform_error(np.float64, 7, 1) > 1e-12,
    "choice between bools": lambda: lacks_kernel("Where", *[np.array([True])] * 3),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_there_as_long_as_it_is_said_to_be(name: str) -> None:
    mended = WORKAROUNDS[name].mended
    is_faulty = mended is None or mended > VERSION
    if name == "order of int64" and is_faulty:
        return  # on processors with AVX-512 alone
    assert FAULTS[name]() == is_faulty


def test_every_workaround_is_tried() -> None:
    assert FAULTS.keys() == WORKAROUNDS.keys()


def test_every_workaround_stands_where_it_is_said_to() -> None:
    for workaround in WORKAROUNDS.values():
        assert (Path(runtime.__file__).parent / workaround.avoided_in).is_file()
