"""The side of an ONNX model that a user gives, run in ONNX Runtime; it has outputs, but no gradients."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from ...converter.onnx_out import naming
from ...runtime import tree
from ...runtime.compiled.isolated import Given, IsolatedSession
from ...runtime.errors import UsageError
from ...runtime.ir.types import as_dtype, is_floating
from ...runtime.programs.call import as_array
from ..dtypes import cast_floating
from .onnx_models import OnnxModel, graph_model, whole_model
from .provider_notes import provider_notes
from .quantized_steps import CodesOfFloat64, is_quantized
from .records import OUTPUT, Array, Key, Mismatch, Records
from .replay import Replay
from .resolution import Resolution, resolutions
from .run import Run
from .runtime_model import RuntimeModel
from .side import Capabilities, OwnNumbers, ParameterInfo
from .slots import plain_slot

MAX_TEXTS = 4  # shown in a note
MAX_TEXT_LENGTH = 40


@dataclass(frozen=True, eq=False, repr=False)
class OnnxModelSide:
    """The user's ONNX model, with the reference's inputs in flat order; it is compared at its outputs.

    It runs in a separate process, because the file is untrusted.

    Attributes:
        name: what it is called in reports.
        model: the model, or the path of its file.
        args: positional inputs.
        kwargs: keyword inputs.
        dtype: the dtype that it computes in.
        provider: name of the execution provider (`runtime.providers`).
        optimized: whether ONNX Runtime optimizes it.
        names: the reference's names of these inputs, if known: inputs are then paired by name if the model has the same
            names.
        arrange: returns the model's inputs from other arguments of the reference, if they aren't the same.
    """

    name: str
    model: OnnxModel
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    _: KW_ONLY
    dtype: str = "float32"
    provider: str = "cpu"
    optimized: bool = True
    names: Sequence[str] = ()
    arrange: Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[Any, ...]] | None = None
    session: IsolatedSession = field(init=False)
    """It loads while the other sides run."""

    def __post_init__(self) -> None:
        self.pair_inputs(self.graph, self.args, self.kwargs)  # raises `UsageError` before anything is run
        session = IsolatedSession(self.model, self.provider, optimized=self.optimized)
        object.__setattr__(self, "session", session)

    @cached_property
    def capabilities(self) -> Capabilities:
        """It runs in one dtype and has outputs alone."""
        numbers = OwnNumbers(own_precision=self.dtype != "float64", quantized=is_quantized(self._graph_model))
        checks = (("meaning" if self.dtype == "float64" else "rounding", self.dtype),)
        return Capabilities(checks, gradients=False, cells="none", numbers=numbers)

    @cached_property
    def _graph_model(self) -> onnx.ModelProto:
        return graph_model(self.model)

    @property
    def graph(self) -> onnx.GraphProto:
        """The graph, without data that is in other files."""
        return self._graph_model.graph

    @cached_property
    def inputs(self) -> dict[str, Given]:
        """The model's inputs by name."""
        return self.pair_inputs(self.graph, self.args, self.kwargs)

    @cached_property
    def resolutions(self) -> dict[str, Resolution]:
        """Resolution of the kernels that compute values, by the values' names."""
        return resolutions(self.graph)

    def parameters(self) -> dict[str, ParameterInfo]:
        """Return nothing: a file's parameters have no known names."""
        return {}

    def run(self, run: Run) -> Records:
        """Run once; the outputs are the root's, in order. A feed has no effect, since inner Cells aren't visible."""
        records = Records()
        inputs = self._inputs_of(run)
        results = self._run_from_same_codes(inputs, records) if run.numbers.same_codes else self.session.run(inputs)
        outputs = tensors_of(results)
        partners, notes = self.pair_results(run, list(outputs))
        elsewhere = [] if self.provider == "cpu" else self.session.nodes_elsewhere()
        records.notes += [*notes, *legend(results), *provider_notes(self.name, self.provider, elsewhere, self.graph)]
        count = len(run.reference.slots.get(("", 0, OUTPUT), outputs))
        if len(outputs) > count:
            reason = f"returns {len(outputs)} tensors in the candidate ({', '.join(outputs)}), {count} in the reference"
            records.faults.mismatches.append(Mismatch("", 0, "call", "", reason))
        replay = Replay(run)
        for slot, (name, array) in zip(run.reference.root_slots(list(outputs), partners), outputs.items(), strict=True):
            key = Key("", 0, OUTPUT, slot)
            records.add(key, replay.value(key, array))
            if name in self.resolutions:
                records.boundaries.resolutions[key] = self.resolutions[name]
        return records

    def runtime_model(self, run: Run) -> RuntimeModel:
        """Return the file with its inputs, to be run with other settings; without outputs if some aren't numbers."""
        inputs = self._inputs_of(run)
        names = [value.name for value in self.graph.output]
        if not all(_is_numbers(value.type) for value in self.graph.output):
            return RuntimeModel(self.model, inputs, {}, self.provider)
        partners, _ = self.pair_results(run, names)
        slots = run.reference.root_slots(names, partners)
        outputs = {Key("", 0, OUTPUT, slot): name for slot, name in zip(slots, names, strict=True)}
        return RuntimeModel(self.model, inputs, outputs, self.provider)

    def _inputs_of(self, run: Run) -> dict[str, Given]:
        if run.call.arguments is None:
            return self.inputs
        if self.arrange is None:
            return self.pair_inputs(self.graph, *run.call.arguments)
        return self.pair_inputs(self.graph, self.arrange(*run.call.arguments), {})

    def _run_from_same_codes(self, inputs: Mapping[str, Given], records: Records) -> Mapping[str, Mapping[str, Array]]:
        """Return the outputs computed from the codes of float64, or end to end if these codes can't be computed."""
        cut = CodesOfFloat64(whole_model(self.model), self.provider)
        arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        outputs = cut.run(arrays) if len(arrays) == len(inputs) else None
        if outputs is None:
            return self.session.run(inputs)
        records.notes, records.faults.mismatches = cut.notes, cut.mismatches
        return outputs

    def pair_results(self, run: Run, names: Sequence[str]) -> tuple[list[int | None], list[str]]:
        """Pair the file's outputs with the reference's, by name if possible, else by position; with a note on how."""
        slots = run.reference.slots.get(("", 0, OUTPUT), names)
        expected_names = (
            naming.names_in(run.reference.result)
            if run.reference.result is not None and run.reference.result.keys
            else []
        )
        partners: list[int | None] = [expected_names.index(name) if name in expected_names else None for name in names]
        by_name = [name for name, partner in zip(names, partners, strict=True) if partner is not None]
        free = [position for position in range(len(slots)) if position not in partners]
        for i, partner in enumerate(partners):
            if partner is None and free:
                partners[i] = free.pop(0)
        if len(names) < 2 or len(slots) < 2 or not run.reference.slots:
            return partners, []
        pairs = [
            f"{name} with {slots[partner]}"
            for name, partner in zip(names, partners, strict=True)
            if partner is not None and name not in by_name
        ]
        hows = {"by name": by_name, "by position": pairs}
        how = "; ".join(f"{how} {', '.join(which)}" for how, which in hows.items() if which)
        return partners, [f"outputs of {self.name} were paired {how}"]

    def pair_inputs(self, graph: onnx.GraphProto, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Given]:
        """Return the arguments by input name: keyword arguments by their name, the others by position."""
        initializers = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in initializers]
        element_types = {value.name: element_type(value.type) for value in inputs}
        structured = any(not value.type.HasField("tensor_type") for value in inputs)
        values: Sequence[Any] = (*args, *kwargs.values()) if structured else tree.flatten((args, dict(kwargs)))[0]
        by_keyword = {name: value for name, value in kwargs.items() if structured or tree.is_tensor(value)}
        if len(values) != len(inputs):
            raise UsageError(
                f"the ONNX model takes {len(inputs)} inputs ({', '.join(v.name for v in inputs)}), given {len(values)}"
            )
        if set(by_keyword) == {value.name for value in inputs}:
            values = [by_keyword[value.name] for value in inputs]
        elif not structured and sorted(map(plain_slot, self.names)) == sorted(plain_slot(v.name) for v in inputs):
            by_name = dict(zip(map(plain_slot, self.names), values, strict=True))
            values = [by_name[plain_slot(value.name)] for value in inputs]
        return {name: _to_input(value, kind) for (name, kind), value in zip(element_types.items(), values, strict=True)}


def element_type(proto: onnx.TypeProto) -> int:
    """The element type of a tensor, or of the tensors of a sequence or optional; 0 if there is none."""
    while (kind := proto.WhichOneof("value")) in ("optional_type", "sequence_type"):
        proto = proto.optional_type.elem_type if kind == "optional_type" else proto.sequence_type.elem_type
    return proto.tensor_type.elem_type


def _is_numbers(proto: onnx.TypeProto) -> bool:
    """Whether a value is a tensor of numbers."""
    return proto.HasField("tensor_type") and proto.tensor_type.elem_type != onnx.TensorProto.STRING


def _to_input(value: Any, kind: int) -> Given:
    """Return an argument as ONNX Runtime takes it."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_in_element_type(as_array(item), kind) for item in value]
    return _in_element_type(as_array(value), kind)


def _in_element_type(array: Array, kind: int) -> Array:
    if array.dtype.kind == "U":
        return array
    dtype = as_dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)) if kind else array.dtype
    return cast_floating(array, dtype) if is_floating(dtype) else array


def tensors_of(outputs: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Return outputs by name: items of a sequence by name and position, strings as the numbers that represent them."""
    return {
        f"{name}{at}": item if item.dtype.kind != "U" else _numbers_of(item)
        for name, items in outputs.items()
        for at, item in items.items()
    }


def _numbers_of(texts: Array) -> Array:
    """Return a number for each string, different for different strings."""
    number_of = {text: _number_of(text) for text in np.unique(texts).tolist()}
    numbers = np.array([number_of[text] for text in texts.reshape(-1).tolist()], np.int64)
    return numbers.reshape(texts.shape)


def _number_of(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=6)  # float64 holds 48 bits exactly
    return int.from_bytes(digest.digest())


def legend(outputs: Mapping[str, Mapping[str, Array]]) -> list[str]:
    """Return a note on the numbers that represent strings, if there are any."""
    items = [item for arrays in outputs.values() for item in arrays.values() if item.dtype.kind == "U"]
    texts = sorted({text for item in items for text in item.reshape(-1).tolist()})
    examples = ", ".join(f"{_number_of(text)} for {text[:MAX_TEXT_LENGTH]!r}" for text in texts[:MAX_TEXTS])
    more = f" and {len(texts) - MAX_TEXTS} others" if len(texts) > MAX_TEXTS else ""
    return [f"strings were compared by numbers that represent them: {examples}{more}"] if texts else []
