"""Running an ONNX model in ONNX Runtime on NumPy arrays."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime.capi.onnxruntime_pybind11_state as ort_errors

from ...runtime.errors import UsageError
from ...runtime.ir.types import BFLOAT16
from ...runtime.lowering.graph import CELL, SOURCE

Array = np.ndarray[Any, Any]

THREADS = 2
# float32 means float32: by default the CUDA provider multiplies matrices in TF32, with a mantissa of 10 bits
PROVIDERS: dict[str, list[Any]] = {
    "cpu": ["CPUExecutionProvider"],
    "cuda": [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"],
}
FATAL_ONLY = 4  # ONNX Runtime's log level; its errors are raised as exceptions too
ORT_ERRORS = (
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)


class SessionError(UsageError):
    """ONNX Runtime can't run a model; the message names the operator and its Cell where that is known."""


def run_model(
    model: onnx.ModelProto | str | PathLike[str],
    inputs: Mapping[str, Array],
    *,
    provider: str = "cpu",
    outputs: Sequence[str] | None = None,
) -> dict[str, Array]:
    """Run a model once.

    Args:
        model: the model, or the path of its file (needed where tensors are in a file beside it).
        inputs: one array per input of the model, by name, with its dtype (bfloat16 and float16 too) and shape.
        provider: "cpu" or "cuda".
        outputs: names of the outputs to compute; all of them if not given.

    Returns:
        The outputs by name.

    Raises:
        SessionError: ONNX Runtime doesn't take the model, or fails to run it.
        UsageError: the provider isn't available here, or the inputs aren't the model's.
    """
    session = _session(model, provider)
    needed = [node.name for node in session.get_inputs()]
    if set(needed) != set(inputs):
        raise UsageError(f"the model takes the inputs {sorted(needed)}, given {sorted(inputs)}")
    values = {name: _ort_value(inputs[name]) for name in needed}
    for node in session.get_inputs():
        if values[node.name].data_type() != node.type:
            given = values[node.name].data_type()
            raise UsageError(f"input {node.name!r} of the model is a {node.type}, given {given}")
    names = list(outputs) if outputs is not None else [node.name for node in session.get_outputs()]
    try:
        results = session.run_with_ort_values(names, values)
    except ORT_ERRORS as error:
        raise _explained(error, model) from error
    return {name: _array(result) for name, result in zip(names, results, strict=True)}


def _session(model: onnx.ModelProto | str | PathLike[str], provider: str) -> ort.InferenceSession:
    if provider not in PROVIDERS:
        raise UsageError(f"unknown provider {provider!r}: there are {', '.join(PROVIDERS)}")
    options = ort.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    options.intra_op_num_threads = THREADS
    ort.set_default_logger_severity(FATAL_ONLY)
    try:
        session = ort.InferenceSession(_source(model), options, providers=PROVIDERS[provider])
    except ORT_ERRORS as error:
        raise _explained(error, model) from error
    active = session.get_providers()
    if not any(name.lower().startswith(provider) for name in active):
        raise UsageError(
            f"ONNX Runtime can't use provider {provider!r} on this machine (a GPU, CUDA and cuDNN are needed): "
            f"available is {', '.join(name.removesuffix('ExecutionProvider').lower() for name in active)}"
        )
    return session


def _source(model: onnx.ModelProto | str | PathLike[str]) -> bytes | str:
    if not isinstance(model, onnx.ModelProto):
        return fspath(model)
    if model.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF:
        raise UsageError("the model exceeds 2 GB: write it to a file and give its path")
    return bytes(model.SerializeToString())


def _ort_value(array: Array) -> ort.OrtValue:
    array = np.asarray(array, order="C")
    if array.dtype == BFLOAT16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, onnx.TensorProto.BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _array(value: ort.OrtValue) -> Array:
    if value.element_type() != onnx.TensorProto.BFLOAT16:
        return np.asarray(value.numpy())
    # OrtValue.numpy() knows no bfloat16; results are in the CPU's memory whatever the provider
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(data, BFLOAT16).reshape(value.shape())


def _explained(error: Exception, model: onnx.ModelProto | str | PathLike[str]) -> SessionError:
    """What ONNX Runtime says, with the Cell and the source line of the node that it names."""
    said = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error))
    message = f"ONNX Runtime can't run the model: {said}"
    named = re.search(r"(?:node with name '|[Nn]ode \(|Name:')([^')]+)", said)
    if named is None or isinstance(error, ort_errors.NoSuchFile):
        return SessionError(message)
    proto = model if isinstance(model, onnx.ModelProto) else onnx.load(fspath(model), load_external_data=False)
    for node in proto.graph.node:
        if node.name == named[1]:
            metadata = {entry.key: entry.value for entry in node.metadata_props}
            message += f"\n  operator {node.op_type} of Cell {metadata.get(CELL, '(root)')}"
            message += f" at {metadata[SOURCE]}" if SOURCE in metadata else ""
    return SessionError(message)
