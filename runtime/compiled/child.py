"""The child process of `isolated.IsolatedSession`: runs one model in ONNX Runtime, on requests through pipes.

It loads only NumPy and ONNX Runtime, so that it starts in a fraction of a second. On Linux the imports are done once,
in a template process that is forked for each model: see `child_process`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import onnxruntime as ort

from . import frames
from .assignment import CPU, RECORD_ASSIGNMENT, nodes_elsewhere

DEATH_OF_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl
STRING = 8  # onnx.TensorProto.STRING
NUMBER = struct.Struct("<q")
"""A message to the template, FORK or the ID of a process to wait for, or its answer: a process ID or an exit code."""
FORK = 0


def run_template() -> None:
    """Fork a process, or wait for the end of one, at each request, until the socket on stdin is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent, which ends this process
    control = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    while True:
        request, files, _, _ = socket.recv_fds(control, NUMBER.size, 3)
        if len(request) < NUMBER.size:
            return
        (number,) = NUMBER.unpack(request)
        if number != FORK:
            _, status = os.waitpid(number, 0)
            control.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
            continue
        if pid := os.fork():
            for file in files:
                os.close(file)
            control.sendall(NUMBER.pack(pid))
            continue
        control.close()
        requests, answers, printed = files
        os.dup2(printed, sys.stderr.fileno())
        run_model(os.fdopen(requests, "rb"), os.fdopen(answers, "wb"))
        return


def run_model(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the pipe is closed: first a model to load, then inputs for each run."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # so that ONNX Runtime's output isn't read as an answer
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_OF_PARENT, signal.SIGKILL)
    try:
        session = _run_or_report(answers, partial(_load, *frames.receive(requests), answers))
        while session is not None:
            request, data = frames.receive(requests)
            _run_or_report(answers, partial(_run, session, request, data, answers))
    except (EOFError, KeyboardInterrupt):
        return


def _run_or_report(answers: BinaryIO, work: Any) -> Any:
    """Return the result of `work`; an exception is sent to the parent, with the name of its class."""
    try:
        return work()
    except (EOFError, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 (reported to the parent, whatever it is)
        frames.send(answers, {"error": type(error).__name__, "text": str(error)})
        return None


def _load(request: Any, data: list[bytearray], answers: BinaryIO) -> ort.InferenceSession:
    if sys.platform != "win32" and request["memory"] is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = request["memory"] if hard == resource.RLIM_INFINITY else min(request["memory"], hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    options = ort.SessionOptions()
    for name, value in request["options"].items():
        setattr(options, name, ort.GraphOptimizationLevel(value) if name == "graph_optimization_level" else value)
    if request["provider"] != CPU:
        options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    ort.set_default_logger_severity(options.log_severity_level)
    providers = [tuple(item) if isinstance(item, list) else item for item in request["providers"]]
    session = ort.InferenceSession(
        bytes(data[0]) if data else request["path"],
        options,
        providers=providers,
        disabled_optimizers=request["disabled"],
        enable_fallback=0,
    )
    inputs, outputs = (
        {node.name: node.type for node in nodes} for nodes in (session.get_inputs(), session.get_outputs())
    )
    active, elsewhere = session.get_providers(), nodes_elsewhere(session, request["provider"])
    frames.send(answers, {"inputs": inputs, "outputs": outputs, "active": active, "elsewhere": elsewhere})
    return session


def _run(session: ort.InferenceSession, request: Any, data: list[bytearray], answers: BinaryIO) -> None:
    parts = iter(data)
    inputs = {entry["name"]: [_value(array, next(parts)) for array in entry["arrays"]] for entry in request["inputs"]}
    kinds = {entry["name"]: entry["kind"] for entry in request["inputs"]}
    types = {node.name: node.type for node in (*session.get_inputs(), *session.get_outputs())}
    outputs = request["outputs"]
    if {*kinds.values()} <= {"tensor"} and all(_is_numbers(types[name]) for name in (*inputs, *outputs)):
        values = {name: arrays[0] for name, arrays in inputs.items()}
        results: list[dict[str, Any]] = [{"": value} for value in session.run_with_ort_values(outputs, values)]
    else:  # strings and sequences are returned only as NumPy arrays
        feed = {name: _to_input(kinds[name], arrays) for name, arrays in inputs.items()}
        results = [_items(result) for result in session.run(outputs, feed)]
    sent = [{at: _serialize(value) for at, value in items.items()} for items in results]
    described = [[{"at": at, **description} for at, (description, _) in items.items()] for items in sent]
    frames.send(answers, {"outputs": described}, [part for items in sent for _, part in items.values()])


def _is_numbers(kind: str) -> bool:
    return kind.startswith("tensor") and kind != "tensor(string)"


def _value(described: Any, part: bytearray) -> Any:
    if described["element_type"] == STRING:
        return np.array(json.loads(bytes(part)), object).reshape(described["shape"])
    array = np.frombuffer(part, described["stored"]).reshape(described["shape"])
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, described["element_type"])


def _to_input(kind: str, values: list[Any]) -> Any:
    """Return an input as NumPy arrays: a tensor, a list of tensors, or None for an empty optional."""
    if kind == "absent":
        return None
    arrays = [value if isinstance(value, np.ndarray) else value.numpy() for value in values]
    return arrays if kind == "sequence" else arrays[0]


def _items(result: Any) -> dict[str, Any]:
    """Return the tensors of a result by place: a tensor, items of a sequence, columns of a list of maps, or none."""
    if isinstance(result, dict):
        return _items([result])
    if isinstance(result, list) and result and isinstance(result[0], dict):
        if any(row.keys() != result[0].keys() for row in result):
            raise ValueError("the maps of a sequence have different keys")
        columns = {f"[{key!r}]": np.array([row[key] for row in result]) for key in result[0]}
        return {**columns, ".keys": np.array([*result[0]])}
    if isinstance(result, list):
        return {f"[{i}]" if len(result) > 1 else "": np.asarray(item) for i, item in enumerate(result)}
    return {} if result is None else {"": np.asarray(result)}


def _serialize(value: Any) -> tuple[dict[str, Any], bytes]:
    """Return the description and the bytes of a tensor."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OUS":
            texts = json.dumps(value.reshape(-1).tolist()).encode()
            return {"shape": list(value.shape), "element_type": STRING}, texts
        value = ort.OrtValue.ortvalue_from_numpy(np.asarray(value, order="C"))
    described = {"shape": list(value.shape()), "element_type": value.element_type()}
    return described, ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())


if __name__ == "__main__":
    if sys.argv[1:] == ["template"]:
        run_template()
    else:
        run_model(sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb"))
