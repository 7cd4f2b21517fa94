"""Running an ONNX model in ONNX Runtime, on NumPy arrays or on tensors that stay on the device."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime.capi.onnxruntime_pybind11_state as ort_errors
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ..errors import UsageError
from ..lowering.graph import CELL, SOURCE
from ..onnxruntime_package import conflict_hint, installed_packages
from ..providers import PROVIDERS, find, short_name
from ..visible import encodable_name
from .assignment import RECORD_ASSIGNMENT, nodes_elsewhere

Array = np.ndarray[Any, Any]

# optimizations of ONNX Runtime that lose the precision of float64: a factor before or after a matrix product becomes
# an attribute of the product, in float32
IN_FLOAT32 = ["MatMulScaleFusion"]
CUDA_GRAPH = {"enable_cuda_graph": "1"}  # the first run of a model is recorded, and later ones are started as a whole
FATAL_ONLY = 4  # log level of ONNX Runtime; it also raises its errors as exceptions
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


class IndexOutOfRange(SessionError, IndexError, ValueError):
    """An index or label is out of range."""


class DivisionByZero(SessionError, ZeroDivisionError):
    """An integer is divided by 0."""


_OF_DATA = {
    r"out of data bounds|Out of range value in index|invalid indi?ce|invalid index": (
        IndexOutOfRange,
        "an index or label is out of range",
        "pass indices below the size of the indexed axis, and labels below the number of classes (or ignore_index); in "
        "eager mode the error gives the position of the first invalid one",
    ),
    r"Integer (division|modulo) by zero": (
        DivisionByZero,
        "integers are divided by 0",
        "choose another divisor there, e.g. `ops.where(divisor == 0, 1, divisor)`",
    ),
}
"""Messages of ONNX Runtime about invalid values in the data: the error to raise, its text, and what to do."""


_TOO_NEW = re.compile(
    r"(?s)(?P<what>Opset) (?P<given>\d+) is under development.* till opset (?P<most>\d+)"
    r"|model (?P<ir>IR version): (?P<given_ir>\d+), max supported IR version: (?P<most_ir>\d+)"
)
"""Message of ONNX Runtime about a model that is too new for it."""


class Session:
    """A model loaded in ONNX Runtime.

    Args:
        model: the model, or the path of its file (needed if it has an external data file).
        provider: name of the execution provider (`runtime.providers`).
        tensors: the data of initializers that the model only refers to, by name (`lowering.writing.add_references`).
        cuda_graph: whether to record runs as CUDA graphs, if ONNX Runtime can do that with this model.

    Attributes:
        inputs: names of the model's inputs.
        outputs: names of its outputs.
        provider: the provider that runs it.
        cuda_graph: whether runs are recorded as CUDA graphs: each must be bound to tensors on the GPU, and a later run
            with the same `gpu_graph_id` computes from and into the tensors of the first.
        ort: the session of ONNX Runtime.

    Raises:
        SessionError: ONNX Runtime doesn't accept the model.
        UsageError: the provider isn't available.
    """

    def __init__(
        self,
        model: onnx.ModelProto | str | PathLike[str],
        provider: str = "cpu",
        tensors: Mapping[str, Array] | None = None,
        *,
        cuda_graph: bool = False,
    ) -> None:
        self._model = model
        self.provider = choose_provider(provider)
        self.cuda_graph = cuda_graph and self.provider == "cuda"
        self._tensors = tensors or {}
        self.ort = self._create_session()
        if not self.cuda_graph:
            self._tensors = {}
        self._types = {node.name: node.type for node in self.ort.get_inputs()}
        self.inputs = list(self._types)
        self.outputs = [node.name for node in self.ort.get_outputs()]

    def _create_session(self) -> ort.InferenceSession:
        options = ort.SessionOptions()
        if self._tensors:
            options.add_external_initializers(list(self._tensors), list(map(ort_value, self._tensors.values())))
        for name, value in session_options().items():
            setattr(options, name, value)
        ort.set_default_logger_severity(FATAL_ONLY)
        disabled = IN_FLOAT32 if has_doubles(self._model) else []
        if self.provider != "cpu":
            options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
        providers = find(self.provider).chain(**(CUDA_GRAPH if self.cuda_graph else {}))
        try:
            session = ort.InferenceSession(
                _source(self._model), options, providers=providers, disabled_optimizers=disabled, enable_fallback=0
            )
        except ORT_ERRORS as error:
            if self.cuda_graph:  # it can't record control flow, nor operators that have no kernel for the GPU
                self.cuda_graph = False
                return self._create_session()
            raise self.explain(error) from error
        except (RuntimeError, ValueError) as error:  # of a provider that is installed and doesn't load
            raise unusable(self.provider, ["CPUExecutionProvider"], str(error)) from error
        require_active(self.provider, session.get_providers())
        return session

    def nodes_elsewhere(self) -> list[tuple[str, str]]:
        """Return the nodes that another provider runs than the one asked for: type of the operator and name."""
        return nodes_elsewhere(self.ort, find(self.provider).ort_name)

    def stop_recording(self) -> None:
        """Load the model again, to be run without CUDA graphs: an operator of it can't be part of one."""
        self.cuda_graph = False
        self.ort = self._create_session()
        self._tensors = {}

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model once.

        Args:
            inputs: one array per input of the model, by name, with its dtype (including bfloat16) and shape.
            outputs: names of the outputs to compute; all of them if not given.

        Returns:
            The outputs by name.

        Raises:
            SessionError: ONNX Runtime fails to run the model.
            UsageError: the inputs aren't those of the model.
        """
        if set(self.inputs) != set(inputs):
            raise UsageError(f"the model takes the inputs {sorted(self.inputs)}, given {sorted(inputs)}")
        values = {name: self.value(name, inputs[name]) for name in self.inputs}
        names = list(outputs) if outputs is not None else self.outputs
        try:
            results = self.ort.run_with_ort_values(names, values)
        except ORT_ERRORS as error:
            raise self.explain(error) from error
        return {name: array_of(result) for name, result in zip(names, results, strict=True)}

    def value(self, name: str, array: Array) -> ort.OrtValue:
        """Return an array as a value for the input `name`; `UsageError` if it has another dtype."""
        value = ort_value(array)
        if value.data_type() != self._types[name]:
            raise UsageError(f"input {name!r} of the model is a {self._types[name]}, given {value.data_type()}")
        return value

    def explain(self, error: Exception) -> SessionError:
        """Return ONNX Runtime's error with the Cell and the source line of the node that it names."""
        return explain(error, self._model, self.provider)


def explain(error: Exception, model: onnx.ModelProto | str | PathLike[str], provider: str) -> SessionError:
    """Return ONNX Runtime's error about a model with the Cell and the source line of the node that it names."""
    if newer := _TOO_NEW.search(str(error)):
        kind, version, most = (x for x in newer.groups() if x is not None)
        return SessionError(
            f"ONNX Runtime can't run the model: its {kind.replace('Opset', 'opset')} is {version}, and ONNX Runtime "
            f"{ort.__version__} knows those up to {most}\n  what to do: install a newer ONNX Runtime, or write the "
            "model in an older opset: converter.to_onnx(converter.from_onnx(model), path)"
        )
    message = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error))
    message = re.sub(r"/onnxruntime(_src)?/\S+ [^\[\]]*(\[with [^\]]*\] )?", "", message).strip()  # its own C++
    where = "" if isinstance(error, ort_errors.NoSuchFile) else _place(message, model)
    pattern = next((pattern for pattern in _OF_DATA if re.search(pattern, message)), None)
    kind, what, instead = _OF_DATA[pattern] if pattern else (SessionError, "ONNX Runtime can't run the model", "")
    values = re.search(r"idx=(\S+) must be within the inclusive range \[(-?\d+),\s*(-?\d+)\]", message)
    detail = message if pattern is None else f"{values[1]}, valid are {values[2]} to {values[3]}" if values else ""
    message = (f"{what}: {detail}" if detail else what) + where
    if isinstance(error, ort_errors.NotImplemented):
        message += "" if where else _dtypes(message, model)
        message += (
            f"\n  what to do: it has no kernel for these dtypes on {provider!r}; compute in float32, or let "
            "the interpreter run the program"
        )
    if instead:
        message += f"\n  what to do: {instead}"
    return kind(message)


def _place(message: str, model: onnx.ModelProto | str | PathLike[str]) -> str:
    """Return the operator that ONNX Runtime names, with its Cell and line."""
    named = re.search(r"(?:node with name '|[Nn]ode \(|Name:')([^')]+)", message)
    if named is None:
        return ""
    for node in _proto(model).graph.node:
        if node.name == named[1]:
            metadata = {entry.key: entry.value for entry in node.metadata_props}
            where = f"\n  operator {node.op_type} of Cell {metadata.get(CELL, '(root)')}"
            return where + (f" at {metadata[SOURCE]}" if SOURCE in metadata else "")
    return ""


def _dtypes(message: str, model: onnx.ModelProto | str | PathLike[str]) -> str:
    """Return the operator without a kernel, by its output, and the dtypes of its tensors as far as the file says them.

    Of several that ONNX Runtime may mean, it is the one with the most unusual dtype.
    """
    named = re.search(r"implementation for (\w+)\(\d+\) node with name '([^']*)'", message)
    if named is None:
        return ""
    graph = _proto(model).graph
    types = {info.name: info.type.tensor_type.elem_type for info in (*graph.input, *graph.value_info, *graph.output)}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        output_types = [a.i for a in node.attribute if a.name in ("to", "output_dtype") and a.i]
        types |= dict.fromkeys(node.output, output_types[0]) if output_types else {}
    nodes = [node for node in graph.node if (node.op_type, node.name) == named.groups()]
    known_types = [[types[name] for name in (*node.input, *node.output) if types.get(name)] for node in nodes]
    index = max(range(len(nodes)), key=lambda number: max(known_types[number], default=0), default=None)
    if index is None or not known_types[index]:
        return ""
    names = dict.fromkeys(onnx.TensorProto.DataType.Name(dtype).lower() for dtype in known_types[index])
    return f"\n  operator {nodes[index].op_type} with the output {nodes[index].output[0]!r}: {', '.join(names)}"


def session_options() -> dict[str, Any]:
    """Return the options of a session that differ from ONNX Runtime's defaults."""
    return {
        "log_severity_level": FATAL_ONLY,
        "intra_op_num_threads": threads(),
        "enable_mem_pattern": False,  # it saves 2 % of the time of a run, but allocates its memory a second time
    }


def require_active(provider: str, active: Sequence[str]) -> None:
    """Raise `UsageError` if a session was created without the requested provider."""
    if find(provider).ort_name not in active:
        raise unusable(provider, active)


def unusable(provider: str, active: Sequence[str], reason: str = "") -> UsageError:
    """Return the error for a provider that the installed ONNX Runtime has, and that doesn't load here.

    Args:
        provider: its name.
        active: ONNX Runtime's names of the providers that do.
        reason: what ONNX Runtime says.
    """
    needs = find(provider).needs
    first = reason.partition("\n")[0]
    message = re.sub(r"^/\S+ .*?\) (?=[A-Z])", "", first)  # without the place in ONNX Runtime's own code
    return UsageError(
        f"ONNX Runtime can't use provider {provider!r} on this machine{f' (it needs {needs})' if needs else ''}: "
        f"available: {', '.join(map(short_name, active))}"
        + (f"\n  ONNX Runtime says: {message}" if message else "")
        + conflict_hint()
    )


@functools.cache
def has_driver() -> bool:
    """Whether the driver of a CUDA GPU is installed. Without it, CUDA's libraries aren't even loaded."""
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True


def run_model(
    model: onnx.ModelProto | str | PathLike[str],
    inputs: Mapping[str, Array],
    *,
    provider: str = "cpu",
    outputs: Sequence[str] | None = None,
    tensors: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Load a model and run it once; see `Session` and `Session.run`."""
    return Session(model, provider, tensors).run(inputs, outputs)


def threads() -> int:
    """Return the number of threads of a session: one for each processor that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_provider(provider: str | None) -> str:
    """Return the requested provider, or the best available one for None.

    Raises:
        UsageError: the installed ONNX Runtime doesn't have it.
    """
    if provider is None:
        return best_provider()
    offered = ort.get_available_providers()
    if find(provider).ort_name not in offered:
        names = ", ".join(map(short_name, reversed(offered)))
        raise UsageError(
            f"{'' if provider in PROVIDERS else 'unknown '}provider {provider!r}: the installed ONNX Runtime "
            f"({ort.__version__}) has {names}{_how_to_install(provider)}"
        )
    if find(provider).device == "cuda" and not has_driver():
        require_active(provider, [PROVIDERS["cpu"].ort_name])
    return provider


def _how_to_install(provider: str) -> str:
    """Return what to do for a provider that isn't installed; empty if that isn't known."""
    package = PROVIDERS[provider].package if provider in PROVIDERS else ""
    packages = installed_packages()
    if not package or package in packages:
        return ""
    return f"\n  what to do: pip uninstall -y {' '.join(packages)}, then pip install {package}"


@functools.cache
def best_provider() -> str:
    """Return "cuda" if ONNX Runtime can use a GPU, else "cpu"."""
    if not has_driver() or "CUDAExecutionProvider" not in ort.get_available_providers():
        return "cpu"
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "smallest", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    try:
        Session(model, "cuda")
    except UsageError:
        return "cpu"
    return "cuda"


def ort_value(array: Array) -> ort.OrtValue:
    """Return an array as a tensor of ONNX Runtime that shares its memory on the CPU."""
    array = np.asarray(array, order="C")
    if array.dtype.isbuiltin != 1:  # bfloat16 or an 8-bit float
        element_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, element_type)
    return ort.OrtValue.ortvalue_from_numpy(array)


def array_of(value: ort.OrtValue) -> Array:
    """Return a tensor of ONNX Runtime as an array."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.element_type())
    if dtype.isbuiltin == 1:
        return np.asarray(value.numpy())
    # OrtValue.numpy() raises for bfloat16, and returns 8-bit floats as their codes; results are in the CPU's memory
    # whatever the provider
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(data, dtype).reshape(value.shape())


def _proto(model: onnx.ModelProto | str | PathLike[str]) -> onnx.ModelProto:
    """Return the model, without loading its external data."""
    return model if isinstance(model, onnx.ModelProto) else onnx.load(fspath(model), load_external_data=False)


def has_doubles(model: onnx.ModelProto | str | PathLike[str]) -> bool:
    """Whether a tensor of the model is float64."""
    try:
        proto = _proto(model)
    except (DecodeError, OSError):  # ONNX Runtime will report what is wrong with the file
        return False
    values = (*proto.graph.input, *proto.graph.output, *proto.graph.value_info)
    dtypes = {value.type.tensor_type.elem_type for value in values} | {x.data_type for x in proto.graph.initializer}
    return onnx.TensorProto.DOUBLE in dtypes


def path_in_utf8(path: str | PathLike[str]) -> str:
    """Return the path; `UsageError` if ONNX Runtime can't open it."""
    name = fspath(path)
    if encodable_name(name) != name:
        raise UsageError(f"can't read {name}: its name isn't UTF-8, which ONNX Runtime needs; rename it")
    return name


def _source(model: onnx.ModelProto | str | PathLike[str]) -> bytes | str:
    if not isinstance(model, onnx.ModelProto):
        return path_in_utf8(model)
    if model.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF:
        raise UsageError("the model exceeds 2 GB: write it to a file and give its path")
    return bytes(model.SerializeToString())
