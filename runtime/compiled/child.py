"""The program of the child process of `isolated.IsolatedSession`: one model in ONNX Runtime, asked through pipes.

It loads NumPy and ONNX Runtime and nothing else, so that it starts in a fraction of a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import onnxruntime as ort

from . import frames

DEATH_OF_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl
STRING = 8  # onnx.TensorProto.STRING


def main() -> None:
    """Answer requests until the pipe is closed: the first one is a model to load, each other one inputs to run on."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what ONNX Runtime prints is no answer
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_OF_PARENT, signal.SIGKILL)
    try:
        session = _answered(answers, partial(_loaded, *frames.receive(requests), answers))
        while session is not None:
            request, data = frames.receive(requests)
            _answered(answers, partial(_run, session, request, data, answers))
    except (EOFError, KeyboardInterrupt):
        return


def _answered(answers: BinaryIO, work: Any) -> Any:
    """What `work` returns; an exception is sent instead, by the name of its class."""
    try:
        return work()
    except (EOFError, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 (told to the parent, whatever it is)
        frames.send(answers, {"error": type(error).__name__, "text": str(error)})
        return None


def _loaded(request: Any, data: list[bytearray], answers: BinaryIO) -> ort.InferenceSession:
    if sys.platform != "win32" and request["memory"] is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = request["memory"] if hard == resource.RLIM_INFINITY else min(request["memory"], hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    options = ort.SessionOptions()
    for name, value in request["options"].items():
        setattr(options, name, value)
    if not request["optimized"]:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    ort.set_default_logger_severity(options.log_severity_level)
    providers = [tuple(one) if isinstance(one, list) else one for one in request["providers"]]
    session = ort.InferenceSession(
        bytes(data[0]) if data else request["path"],
        options,
        providers=providers,
        disabled_optimizers=request["disabled"],
    )
    inputs, outputs = (
        {node.name: node.type for node in nodes} for nodes in (session.get_inputs(), session.get_outputs())
    )
    frames.send(answers, {"inputs": inputs, "outputs": outputs, "active": session.get_providers()})
    return session


def _run(session: ort.InferenceSession, request: Any, data: list[bytearray], answers: BinaryIO) -> None:
    values = {
        one["name"]: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            np.frombuffer(part, one["stored"]).reshape(one["shape"]), one["element_type"]
        )
        for one, part in zip(request["inputs"], data, strict=True)
    }
    types = {node.name: node.type for node in session.get_outputs()}
    wanted = request["outputs"]
    if all(types[name].startswith("tensor") for name in wanted):
        found = [[value] for value in session.run_with_ort_values(wanted, values)]
    else:  # the items of a sequence come as NumPy arrays only
        results = session.run(wanted, {name: value.numpy() for name, value in values.items()})
        found = [[ort.OrtValue.ortvalue_from_numpy(x) for x in (r if isinstance(r, list) else [r])] for r in results]
    described: list[list[dict[str, Any]]] = []
    parts: list[Any] = []
    for items in found:
        described.append([{"shape": list(value.shape()), "element_type": value.element_type()} for value in items])
        for value in items:
            text = value.element_type() == STRING
            parts.append(b"" if text else ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()))
    frames.send(answers, {"outputs": described}, parts)


if __name__ == "__main__":
    main()
