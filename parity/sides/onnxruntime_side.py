"""The ONNX Runtime side: a program written to ONNX, or an ONNX model as it is; outputs, no gradients."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import onnx

from ...converter.onnx_out import naming
from ...converter.onnx_out.export import to_onnx
from ...runtime import tree
from ...runtime.compiled.isolated import Given, IsolatedSession
from ...runtime.compiled.session import run_model
from ...runtime.errors import UsageError
from ...runtime.ir.passes.cut_boundaries import isolated_program
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value, as_dtype, is_floating
from ...runtime.lowering.precomputed import Precomputed
from ...runtime.programs.call import as_array
from ..dtypes import cast_floating
from .interpreter_side import replayed
from .quantized_steps import CodesOfFloat64, is_quantized
from .records import OUTPUT, Array, Capabilities, Key, Mismatch, ParameterInfo, Records, Run, plain_slot
from .resolution import resolutions

MAX_TEXTS = 4  # in a note
MAX_TEXT_LENGTH = 40


class ExportedSide:
    """A program, run in `dtype` as the ONNX model it is exported to."""

    def __init__(
        self,
        name: str,
        program: Program,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        dtype: str = "float32",
        provider: str = "cpu",
        opset: int | None = None,
    ) -> None:
        self.name = name
        self.opset = opset
        self.program = program.astype(dtype)
        self.provider = provider
        self.capabilities = Capabilities((("rounding", dtype),), gradients=False, own_precision=False)
        inputs = [as_array(leaf) for leaf in tree.match_call(program.arguments, args, kwargs)]
        # through the dtype that the program was captured in, so that every side starts from the same numbers
        captured = [cast_floating(array, value.dtype) for array, value in zip(inputs, program.inputs, strict=True)]
        self.inputs = [
            cast_floating(array, value.dtype) for array, value in zip(captured, self.program.inputs, strict=True)
        ]

    def parameters(self) -> dict[str, ParameterInfo]:
        """None of its own: they are the program's."""
        return {}

    def run(self, run: Run) -> Records:
        """Run once in the program's dtype; with a feed, every Cell on the values fed."""
        draws = replayed(self.program, run)
        return self._end_to_end(draws) if run.feed is None else self._isolated(run.feed, draws)

    def _end_to_end(self, draws: dict[str, Array]) -> Records:
        model = to_onnx(self.program, opset=self.opset, draws_as_inputs=True)
        wanted = {node.name for node in model.graph.input}
        inputs = dict(zip(naming.input_names(self.program), self.inputs, strict=True)) | draws
        results = run_model(model, {n: a for n, a in inputs.items() if n in wanted}, provider=self.provider)
        records = Records(calls=list(self.program.calls))
        roots = [n for n in self.program.nodes if n.op == "boundary" and _key(self.program, n)[:3] == ("", 0, OUTPUT)]
        by_value = dict(zip(self.program.outputs, naming.output_names(self.program), strict=True))
        known = resolutions(model.graph)
        for node in roots:
            key, name = _key(self.program, node), by_value[node.outputs[0]]
            records.add(key, results[name])
            if name in known:
                records.resolutions[key] = known[name]
        records.updates = {name: results[f"update.{name}"] for name in self.program.updates}
        return records

    def _isolated(self, feed: Records, draws: dict[str, Array]) -> Records:
        boundaries = [node for node in self.program.nodes if node.op == "boundary"]
        known: dict[Value, Array] = dict(zip(self.program.inputs, self.inputs, strict=True))
        known |= self.program.constant_data
        for node in boundaries:
            recorded = feed.values.get(_key(self.program, node))
            if recorded is not None and _fits(recorded, node.outputs[0]):
                known[node.outputs[0]] = cast_floating(recorded, node.outputs[0].dtype)
        # what crosses a boundary in the program alone (a mask made for tracing only, say) isn't recorded, or not in
        # that shape: no cut there
        never_changes = Precomputed(self.program)  # what ONNX lacks is computed of that when the model is written
        fixed = {value: array for value, array in known.items() if value in never_changes}
        cut = isolated_program(self.program, fed=known, fixed=fixed)
        model = to_onnx(cut, opset=self.opset, draws_as_inputs=True)
        wanted = {node.name for node in model.graph.input}
        names = dict(zip(naming.input_names(cut), (known[value] for value in cut.inputs), strict=True)) | draws
        computes = cut.outputs or cut.updates  # a model of identities computes nothing between boundaries
        inputs = {n: a for n, a in names.items() if n in wanted}
        results = run_model(model, inputs, provider=self.provider) if computes else {}
        names_of = dict(zip(cut.outputs, naming.output_names(cut), strict=True))
        known |= {value: results[name] for value, name in names_of.items()}
        records, resolved = Records(calls=list(self.program.calls)), resolutions(model.graph)
        for node in boundaries:
            key, operand = _key(self.program, node), node.inputs[0]
            if operand in known:
                records.add(key, known[operand])
                if names_of.get(operand, "") in resolved:
                    records.resolutions[key] = resolved[names_of[operand]]
                producer = self.program.producers.get(operand)
                source = producer.source if producer is not None and producer.op != "boundary" else node.source
                records.sources[key] = str(source) if source else ""
        records.updates = {name: results[f"update.{name}"] for name in cut.updates}
        return records


class OnnxModelSide:
    """An ONNX model of the user's, with the inputs of the reference in flat order; compared at its outputs.

    It runs in a process of its own: nobody vouches for what is in it.

    `names` are what the reference calls these inputs, where that is known: then they are paired by name, if the model
    has the same names.
    """

    def __init__(
        self,
        name: str,
        model: onnx.ModelProto | str | PathLike[str],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        dtype: str = "float32",
        provider: str = "cpu",
        optimized: bool = True,
        names: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.names = names
        self.model = model
        self.provider = provider
        known = model if isinstance(model, onnx.ModelProto) else _graph_only(model)
        quantized = is_quantized(known)
        self.capabilities = Capabilities((("rounding", dtype),), gradients=False, cells=False, quantized=quantized)
        graph = known.graph
        self.inputs = self._paired(graph, args, kwargs)
        self.resolutions = resolutions(graph)
        self.session = IsolatedSession(model, provider, optimized=optimized)  # it loads while the other sides run

    def parameters(self) -> dict[str, ParameterInfo]:
        """None that are known by name."""
        return {}

    def run(self, run: Run) -> Records:
        """Run once; the outputs are those of the root, in order. A feed changes nothing: its inside isn't seen."""
        records = Records()
        results = self._from_same_codes(records) if run.same_codes else self.session.run(self.inputs)
        outputs = tensors_of(results)
        partners, notes = self._partners(run, list(outputs))
        records.notes += [*notes, *legend(results)]
        count = len(run.slots.get(("", 0, OUTPUT), outputs))
        if len(outputs) > count:
            reason = f"returns {len(outputs)} tensors here ({', '.join(outputs)}), {count} there"
            records.mismatches.append(Mismatch("", 0, "call", "", reason))
        for slot, (name, array) in zip(run.root_slots(list(outputs), partners), outputs.items(), strict=True):
            key = Key("", 0, OUTPUT, slot)
            records.add(key, array)
            if name in self.resolutions:
                records.resolutions[key] = self.resolutions[name]
        return records

    def _from_same_codes(self, records: Records) -> Mapping[str, Mapping[str, Array]]:
        """Outputs computed from the codes of float64; end to end where these can't be had."""
        model = self.model if isinstance(self.model, onnx.ModelProto) else onnx.load(self.model)
        cut = CodesOfFloat64(model, self.provider)
        arrays = {name: given for name, given in self.inputs.items() if isinstance(given, np.ndarray)}
        outputs = cut.run(arrays) if len(arrays) == len(self.inputs) else None
        if outputs is None:
            return self.session.run(self.inputs)
        records.notes, records.mismatches = cut.notes, cut.mismatches
        return outputs

    def _partners(self, run: Run, names: Sequence[str]) -> tuple[list[int | None], list[str]]:
        """Which of the reference's outputs each of the file's is: by name, if both have names; and how it was found."""
        slots = run.slots.get(("", 0, OUTPUT), names)
        expected = naming.names_in(run.result) if run.result is not None and run.result.keys else []
        found: list[int | None] = [expected.index(name) if name in expected else None for name in names]
        by_name = [name for name, place in zip(names, found, strict=True) if place is not None]
        free = [place for place in range(len(slots)) if place not in found]
        for i, place in enumerate(found):
            if place is None and free:
                found[i] = free.pop(0)
        if len(names) < 2 or len(slots) < 2 or not run.slots:
            return found, []
        pairs = [
            f"{name} with {slots[place]}"
            for name, place in zip(names, found, strict=True)
            if place is not None and name not in by_name
        ]
        hows = {"by name": by_name, "by position": pairs}
        how = "; ".join(f"{how} {', '.join(which)}" for how, which in hows.items() if which)
        return found, [f"outputs of {self.name} were paired {how}"]

    def _paired(self, graph: onnx.GraphProto, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Given]:
        """The arguments by input name: keyword arguments by their name, the others by position."""
        initializers = {tensor.name for tensor in graph.initializer}
        needed = [value for value in graph.input if value.name not in initializers]
        element_types = {value.name: element_type(value.type) for value in needed}
        structured = any(not value.type.HasField("tensor_type") for value in needed)
        given: Sequence[Any] = (*args, *kwargs.values()) if structured else tree.flatten((args, dict(kwargs)))[0]
        named = {name: value for name, value in kwargs.items() if structured or tree.is_tensor(value)}
        if len(given) != len(needed):
            raise UsageError(
                f"the ONNX model takes {len(needed)} inputs ({', '.join(v.name for v in needed)}), given {len(given)}"
            )
        if set(named) == {value.name for value in needed}:
            given = [named[value.name] for value in needed]
        elif not structured and sorted(map(plain_slot, self.names)) == sorted(plain_slot(v.name) for v in needed):
            by_name = dict(zip(map(plain_slot, self.names), given, strict=True))
            given = [by_name[plain_slot(value.name)] for value in needed]
        return {name: _given(one, kind) for (name, kind), one in zip(element_types.items(), given, strict=True)}


def output_names(model: str | PathLike[str]) -> list[str]:
    """What a file calls its outputs, in order."""
    return [value.name for value in _graph_only(model).graph.output]


def _graph_only(path: str | PathLike[str]) -> onnx.ModelProto:
    try:
        return onnx.load(path, load_external_data=False)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}") from error
    except Exception as error:
        raise UsageError(f"{path} is not an ONNX model: {error}") from error


def element_type(proto: onnx.TypeProto) -> int:
    """The type of the elements of a tensor, or of the tensors of a sequence or optional; 0 where there are none."""
    while (kind := proto.WhichOneof("value")) in ("optional_type", "sequence_type"):
        proto = proto.optional_type.elem_type if kind == "optional_type" else proto.sequence_type.elem_type
    return proto.tensor_type.elem_type


def _given(value: Any, kind: int) -> Given:
    """An argument as ONNX Runtime takes it."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_in_element_type(as_array(one), kind) for one in value]
    return _in_element_type(as_array(value), kind)


def _in_element_type(array: Array, kind: int) -> Array:
    if array.dtype.kind == "U":
        return array
    dtype = as_dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)) if kind else array.dtype
    return cast_floating(array, dtype) if is_floating(dtype) else array


def _key(program: Program, node: Node) -> Key:
    call = program.calls[node.attributes["call"]]
    return Key(call.path, call.index, node.attributes["kind"], node.attributes["slot"])


def _fits(array: Array, value: Value) -> bool:
    """Whether an array has the shape of a value, as far as its dimensions are fixed."""
    return len(array.shape) == len(value.shape) and all(
        size == dim for size, dim in zip(array.shape, value.shape, strict=True) if isinstance(dim, int)
    )


def tensors_of(outputs: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Outputs by name; the items of a sequence by name and place; of texts, the numbers that stand for them."""
    return {
        f"{name}{at}": item if item.dtype.kind != "U" else _numbers_of(item)
        for name, items in outputs.items()
        for at, item in items.items()
    }


def _numbers_of(texts: Array) -> Array:
    """For each text a number, which is another one for another text."""
    found = {text: _number_of(text) for text in np.unique(texts).tolist()}
    numbers = np.array([found[text] for text in texts.reshape(-1).tolist()], np.int64)
    return numbers.reshape(texts.shape)


def _number_of(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=6)  # float64 holds 48 bits exactly
    return int.from_bytes(digest.digest())


def legend(outputs: Mapping[str, Mapping[str, Array]]) -> list[str]:
    """A note on the numbers that stand for texts, if there are any."""
    items = [item for found in outputs.values() for item in found.values() if item.dtype.kind == "U"]
    texts = sorted({text for item in items for text in item.reshape(-1).tolist()})
    shown = ", ".join(f"{_number_of(text)} for {text[:MAX_TEXT_LENGTH]!r}" for text in texts[:MAX_TEXTS])
    more = f" and {len(texts) - MAX_TEXTS} others" if len(texts) > MAX_TEXTS else ""
    return [f"texts were compared by numbers that stand for them: {shown}{more}"] if texts else []
