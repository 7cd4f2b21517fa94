"""The side of a program that is exported to ONNX and run in ONNX Runtime; it has outputs, but no gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import onnx

from ...converter.onnx_out import naming
from ...converter.onnx_out.export import onnx_parts
from ...runtime import tree
from ...runtime.compiled.session import Session, run_model
from ...runtime.ir.passes.cut_boundaries import isolated_program
from ...runtime.ir.program import Program
from ...runtime.ir.types import Value
from ...runtime.lowering.precomputed import Precomputed
from ...runtime.lowering.unused_inputs import remove_unused_inputs
from ...runtime.lowering.writing import Tensors, add_initializers, add_references
from ...runtime.programs.call import as_array
from ..dtypes import WORKING_DTYPES, cast_floating
from .boundary_observer import own_key
from .choices import VectorChoice
from .program_draws import recorded_draws
from .provider_notes import provider_notes
from .records import OUTPUT, Array, Key, Records
from .replay import Replay
from .resolution import resolutions
from .run import Arguments, Run
from .runtime_model import RuntimeModel
from .runtime_program import runtime_program
from .side import Capabilities, OwnNumbers, ParameterInfo

Parts = tuple[onnx.ModelProto, Tensors]


@dataclass(frozen=True, eq=False, repr=False)
class ExportedSide:
    """A program that was captured in `working_dtype`, exported to ONNX as `runtime_program` says.

    Attributes:
        name: what it is called in reports.
        captured: the program as it was captured.
        args: positional inputs.
        kwargs: keyword inputs.
        working_dtype: the dtype whose rounding is judged.
        provider: name of the execution provider (`runtime.providers`).
        opset: opset of the ONNX model; None for the default.
    """

    name: str
    captured: Program
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    _: KW_ONLY
    working_dtype: str = "float32"
    provider: str = "cpu"
    opset: int | None = None

    def __post_init__(self) -> None:
        tree.match_call(self.captured.arguments, self.args, self.kwargs)  # raises `UsageError` before anything is run

    @property
    def capabilities(self) -> Capabilities:
        """It runs in the dtypes of ONNX Runtime's kernels, without gradients."""
        checks = (("rounding", WORKING_DTYPES[self.working_dtype].onnxruntime),)
        return Capabilities(checks, gradients=False, numbers=OwnNumbers(own_precision=False))

    @cached_property
    def program(self) -> Program:
        """The program as it is run."""
        return runtime_program(self.captured, self.working_dtype, self.provider)

    @cached_property
    def inputs(self) -> list[Array]:
        """The program's inputs."""
        return self._arrays((self.args, dict(self.kwargs)))

    def parameters(self) -> dict[str, ParameterInfo]:
        """Return nothing: the parameters are the program's."""
        return {}

    def run(self, run: Run) -> Records:
        """Run once, in the dtypes of the program; with a feed, run every Cell on the values fed.

        End to end, eigenvectors inside are the reference's, since a session can't be made to turn its own.
        """
        draws = recorded_draws(self.program, run)
        inputs = self._inputs_of(run)
        turned = {k: c.target for k, c in run.reference.choices.items() if k.path and isinstance(c, VectorChoice)}
        if run.feed is not None:
            records = self._run_isolated(run.feed, inputs, draws)
        elif turned:
            records = self._run_isolated(Records(values=turned), inputs, draws)
            records.values = {k: array for k, array in records.values.items() if k[:3] == ("", 0, OUTPUT)}
        else:
            records = self._run_end_to_end(inputs, draws)
        replay = Replay(run)
        records.values = {key: replay.value(key, array) for key, array in records.values.items()}
        return records

    def _inputs_of(self, run: Run) -> list[Array]:
        return self.inputs if run.call.arguments is None else self._arrays(run.call.arguments)

    def _arrays(self, arguments: Arguments) -> list[Array]:
        """Return the program's inputs, from arguments of the reference."""
        leaves = [as_array(leaf) for leaf in tree.match_call(self.captured.arguments, *arguments)]
        # rounded to the dtype that the program was captured in first, so that all sides start from the same numbers
        rounded = [cast_floating(x, value.dtype) for x, value in zip(leaves, self.captured.inputs, strict=True)]
        return [cast_floating(x, value.dtype) for x, value in zip(rounded, self.program.inputs, strict=True)]

    def runtime_model(self, run: Run) -> RuntimeModel:
        """Return the model that a run consists of, to be run with other settings."""
        draws = recorded_draws(self.program, run)
        if run.feed is None:
            (model, tensors), inputs, names = self._whole_model(self._inputs_of(run), draws)
            add_initializers(model, tensors)
            return RuntimeModel(model, inputs, names, self.provider)
        cut = self._cut(run.feed, self._inputs_of(run))
        (model, tensors), inputs, by_value = self._isolated_model(*cut, draws)
        add_initializers(model, tensors)
        marks = [node for node in self.program.nodes if node.op == "boundary"]
        boundaries = {own_key(self.program, node): node.inputs[0] for node in marks}
        names = {key: by_value[value] for key, value in boundaries.items() if value in by_value}
        return RuntimeModel(model, inputs, names, self.provider)

    def _whole_model(
        self, arrays: list[Array], draws: dict[str, Array]
    ) -> tuple[Parts, dict[str, Array], dict[Key, str]]:
        """Return the model and its tensors, its inputs by name, and the names of its results by boundary."""
        model, tensors = onnx_parts(self.program, opset=self.opset, draws_as_inputs=True)
        input_names = {node.name for node in model.graph.input}
        inputs = dict(zip(naming.input_names(self.program), arrays, strict=True)) | draws
        marks = [node for node in self.program.nodes if node.op == "boundary"]
        roots = [node for node in marks if own_key(self.program, node)[:3] == ("", 0, OUTPUT)]
        by_value = dict(zip(self.program.outputs, naming.output_names(self.program), strict=True))
        names = {own_key(self.program, node): by_value[node.outputs[0]] for node in roots}
        return (model, tensors), {n: a for n, a in inputs.items() if n in input_names}, names

    def _run_end_to_end(self, arrays: list[Array], draws: dict[str, Array]) -> Records:
        (model, tensors), inputs, names = self._whole_model(arrays, draws)
        session = Session(model, self.provider, add_references(model, tensors))
        results = session.run(inputs)
        records = Records(calls=list(self.program.calls))
        records.notes += provider_notes(self.name, self.provider, session.nodes_elsewhere(), model.graph)
        known_resolutions = resolutions(model.graph)
        for key, name in names.items():
            records.add(key, results[name])
            if name in known_resolutions:
                records.boundaries.resolutions[key] = known_resolutions[name]
        records.state.updates = {name: results[f"update.{name}"] for name in self.program.updates}
        return records

    def _cut(self, feed: Records, arrays: list[Array]) -> tuple[Program, dict[Value, Array]]:
        """Return the program cut at the boundaries that are fed, and the values known before it runs."""
        known_values: dict[Value, Array] = dict(zip(self.program.inputs, arrays, strict=True))
        known_values |= self.program.constant_data
        for node in self.program.nodes:
            if node.op != "boundary":
                continue
            recorded = feed.values.get(own_key(self.program, node))
            if recorded is not None and _fits(recorded, node.outputs[0]):
                known_values[node.outputs[0]] = cast_floating(recorded, node.outputs[0].dtype)
        # values that cross a boundary only in the program (for example, a mask made for tracing) aren't recorded, or
        # not in that shape: the program isn't cut there
        never_changes = Precomputed(
            self.program
        )  # for operators that ONNX lacks, the export computes results from these
        constants = {value: array for value, array in known_values.items() if value in never_changes}
        return isolated_program(self.program, fed=known_values, fixed=constants), known_values

    def _isolated_model(
        self, cut_program: Program, known_values: Mapping[Value, Array], draws: dict[str, Array]
    ) -> tuple[Parts, dict[str, Array], dict[Value, str]]:
        """Return the model of a cut program and its tensors, its inputs by name, and the names of results by value."""
        model, tensors = onnx_parts(cut_program, opset=self.opset, draws_as_inputs=True)
        remove_unused_inputs(model)
        input_names = {node.name for node in model.graph.input}
        names = (
            dict(
                zip(naming.input_names(cut_program), (known_values[value] for value in cut_program.inputs), strict=True)
            )
            | draws
        )
        outputs = dict(zip(cut_program.outputs, naming.output_names(cut_program), strict=True))
        return (model, tensors), {n: a for n, a in names.items() if n in input_names}, outputs

    def _run_isolated(self, feed: Records, arrays: list[Array], draws: dict[str, Array]) -> Records:
        cut_program, known_values = self._cut(feed, arrays)
        (model, tensors), inputs, names_of = self._isolated_model(cut_program, known_values, draws)
        computes = (
            cut_program.outputs or cut_program.updates
        )  # a model of identities computes nothing between boundaries
        results: dict[str, Array] = {}
        if computes:
            results = run_model(model, inputs, provider=self.provider, tensors=add_references(model, tensors))
        known_values |= {value: results[name] for value, name in names_of.items()}
        records, known_resolutions = Records(calls=list(self.program.calls)), resolutions(model.graph)
        for node in self.program.nodes:
            if node.op != "boundary":
                continue
            key, operand = own_key(self.program, node), node.inputs[0]
            if operand not in known_values and node.outputs[0] in names_of:  # the program isn't cut there
                operand = node.outputs[0]
            if operand in known_values:
                records.add(key, known_values[operand])
                if names_of.get(operand, "") in known_resolutions:
                    records.boundaries.resolutions[key] = known_resolutions[names_of[operand]]
                producer = self.program.producers.get(operand)
                source = producer.source if producer is not None and producer.op != "boundary" else node.source
                records.boundaries.sources[key] = str(source) if source else ""
        records.state.updates = {name: results[f"update.{name}"] for name in cut_program.updates}
        return records


def _fits(array: Array, value: Value) -> bool:
    """Whether an array matches the shape of a value in its fixed dimensions."""
    return len(array.shape) == len(value.shape) and all(
        size == dim for size, dim in zip(array.shape, value.shape, strict=True) if isinstance(dim, int)
    )
