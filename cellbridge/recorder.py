"""Record what crosses the boundaries of a network's Cells (layers and blocks), to be judged by `parity` elsewhere.

This file needs NumPy alone and may be copied into any project:

    with Recorder("candidate.rec", framework="mine") as recorder:
        recorder.cell("layers.0", inputs=x, outputs=y)
        recorder.gradient("layers.0", outputs=dy, inputs=dx)
        recorder.parameter("layers.0.weight", weight, gradient=dw)

`parity judge` compares two recordings, and `parity run --against` a recording with a living model. docs/recordings.md
describes the files.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import inspect
import json
import os
import platform
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

FORMAT = "cellbridge-recording"
VERSION = 1
INDEX = "recording.json"
PROGRAM = "program.cell"
"""The network as a program without its parameters, which `parity record` writes, so that causes can be found."""
SHARD_BYTES = 2**24
"""Tensors are gathered in memory up to this size, or one Cell's if that is larger, and written as one file."""
SAMPLE_SIZE = 256
CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
}  # fmt: skip
"""The dtypes of safetensors files."""

Array = np.ndarray[Any, Any]
Tensors = Any
"""A tensor of any framework, or tensors nested in tuples, lists and dicts."""
Function = TypeVar("Function", bound=Callable[..., Any])


class Recorder:
    """Writes a recording: a folder of `recording.json` and safetensors files.

    Values are written as they come, so that no more than one Cell's are in memory. Where `torch.distributed` runs, each
    process writes a folder of its own inside, `rank-0`, `rank-1`, ...

    Args:
        path: a folder that isn't there yet, or is empty.
        model: name of the network.
        framework: name of what runs it.
        dtype: dtype that it computes in; "float64" makes this the truth that others are judged by.
        mode: "eval" or "train".
        seed: the seed of random numbers.
        budget: the most bytes to write; what doesn't fit is summarized: its norm, extremes, some elements, a checksum.

    Raises:
        FileExistsError: the folder isn't empty.
        OSError: a file can't be written. What was written before stays readable.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        model: str = "",
        framework: str = "",
        dtype: str = "float32",
        mode: str = "eval",
        seed: int | None = None,
        budget: int | None = None,
    ) -> None:
        rank, ranks = _rank()
        self.path = Path(path) / f"rank-{rank}" if ranks > 1 else Path(path)
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise FileExistsError(f"{self.path} is there already: give the name of a new folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self.budget = budget
        self.written = 0
        self._dtype, self._step = dtype, 0
        self._head: dict[str, Any] = {
            "format": FORMAT, "version": VERSION, "complete": False, "model": model, "framework": framework,
            "dtype": dtype, "mode": mode, "seed": seed, "rank": rank, "ranks": ranks, "versions": library_versions(),
        }  # fmt: skip
        self._calls: list[dict[str, Any]] = []
        self._last_calls: dict[tuple[str, int, str], int] = {}
        self.tensors: list[dict[str, Any]] = []
        self._pending: dict[str, Array] = {}
        self._uncopied: list[str] = []  # keys of pending arrays that share their memory with the network's tensors
        self._pending_bytes = 0
        self._awaited: dict[tuple[int, str], dict[str, Any]] = {}  # inputs that no gradient has reached
        self._running: list[int] = []  # numbers of the calls that haven't returned, innermost last
        self._described = (0, 0)  # how many calls and tensors the files written so far describe
        self._shards = 0
        self._contents: dict[int, tuple[Any, int, dict[str, Any]]] = {}  # of tensors that may cross more boundaries
        self._write_index()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.close(complete=kind is None)

    def close(self, *, complete: bool = True) -> None:
        """Write what is still in memory, and the index; `complete` is false if the network stopped with an error."""
        self._flush()
        self._head["complete"] = complete
        self._write_index(calls=self._calls, tensors=self.tensors)

    # ---- what is recorded ----

    @contextlib.contextmanager
    def run(self, dtype: str) -> Iterator[None]:
        """Within the context, what is recorded belongs to a run in another dtype, from its first step."""
        before, self._dtype, self._step = (self._dtype, self._step), dtype, 0
        try:
            yield
        finally:
            self._dtype, self._step = before

    def step(self) -> None:
        """Begin the next training step: what follows belongs to it."""
        self._step += 1

    def cell(self, path: str, *, inputs: Tensors = (), outputs: Tensors = (), class_name: str = "") -> int:
        """Record a call of a Cell, after it has returned; return the number of the call.

        Args:
            path: path of the Cell in the network, such as `layers.0.norm`; empty for the network itself.
            inputs: what it was called with: a tensor, several in a tuple, or a dict by name.
            outputs: what it returned.
            class_name: name of its class.
        """
        number = self.begin(path, inputs=inputs, class_name=class_name)
        self.end(number, outputs)
        return number

    def begin(self, path: str, *, inputs: Tensors = (), class_name: str = "") -> int:
        """Record the inputs of a call before it runs, and return its number; to be followed by `end`.

        Calls between the two are inside it.
        """
        key = self._dtype, self._step, path
        index = self._calls[self._last_calls[key]]["index"] + 1 if key in self._last_calls else 0
        number = self._last_calls[key] = len(self._calls)
        parent = self._running[-1] if self._running else None
        self.add_call(path, index, class_name, parent)
        self._running.append(number)
        self._add_all(number, "input", _named_inputs(inputs))
        return number

    def end(self, number: int, outputs: Tensors) -> None:
        """Record the outputs of a call."""
        if number in self._running:  # calls inside that raised an exception, if any, have ended too
            del self._running[self._running.index(number) :]
        self._add_all(number, "output", named_tensors(outputs))

    def gradient(self, path: str, *, inputs: Tensors = (), outputs: Tensors = (), call: int | None = None) -> None:
        """Record gradients of the loss with respect to the inputs and outputs of a Cell's last call, or of `call`.

        Raises:
            KeyError: the Cell was never called.
        """
        if call is None:
            if (self._dtype, self._step, path) not in self._last_calls:
                raise KeyError(f"{path or '(root)'} has no call yet: record it with cell() before its gradients")
            call = self._last_calls[self._dtype, self._step, path]
        self._add_all(call, "output_gradient", named_tensors(outputs))
        self._add_all(call, "input_gradient", _named_inputs(inputs))

    def parameter(self, name: str, value: Tensors = None, *, gradient: Tensors = None) -> None:
        """Record a parameter by its qualified name, such as `layers.0.norm.weight`, its gradient, or both.

        A parameter that is shared is recorded by each of its names, and its gradient by the first of them.
        """
        self._add_named("parameter", name, value)
        self._add_named("parameter_gradient", name, gradient)

    def buffer(self, name: str, value: Tensors = None, *, update: Tensors = None) -> None:
        """Record a buffer before the run, such as a running mean, its value after it, or both."""
        self._add_named("buffer", name, value)
        self._add_named("buffer_update", name, update)

    def function(self, path: str) -> Callable[[Function], Function]:
        """Return a decorator: each call of the function is a call of the Cell at `path`."""

        def decorate(function: Function) -> Function:
            @functools.wraps(function)
            def recorded(*args: Any, **kwargs: Any) -> Any:
                inputs, _ = bind_arguments(function, args, kwargs)
                number = self.begin(path, inputs=inputs, class_name=function.__name__)
                outputs = function(*args, **kwargs)
                self.end(number, outputs)
                return outputs

            return recorded  # type: ignore[return-value]

        return decorate

    @contextlib.contextmanager
    def torch(self, module: Any) -> Iterator[None]:
        """Within the context, record the calls of a torch module and of all modules inside, forward and backward.

        Its parameters and buffers are recorded at the start; their gradients and updates at the end. A module in
        `DistributedDataParallel` has the paths that it has without it; of sharded tensors, each process records its
        part, with its placement.
        """
        inner = module.module if type(module).__name__ == "DistributedDataParallel" else module
        for name, parameter in inner.named_parameters(remove_duplicate=False):  # a shared one by all of its names
            self.parameter(name, parameter)
        for name, buffer in inner.named_buffers():
            self.buffer(name, buffer)
        handles = [handle for path, each in inner.named_modules() for handle in _watch_torch(self, path, each)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        self._add_absent_gradients()
        for name, parameter in inner.named_parameters():
            self.parameter(name, gradient=parameter.grad)
        for name, buffer in inner.named_buffers():
            self.buffer(name, update=buffer)

    @contextlib.contextmanager
    def mindspore(self, network: Any) -> Iterator[None]:
        """Within the context, record the calls of a MindSpore Cell and of all Cells inside, forward and backward.

        Parameters are recorded at the start, and their gradients as they arrive, under their names in the network;
        moving statistics as buffers.

        Raises:
            RuntimeError: MindSpore is in graph mode, which runs no hooks.
        """
        mindspore = sys.modules["mindspore"]
        if mindspore.get_context("mode") != mindspore.PYNATIVE_MODE:
            raise RuntimeError(
                "MindSpore runs no hooks in graph mode; before the network runs, call "
                "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
            )
        statistics = {}
        handles = []
        for name, parameter in network.parameters_and_names():
            if name.rpartition(".")[2] in ("moving_mean", "moving_variance"):
                statistics[name] = parameter
                self.buffer(name, parameter)
                continue
            self.parameter(name, parameter)
            if parameter.requires_grad:
                handles.append(parameter.register_hook(functools.partial(self._add_named, "parameter_gradient", name)))
        for path, each in network.cells_and_names():
            handles += _watch_mindspore(self, path, each)
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        self._add_absent_gradients()
        for name, parameter in statistics.items():
            self.buffer(name, update=parameter)

    def _add_absent_gradients(self) -> None:
        """Record which inputs no gradient has reached, if there was a backward pass."""
        if any(entry["role"] == "output_gradient" for entry in self.tensors):
            for (number, slot), content in self._awaited.items():
                self.tensors.append({**self._of_call(number), "role": "input_gradient", "slot": slot, **content})
        self._awaited.clear()

    # ---- how it is written ----

    def add_call(self, path: str, index: int, class_name: str, parent: int | None) -> int:
        """Add a call to the index, and return its number; `parent` is that of the call that made it, if known."""
        call = {"run": self._dtype, "step": self._step, "cell": path, "index": index, "class": class_name}
        self._calls.append(call | {"parent": parent})
        return len(self._calls) - 1

    def add_tensor(self, path: str, index: int, role: str, slot: str, tensor: Any) -> None:
        """Add one tensor of a call.

        Args:
            path: path of the Cell.
            index: index of the call among those of the Cell.
            role: "input", "output", "input_gradient" or "output_gradient".
            slot: name of the input or output, and its place inside if it is nested: `states[0]`.
            tensor: the tensor.
        """
        of_call = {"run": self._dtype, "step": self._step, "cell": path, "call": index}
        self._add({**of_call, "role": role, "slot": slot}, tensor)
        self._settle()

    def add_absent(self, path: str, index: int, slot: str, shape: tuple[int, ...]) -> None:
        """Add that no gradient has arrived at an input of a call."""
        of_call = {"run": self._dtype, "step": self._step, "cell": path, "call": index}
        content = {"dtype": "float32", "shape": list(shape), "absent": True}
        self.tensors.append({**of_call, "role": "input_gradient", "slot": slot, **content})

    def mark_untracked(self, path: str, index: int, role: str, slot: str) -> None:
        """Mark an input or output that was added before as one of which no gradient is computed."""
        sought = {"run": self._dtype, "step": self._step, "cell": path, "call": index, "role": role, "slot": slot}
        for entry in self.tensors:
            if sought.items() <= entry.items():
                entry["tracked"] = False

    def _of_call(self, number: int) -> dict[str, Any]:
        """Return the fields that say which call a tensor belongs to."""
        call = self._calls[number]
        return {"run": call["run"], "step": call["step"], "cell": call["cell"], "call": call["index"]}

    def _add_all(self, number: int, role: str, tensors: Iterable[tuple[str, Any]]) -> None:
        of_call = self._of_call(number)
        for slot, tensor in tensors:
            self._add({**of_call, "role": role, "slot": slot}, tensor)
        self._settle()

    def _add_named(self, role: str, name: str, tensor: Any) -> None:
        if tensor is not None:
            self._add({"run": self._dtype, "step": self._step, "role": role, "slot": name}, tensor)
            self._settle()

    def _add(self, entry: dict[str, Any], tensor: Any) -> None:
        """Add a tensor; one that crosses several boundaries unchanged is written once."""
        # torch's batch norm changes its buffers without counting a version
        content = None if entry["role"] == "buffer_update" else self._content_of(tensor)
        if content is None:
            array, dtype, more = as_stored(tensor)
            content = {"dtype": dtype, "shape": list(array.shape), **more, "sha256": checksum(array)}
            if self.budget is not None and self.written + array.nbytes > self.budget:
                content["summary"] = summary(array, dtype)
            else:
                key = str(len(self.tensors))
                content |= {"file": self._shard, "key": key}
                self._pending[key] = array
                self._uncopied.append(key)
                self._pending_bytes += array.nbytes
                self.written += array.nbytes
            self._remember(tensor, content)
        detached = getattr(tensor, "requires_grad", True) is False and entry["role"] in ("input", "output")
        self.tensors.append({**entry, **content, **({"tracked": False} if detached else {})})

    def _content_of(self, tensor: Any) -> dict[str, Any] | None:
        entry = self._contents.get(id(tensor))
        if entry is not None and entry[0]() is tensor and entry[1] == version_of(tensor):
            return entry[2]
        return None

    def _remember(self, tensor: Any, content: dict[str, Any] | None) -> None:
        version = version_of(tensor)
        if version is not None and content is not None:
            forget = functools.partial(self._forget, id(tensor))
            self._contents[id(tensor)] = weakref.ref(tensor, forget), version, content

    def _forget(self, number: int, _: Any) -> None:
        self._contents.pop(number, None)

    def _settle(self) -> None:
        """Write the pending tensors if there are enough, or copy them, before the network may change them."""
        if self._pending_bytes >= SHARD_BYTES:
            self._flush()
        for key in self._uncopied:
            self._pending[key] = self._pending[key].copy()
        self._uncopied.clear()

    @property
    def _shard(self) -> str:
        return f"tensors-{self._shards:05}.safetensors"

    def _flush(self) -> None:
        """Write the pending tensors as a safetensors file; its metadata are the part of the index on them.

        So they can be read even if the index is never written.
        """
        calls, tensors = self._calls[self._described[0] :], self.tensors[self._described[1] :]
        if self._pending:
            part = json.dumps({"calls": calls, "tensors": tensors})
            header: dict[str, Any] = {"__metadata__": {FORMAT: part}}
            codes = {entry["key"]: CODES[entry["dtype"]] for entry in tensors if "key" in entry}
            start = 0
            for key, array in self._pending.items():
                header[key] = {"dtype": codes[key], "shape": array.shape, "data_offsets": [start, start + array.nbytes]}
                start += array.nbytes
            text = json.dumps(header).encode()
            text += b" " * (-len(text) % 8)
            with _written_whole(self.path / self._shard) as file:
                file.write(len(text).to_bytes(8, "little") + text)
                for array in self._pending.values():
                    file.write(_bytes(array))
            self._shards += 1
        self._described = len(self._calls), len(self.tensors)
        self._pending.clear()
        self._uncopied.clear()
        self._pending_bytes = 0

    def _write_index(self, **lists: list[dict[str, Any]]) -> None:
        """Write `recording.json`, with a line for each call and each tensor."""
        parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in self._head.items()]
        for name, entries in lists.items():
            parts.append(f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, entries)) + "\n]")
        with _written_whole(self.path / INDEX) as file:
            file.write(("{\n" + ",\n".join(parts) + "\n}\n").encode())


# ---- tensors of any framework ----


def named_tensors(tensors: Tensors, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the slot and the tensor of each tensor in nested tuples, lists and dicts; `result` for a tensor alone."""
    if hasattr(tensors, "shape") and hasattr(tensors, "dtype"):
        yield name or "result", tensors
    elif isinstance(tensors, Mapping):
        for key, value in tensors.items():
            yield from named_tensors(value, f"{name}[{key!r}]")
    elif isinstance(tensors, (tuple, list)):
        for index, value in enumerate(tensors):
            yield from named_tensors(value, f"{name}[{index}]")


def _named_inputs(inputs: Tensors) -> list[tuple[str, Any]]:
    """Return the slots and tensors of a call's inputs; a dict has them by the names of parameters."""
    named = inputs.items() if isinstance(inputs, Mapping) else [("", inputs)]
    return [pair for slot, value in named for pair in named_tensors(value, slot)]


def version_of(tensor: Any) -> int | None:
    """Return a number that changes when the tensor is changed in place; None where that can't be known."""
    if isinstance(version := getattr(tensor, "_version", None), int):  # torch
        return version
    unchanging = not tensor.flags.writeable if isinstance(tensor, np.ndarray) else type(tensor).__module__[:3] == "jax"
    return 0 if unchanging else None


def as_stored(tensor: Any) -> tuple[Array, str, dict[str, Any]]:
    """Return a tensor as an array that a file can hold, the name of its dtype, and more fields of its entry.

    Complex numbers become pairs of reals. Of a tensor that is sharded over processes, this is the local part.

    Raises:
        TypeError: files can't hold its dtype.
    """
    more: dict[str, Any] = {}
    if hasattr(tensor, "to_local") and any(placement.is_partial() for placement in tensor.placements):
        tensor = tensor.full_tensor()  # the processes have summands, which mean nothing alone
    if hasattr(tensor, "to_local") and hasattr(tensor, "placements"):  # torch's DTensor
        placements = [str(placement) for placement in tensor.placements]
        more["placement"] = {"placements": placements, "mesh": list(tensor.device_mesh.shape),
                             "shape": list(tensor.shape)}  # fmt: skip
        tensor = tensor.to_local()
    if hasattr(tensor, "asnumpy"):  # MindSpore
        array = np.asarray(tensor.float().asnumpy() if str(tensor.dtype) == "BFloat16" else tensor.asnumpy())
    elif hasattr(tensor, "detach"):  # torch
        tensor = tensor.detach().cpu()
        tensor = tensor.to_dense() if tensor.is_sparse else tensor.resolve_conj().resolve_neg()
        if str(tensor.dtype) == "torch.bfloat16":
            return _plain(tensor.contiguous().view(sys.modules["torch"].int16).numpy()), "bfloat16", more
        array = tensor.numpy()
    else:  # NumPy, JAX
        array = np.asarray(tensor)
    if array.dtype.kind == "c":
        array, more["complex"] = np.stack([array.real, array.imag], axis=-1), True
    if array.dtype.name not in CODES:
        raise TypeError(f"a tensor of dtype {array.dtype} can't be recorded; there are {', '.join(CODES)}")
    return _plain(array), array.dtype.name, more


def _plain(array: Array) -> Array:
    """Return an array in the order of its indices, with little-endian numbers."""
    return np.asarray(array.astype(array.dtype.newbyteorder("<"), copy=False), order="C")


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def checksum(array: Array) -> str:
    """Return the SHA-256 of an array's bytes, as a recording has it for each tensor."""
    return hashlib.sha256(_bytes(array)).hexdigest()


def summary(array: Array, dtype: str) -> dict[str, Any]:
    """Return what is kept of a tensor that isn't written: `statistics`, and some of its elements."""
    flat = array.reshape(-1)
    numbers = (flat.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else flat
    places = np.unique(np.random.default_rng(0).integers(flat.size, size=SAMPLE_SIZE)) if flat.size else flat[:0]
    elements = numbers[places.astype(np.int64)]
    with np.errstate(all="ignore"):  # integers as they are, since float64 can't hold all of 64 bits
        values = elements.tolist() if elements.dtype.kind in "iu" else elements.astype(np.float64)
    return {
        **{name: _number(value) for name, value in statistics(numbers).items()},
        "indices": places.tolist(),
        "values": [value if type(value) is int else _number(value) for value in values],
    }


def statistics(array: Array) -> dict[str, float]:
    """Return numbers on all elements of an array, computed in float64.

    These are the square root of the sum of the squares (`norm`), the arithmetic mean, the least and the greatest
    element, and the number of those that are finite. Without an element, the mean is 0, and the extremes infinite.
    """
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        return {
            "norm": float(np.sqrt(np.square(wide).sum())),
            "mean": float(wide.mean()) if wide.size else 0.0,
            "least": float(wide.min(initial=np.inf)),
            "greatest": float(wide.max(initial=-np.inf)),
            "finite": float(np.isfinite(wide).sum()),
        }


def _number(value: Any) -> float | str:
    """Return a number for JSON, which has no infinities and no NaN: they are strings."""
    return float(value) if np.isfinite(value) else str(float(value))


# ---- the surroundings ----


def _watch_torch(recorder: Recorder, path: str, module: Any) -> Iterable[Any]:
    """Register the hooks that record the calls of one module; return what removes them."""
    torch = sys.modules["torch"]
    running: list[int | None] = []

    inputs_of: dict[int, list[tuple[str, Any, int]]] = {}  # of running calls: slot, tensor and its version

    def watch(number: int, role: str, slot: str, tensor: Any) -> Any:
        """Return another tensor that stands for this one at this boundary alone, whose gradient is recorded."""
        if not tensor.requires_grad:
            return tensor
        # an input may be changed in place for the caller; an output is the caller's, and FSDP wants no view of it
        watched = tensor.view_as(tensor) if role == "input_gradient" else tensor.clone()
        recorder._remember(watched, recorder._content_of(tensor))

        def record(gradient: Any) -> None:
            recorder._awaited.pop((number, slot), None)
            recorder._add_all(number, role, [(slot, gradient)])

        watched.register_hook(record)
        if role == "input_gradient":
            inputs_of.setdefault(number, []).append((slot, watched, watched._version))
        return watched

    def before(module: Any, args: Any, kwargs: Any) -> Any:
        running.append(None)
        if torch._C._current_graph_task_id() != -1:  # a checkpoint computes again, within the backward pass
            return None
        bound, rest = bind_arguments(module.forward, args, kwargs)
        number = running[-1] = recorder.begin(path, inputs=bound, class_name=type(module).__name__)

        def watched(slot: str, tensor: Any) -> Any:
            return watch(number, "input_gradient", slot, tensor)

        return rest({name: map_tensors(value, name, watched) for name, value in bound.items()})

    def after(module: Any, args: Any, outputs: Any) -> Any:
        number = running.pop()
        if number is None:
            return None
        recorder.end(number, outputs)
        for slot, tensor, version in inputs_of.pop(number, ()):
            if tensor._version == version:  # else the hook is lost, though a gradient may arrive
                shape = [*tensor.shape, 2] if tensor.is_complex() else [*tensor.shape]
                recorder._awaited[number, slot] = {"dtype": "float32", "shape": shape, "absent": True}
        return map_tensors(outputs, "", lambda slot, x: watch(number, "output_gradient", slot or "result", x))

    return module.register_forward_pre_hook(before, with_kwargs=True), module.register_forward_hook(after)


def _watch_mindspore(recorder: Recorder, path: str, cell: Any) -> Iterable[Any]:
    """Register the hooks that record the calls of one Cell; return what removes them."""
    running: list[int] = []

    def watch(number: int, role: str, slot: str, tensor: Any) -> Any:
        """Return another tensor that stands for this one at this boundary alone, whose gradient is recorded."""
        if not tensor.is_floating_point():
            return tensor
        watched = tensor.view_as(tensor)

        def record(gradient: Any) -> None:
            recorder._awaited.pop((number, slot), None)
            recorder._add_all(number, role, [(slot, gradient)])

        watched.register_hook(record)
        if role == "input_gradient":
            recorder._awaited[number, slot] = {"dtype": "float32", "shape": list(tensor.shape), "absent": True}
        return watched

    def before(cell: Any, args: Any, kwargs: Any) -> Any:
        bound, rest = bind_arguments(cell.construct, args, kwargs)
        number = recorder.begin(path, inputs=bound, class_name=type(cell).__name__)
        running.append(number)

        def watched(slot: str, tensor: Any) -> Any:
            return watch(number, "input_gradient", slot, tensor)

        return rest({name: map_tensors(value, name, watched) for name, value in bound.items()})

    def after(cell: Any, args: Any, kwargs: Any, outputs: Any) -> Any:
        number = running.pop()
        recorder.end(number, outputs)
        return map_tensors(outputs, "", lambda slot, x: watch(number, "output_gradient", slot or "result", x))

    return [cell.register_forward_pre_hook(before, with_kwargs=True),
            cell.register_forward_hook(after, with_kwargs=True)]  # fmt: skip


def map_tensors(value: Any, slot: str, function: Callable[[str, Any], Any]) -> Any:
    """Return nested tuples, lists and dicts with a function applied to each tensor and its slot."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return function(slot, value)
    if isinstance(value, (tuple, list)):
        items = [map_tensors(item, f"{slot}[{index}]", function) for index, item in enumerate(value)]
        if hasattr(value, "_fields"):
            return type(value)(*items)  # a named tuple
        return type(value)(items) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        mapped = copy.copy(value)  # it may be of a class of its own, as the results of transformers are
        for key, item in value.items():
            mapped[key] = map_tensors(item, f"{slot}[{key!r}]", function)
        return mapped
    return value


def bind_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Return the arguments of a call by parameter name, and what turns them into positional and keyword ones again.

    Where the signature isn't known, those without a name have their numbers.
    """
    names = [str(index) for index in range(len(args))]
    try:
        bound = inspect.signature(function).bind(*range(len(args)), **kwargs)  # which parameter each number goes to
    except (TypeError, ValueError):
        pass
    else:
        for name, value in list(bound.arguments.items())[: len(args)]:
            several = isinstance(value, tuple) and bound.signature.parameters[name].kind.name == "VAR_POSITIONAL"
            for index, number in enumerate(value if several else [value]):
                if isinstance(number, int) and name not in kwargs and number < len(args):
                    names[number] = f"{name}[{index}]" if several else name

    def arguments(values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(values[name] for name in names), {name: values[name] for name in kwargs}

    return {**dict(zip(names, args, strict=True)), **kwargs}, arguments


def _rank() -> tuple[int, int]:
    """Return the number of this process and of all processes, where `torch.distributed` runs."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that are in use."""
    names = ("torch", "numpy", "jax", "flax", "mindspore", "transformers", "onnxruntime", "tensorflow")
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {"python": platform.python_version()} | {name: str(v) for name, v in versions.items() if v is not None}


@contextlib.contextmanager
def _written_whole(path: Path) -> Iterator[Any]:
    """Yield a file that gets its name when it is complete."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
