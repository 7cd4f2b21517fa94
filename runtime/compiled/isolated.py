"""Running an untrusted ONNX model in its own process, so that a crash becomes an error message."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as ort_errors

from ..errors import UsageError
from ..memory import memory_size
from ..providers import find
from . import child_process, frames
from .session import (
    IN_FLOAT32,
    ORT_ERRORS,
    Array,
    SessionError,
    choose_provider,
    explain,
    has_doubles,
    path_in_utf8,
    require_active,
    session_options,
    unusable,
)

MAX_SECONDS = 600.0  # seconds to load the model, and for each run of it
Given = Array | Sequence[Array] | None
STORED = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}  # integers of the size of an element
PAST_TENSES = {"loaded": "loaded", "run": "ran"}
NOT_OPTIMIZED = {"graph_optimization_level": 0}
MAX_PRINT_BYTES = 300  # bytes at the end of ONNX Runtime's output


class SessionEnded(SessionError):
    """The process that ran the model has crashed or was stopped by the time limit."""


class IsolatedSession:
    """A model in ONNX Runtime in a child process: the counterpart of `Session` for untrusted files.

    A file may crash ONNX Runtime, or make it use all memory: then the child ends, and `run` raises an error. The child
    starts to load the model immediately, in parallel to this process.

    Args:
        model: the model, or the path of its file.
        provider: name of the execution provider (`runtime.providers`).
        seconds: time limit for loading, and for each run.
        optimized: whether ONNX Runtime may optimize the graph.
        options: attributes of `onnxruntime.SessionOptions` that differ from those of this project.
        disabled: names of optimizers that are left out.

    Raises:
        UsageError: the provider is unknown.
    """

    def __init__(
        self,
        model: onnx.ModelProto | str | PathLike[str],
        provider: str = "cpu",
        seconds: float = MAX_SECONDS,
        *,
        optimized: bool = True,
        options: Mapping[str, Any] = MappingProxyType({}),
        disabled: Sequence[str] = (),
    ) -> None:
        path = None if isinstance(model, onnx.ModelProto) else path_in_utf8(model)
        self.model = model
        self.provider = choose_provider(provider)
        self.seconds = seconds
        self._types: dict[str, str] = {}
        self._outputs: dict[str, str] = {}
        self._loaded = False
        self._elsewhere: list[tuple[str, str]] = []
        self._refused: SessionError | None = None
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = child_process.start(self._printed)
        self._close = weakref.finalize(self, _terminate, os.getpid(), self._process, self._printed)
        request = {
            "path": None if path is None else os.path.abspath(path),
            "options": session_options() | ({} if optimized else NOT_OPTIMIZED) | dict(options),
            "providers": find(self.provider).chain(),
            "provider": find(self.provider).ort_name,
            "disabled": [*disabled, *(IN_FLOAT32 if has_doubles(model) else [])],
            "memory": memory_size() if self.provider == "cpu" else None,  # CUDA reserves address space for all memory
        }
        self._send(request, [model.SerializeToString()] if isinstance(model, onnx.ModelProto) else [])

    def run(self, inputs: Mapping[str, Given], outputs: Sequence[str] | None = None) -> dict[str, dict[str, Array]]:
        """Run the model once.

        Args:
            inputs: one array per input of the model, by name, with its dtype and shape; a list of arrays for a
                sequence, and None for an empty optional.
            outputs: names of the outputs to compute; all of them if not given.

        Returns:
            For each output, by name, its arrays by their place in it: `""` for a tensor, `[0]` for an item of a
            sequence (of more than one), `['key']` for the values of the maps of a sequence and `.keys` for their keys.
            Strings are NumPy strings.

        Raises:
            SessionError: ONNX Runtime fails to load or run the model.
            SessionEnded: the process ended before it answered.
            UsageError: the inputs aren't those of the model, or an array has a dtype that NumPy lacks.
        """
        self._load()
        if set(self._types) != set(inputs):
            raise UsageError(f"the model takes the inputs {sorted(self._types)}, given {sorted(inputs)}")
        described = [self._describe(name, inputs[name]) for name in self._types]
        names = list(outputs) if outputs is not None else list(self._outputs)
        data = [_bytes_of(array) for name in self._types for array in _arrays(inputs[name])]
        self._send({"inputs": described, "outputs": names}, data)
        answer, parts = self._answer("run")
        remaining = iter(parts)
        return {
            name: {item["at"]: _array(item, next(remaining)) for item in items}
            for name, items in zip(names, answer["outputs"], strict=True)
        }

    def printed(self) -> str:
        """What ONNX Runtime has printed so far, such as its log; not to be called while it works."""
        self._printed.seek(0)
        return self._printed.read().decode(errors="replace")

    @property
    def refused(self) -> bool:
        """Whether ONNX Runtime has refused to load the model."""
        return self._refused is not None

    def load(self) -> None:
        """Wait until the model is loaded.

        Raises:
            SessionError: ONNX Runtime refuses the model.
            SessionEnded: the process ended before it answered.
        """
        self._load()

    def nodes_elsewhere(self) -> list[tuple[str, str]]:
        """Return the nodes that another provider runs than the one asked for: type of the operator and name."""
        self._load()
        return self._elsewhere

    def close(self) -> None:
        """End the process."""
        self._close()

    def _load(self) -> None:
        """Wait until the model is loaded."""
        if self._refused is not None:
            raise self._refused
        if not self._loaded:
            try:
                answer, _ = self._answer("loaded")
            except SessionError as error:
                self._refused = error
                raise
            self._types, self._outputs = answer["inputs"], answer["outputs"]
            require_active(self.provider, answer["active"])
            self._elsewhere = [(kind, name) for kind, name in answer["elsewhere"]]
            self._loaded = True

    def _describe(self, name: str, value: Given) -> dict[str, Any]:
        arrays, needed = _arrays(value), self._types[name]
        types = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
        names = list(dict.fromkeys(onnx.TensorProto.DataType.Name(element_type).lower() for element_type in types))
        inner = needed.removeprefix("optional(").removesuffix(")" * needed.startswith("optional("))
        if value is None:
            kind, actual, fits = "absent", "None", inner != needed
        elif isinstance(value, (list, tuple)):
            kind, actual = "sequence", f"seq(tensor({'|'.join(names)}))"
            fits = actual == inner or (not arrays and inner.startswith("seq("))
        else:
            kind, actual = "tensor", f"tensor({names[0]})"
            fits = actual == inner
        if not fits:
            raise UsageError(f"input {name!r} of the model is a {needed}, given {actual}")
        if any(map(_is_packed, types)):
            raise UsageError(
                f"input {name!r} of the model is a {actual}: inputs with elements of less than 8 bits "
                "aren't supported\n"
                "  what to do: declare it as int8 or uint8, and let a Cast node make the rest of it"
            )
        described = [
            {"stored": STORED.get(array.dtype.itemsize, ""), "shape": list(array.shape), "element_type": element_type}
            for array, element_type in zip(arrays, types, strict=True)
        ]
        return {"name": name, "kind": kind, "arrays": described}

    def _send(self, message: Any, data: Sequence[Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the child has ended: `_answer` reports why
            frames.send(self._process.stdin, message, data)

    def _answer(self, participle: str) -> tuple[Any, list[bytearray]]:
        """Return the child's answer to a request; `participle`, for messages, is "loaded" or "run"."""
        watch = threading.Timer(self.seconds, self._process.kill)
        watch.start()
        try:
            answer, data = frames.receive(self._process.stdout)
        except EOFError:
            late = watch.finished.is_set()
            raise self._end(participle, late) from None
        finally:
            watch.cancel()
        if "error" not in answer:
            return answer, data
        kind = getattr(ort_errors, answer["error"], None)
        if kind in ORT_ERRORS:
            raise explain(kind(answer["text"]), self.model, self.provider)
        if self.provider != "cpu" and not self._loaded and answer["error"] in ("RuntimeError", "ValueError"):
            raise unusable(self.provider, ["CPUExecutionProvider"], answer["text"])
        if answer["error"] == "MemoryError":
            raise SessionError(f"ONNX Runtime ran out of memory while it {PAST_TENSES[participle]} {self._name()}")
        raise SessionError(f"ONNX Runtime can't run the model: {answer['error']}: {answer['text']}")

    def _end(self, participle: str, late: bool) -> SessionEnded:
        """Return the error for a process that ended without an answer."""
        code = self._process.wait()
        if late:
            return SessionEnded(
                f"ONNX Runtime was stopped: it hadn't {participle} {self._name()} after {self.seconds:g} s"
            )
        how = f"exit code {code}"
        if code < 0:
            signals = {int(number): number.name for number in signal.Signals}
            how = f"signal {-code}" + (f" ({signals[-code]})" if -code in signals else "")
        self._printed.seek(-min(MAX_PRINT_BYTES, self._printed.seek(0, os.SEEK_END)), os.SEEK_END)
        lines = [line for line in self._printed.read().decode(errors="replace").splitlines() if line.strip()]
        output = "".join(c if c.isprintable() else " " for c in lines[-1]) if lines else ""
        return SessionEnded(
            f"ONNX Runtime ended with {how} while it {PAST_TENSES[participle]} {self._name()}"
            + (f": {output}" if output else "")
            + ("\n  perhaps it took too much memory" if code == -signal.SIGKILL else "")
            + "\n  what to do: something in the file makes ONNX Runtime crash; parity inspect shows its operators"
        )

    def _name(self) -> str:
        return "the model" if isinstance(self.model, onnx.ModelProto) else f"this file: {fspath(self.model)}"


def _terminate(owner: int, process: child_process.ChildProcess, printed: Any) -> None:
    """Close the pipes to a child, and end it unless this process is a fork of its owner, which still uses it."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, printed):
        with contextlib.suppress(BrokenPipeError):  # it hasn't read all data
            stream.close()


def _is_packed(element_type: int) -> bool:
    """Whether several elements share a byte."""
    name = onnx.TensorProto.DataType.Name(element_type)
    return name in ("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1")


def _arrays(value: Given) -> list[Array]:
    """Return the arrays that make up an input."""
    values = [] if value is None else value if isinstance(value, (list, tuple)) else [value]
    return [np.asarray(array, order="C") for array in values]


def _bytes_of(array: Array) -> Any:
    if array.dtype.kind in "OU":
        return json.dumps(array.reshape(-1).tolist()).encode()
    return array.reshape(-1).view(np.uint8)


def _array(described: Any, data: bytearray) -> Array:
    element_type = described["element_type"]
    if element_type == onnx.TensorProto.STRING:
        return np.array(json.loads(bytes(data)), np.str_).reshape(described["shape"])
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))
    if _is_packed(element_type):
        return _unpacked(np.frombuffer(data, np.uint8), dtype, described["shape"])
    return np.frombuffer(data, dtype).reshape(described["shape"])


def _unpacked(data: Array, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Return a tensor whose elements share bytes, as ONNX stores it: the first of them in the lowest bits."""
    bits = 2 if dtype.name.endswith("int2") else 4
    codes = (data[:, None] >> np.arange(0, 8, bits).astype(np.uint8)) & (2**bits - 1)
    numbers: Array = codes.reshape(-1)[: math.prod(shape)].reshape(shape)
    if dtype.name.startswith("float"):
        return numbers.astype(np.uint8).view(dtype)
    numbers = numbers.astype(np.int8)
    if not dtype.name.startswith("u"):
        numbers -= (2**bits * (numbers >= 2 ** (bits - 1))).astype(np.int8)
    return numbers.astype(dtype)
