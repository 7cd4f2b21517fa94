"""Operators of ONNX as ONNX Runtime has them, without anything of this project.

It loads quickly, for the processes that a fault ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
LEAST = np.iinfo(np.int64).min


def results(nodes: list[Any], threads: int = 0, outputs: tuple[str, ...] = ("y",), **inputs: Array) -> list[Array]:
    """What the nodes give of the inputs, by name."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in inputs.items()}
    given = [helper.make_tensor_value_info(name, kinds[name], x.shape) for name, x in inputs.items()]
    declared_outputs = [helper.make_tensor_value_info(name, next(iter(kinds.values())), None) for name in outputs]
    graph = helper.make_graph(nodes, "g", given, declared_outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(y) for y in session.run(None, inputs)]


def run(op: str, *inputs: Array, **attributes: Any) -> Array:
    """What the bare operator gives."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    return results([node], **dict(zip(names, inputs, strict=True)))[0]


def constant(name: str, x: Array) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(x))


def int64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def float32(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def scan(axis: int) -> None:
    """A running sum over no elements."""
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("s", "e", "t", "o")]
    steps = [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["o"])]
    body = helper.make_graph(steps, "b", kinds[:2], kinds[2:])
    node = helper.make_node("Scan", ["first", "x"], ["y", "z"], body=body, num_scan_inputs=1, scan_input_axes=[axis])
    x = np.zeros((0, 2) if axis == 0 else (2, 0), np.float32)
    results([node], outputs=("y", "z"), first=float32(0, 0), x=x)


def recurrent(op: str) -> None:
    """A layer of size 1 on no sequences."""
    weight = np.ones((1, 4 if op == "LSTM" else 3, 1), np.float32)
    run(op, np.zeros((2, 0, 1), np.float32), weight, weight, hidden_size=1)
