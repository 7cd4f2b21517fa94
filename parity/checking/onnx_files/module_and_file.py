"""The comparison of a torch module with an ONNX file, or with the program of one, Cell by Cell."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import torch
from torch.utils import _pytree as pytree

from ....converter.capture.cell_hooks import input_slots
from ....converter.onnx_in.importing import from_onnx
from ....converter.onnx_in.inputs import Shapes
from ....converter.onnx_out.export import to_onnx
from ....runtime import tree
from ....runtime.compiled.session import SessionError
from ....runtime.errors import CellbridgeError, ConversionError, ProgramError, UsageError
from ....runtime.ir.program import Program
from ....runtime.ir.types import FLOAT64
from ....runtime.programs.call import as_array
from ....runtime.programs.gradient_program import differentiate
from ....runtime.programs.interpreter import execute
from ...correspondence.structures import match_results
from ...dtypes import HALVES, WORKING_DTYPES, cast_floating
from ...inputs.onnx_draws import drawing_nodes, name_draws
from ...inputs.onnx_reading import OnnxFile, adapt_options, dtype_of, read
from ...inputs.sizes import format_sizes, other_sizes, resize
from ...judging.judging import judge_sides
from ...judging.probing.plan import probes
from ...judging.probing.probe import OnProbes
from ...options import Options
from ...pairing.by_values.alignment import Alignment, PairResults, align, order_of_inputs
from ...pairing.by_values.flat import without_boundaries
from ...pairing.by_values.sides import FileSide, ModuleSide
from ...report.report import Report
from ...results.comparison import Comparison
from ...sides.interpreter_side import Arrange, InterpreterSide
from ...sides.names import ONNXRUNTIME
from ...sides.onnx_models import OnnxModel, graph_model
from ...sides.onnxruntime_side import OnnxModelSide
from ...sides.records import Array, Records
from ...sides.run import FORWARD, ReferenceRun, Run
from ...sides.side import Side
from ...sides.torch_side import TorchSide
from ...support.messages import first_line
from ...support.progress import Progress
from ..other_sizes import judge_at
from .rejected import explain_rejected

CANDIDATE = "candidate"
_FLOATING = {onnx.TensorProto.DataType.Value(name) for name in ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16")}


@dataclass
class ModuleAndFile:
    """A module and an ONNX file, or the program of one, to be compared on any inputs.

    Attributes:
        module: the module, the reference.
        candidate: the file or model, or a program read from one.
        options: options of the run.
        progress: receives the stages of the run.
        name: what the module's side is called.
        candidate_name: what the other side is called.
        is_port: whether the candidate is a port, which may return its results in another container.
    """

    module: torch.nn.Module
    candidate: OnnxModel | Program
    options: Options
    progress: Progress
    name: str = "torch"
    candidate_name: str = CANDIDATE
    is_port: bool = False

    def judge_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Report:
        """Compare the file's program with the module Cell by Cell, and its results in ONNX Runtime by rounding.

        Where that is impossible, only the results in ONNX Runtime are compared, and a note has the reason.
        """
        runtime = None if isinstance(self.candidate, Program) else self._runtime_side(args, kwargs)
        try:
            alignment = self.align_inputs(args, kwargs, runtime)
        except CellbridgeError as error:
            if runtime is None:
                raise
            if self._draws:
                raise UsageError(f"{self._draws}, and can't be read as a program: {first_line(error)}") from error
            alone = replace(runtime, name=self.candidate_name)
            try:
                report = judge_sides(self._plain_side(args, kwargs), [alone], self.options, self.progress)
            except SessionError as refusal:
                unread = error if isinstance(error, ConversionError) else error.__cause__
                if not isinstance(unread, ConversionError):
                    raise
                with explain_rejected(*([] if isinstance(runtime.model, onnx.ModelProto) else [str(runtime.model)])):
                    raise unread from refusal
            report.notes.append(f"only its results in ONNX Runtime were compared: {first_line(error)}")
            return report
        return self.judge_alignment(alignment, runtime)

    def align_inputs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], runtime: OnnxModelSide | None = None
    ) -> Alignment:
        """Return both sides with the same boundaries.

        Raises:
            CellbridgeError: the module or the program doesn't run on these inputs, or it can't be read as a program.
        """
        program, notes = self._program(runtime)
        alignment = align(
            self.candidate_name, self.module, program, (args, kwargs), self._arrange(runtime), self._pair(runtime),
            self.options, self.name,
        )  # fmt: skip
        in_a_file = functools.partial(self._module_in_a_file, alignment.reference)
        side = replace(alignment.side, reference_in_a_file=in_a_file)
        return replace(alignment, side=side, notes=[*alignment.notes, *notes])

    def judge_alignment(
        self, alignment: Alignment, runtime: OnnxModelSide | None = None, *, on_probes: OnProbes = "all"
    ) -> Report:
        """Compare both sides Cell by Cell, and the results in ONNX Runtime by rounding.

        Args:
            alignment: both sides.
            runtime: the file in ONNX Runtime; None to leave it out.
            on_probes: what is compared on further inputs.
        """
        notes = list(alignment.notes)
        options = self._options_for(alignment.side, notes)
        if runtime is not None and runtime.capabilities.numbers.quantized:
            options = replace(options, probe=False)  # quantizers have a range, that of the given inputs
        sides: list[Side] = [alignment.side]
        if self._draws:
            notes.append(
                f"{self._draws}: {self.candidate_name} replayed the module's; ONNX Runtime can't, and wasn't compared"
            )
        elif runtime is not None:
            sides.append(runtime)
        rounded: list[Side] = [alignment.reference, alignment.side]
        report = judge_sides(
            alignment.reference, sides, options, self.progress, rounded, on_probes=on_probes,
            correspondence=alignment.correspondence, presence=alignment.presence,
        )  # fmt: skip
        report.notes += notes
        self._place_on_probe(report, alignment)
        return report

    def _place_on_probe(self, report: Report, alignment: Alignment) -> None:
        """If only a probe shows a fault, place it anew, with the Cells found by the values that they have there.

        Where a clamp changes nothing, the values before and after it are the same place.
        """
        shown = {c.probe for c in _failures(report, self.candidate_name)}
        if len(shown) != 1 or shown == {""}:
            return
        of_values = (p for p in probes(alignment.reference, alignment.side) if p.name in shown and p.is_of_values)
        probe = next(of_values, None)
        if probe is None:
            return
        assert probe.arguments is not None, "a probe of values has arguments"
        args, kwargs = probe.arguments
        again = replace(self, options=replace(self.options, probe=False)).judge_inputs(args, dict(kwargs))
        if any(c.check == "meaning" for c in _failures(again, self.candidate_name)):
            report.replace_probe(again, probe.name, self.candidate_name)

    def _module_in_a_file(self, reference: ModuleSide) -> InterpreterSide:
        """Return the module as it is in a file that is written now, with the boundaries that the candidate has.

        Raises:
            CellbridgeError: the module can't be written to a file.
        """
        captured = reference.in_interpreter().program
        program, arrange = from_onnx(to_onnx(captured)), _arrange_by(captured.arguments)
        arguments = reference.args, reference.kwargs
        name, options = reference.name, self.options
        alignment = align(
            name, self.module, program, arguments, arrange, lambda truth: None, options, keeps_merged=True
        )
        side = alignment.side
        return replace(side, program=without_boundaries(side.program, reference.keeps))

    def judge_at_other_sizes(self, report: Report, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """If the file has dynamic axes, judge at other sizes too, and add the results to the report."""
        if isinstance(self.candidate, Program):
            program, arrange = self.candidate, self._arrange(None)
        else:
            runtime = self._runtime_side(args, kwargs)
            file = self._open
            if file is None or file.program is None or self.candidate_name in report.sides[1:]:
                return
            program, arrange = file.program, self._arrange(runtime)
        by_place = dict(zip(order_of_inputs((args, kwargs), arrange), program.inputs, strict=True))
        like_module = program.replace(inputs=tuple(value for _, value in sorted(by_place.items(), key=lambda x: x[0])))
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        forward = Run("float64", FORWARD)
        resized = replace(self, options=replace(self.options, probe=False))

        def run_file(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            execute(program.astype("float64"), [cast_floating(x, FLOAT64) for x in arrange(args, kwargs)])

        for sizes in other_sizes(like_module, tensors, None):
            other_args, other_kwargs = resize(like_module, args, kwargs, sizes)
            judge_at(
                report, format_sizes(sizes), functools.partial(resized.judge_inputs, other_args, other_kwargs),
                (
                    functools.partial(self._plain_side(other_args, other_kwargs).run, forward),
                    functools.partial(run_file, other_args, other_kwargs),
                ),
                ("the module", self.candidate_name),
            )  # fmt: skip

    def _options_for(self, side: FileSide, notes: list[str]) -> Options:
        """Return the options, without gradients if the file's program has none, with a note on it."""
        if not self.options.grads:
            return self.options
        try:
            differentiate(side.program, every_boundary=True)
        except ProgramError as error:
            notes.append(f"gradients not compared: {first_line(error)}")
            return replace(self.options, grads=False)
        return self.options

    def _plain_side(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> TorchSide:
        options = self.options
        return TorchSide(
            "reference", self.module, args, kwargs,
            train=options.train, loss=options.loss, working_dtype=options.dtype, seed=options.seed,
        )  # fmt: skip

    def _runtime_side(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OnnxModelSide:
        assert not isinstance(self.candidate, Program), "ONNX Runtime runs models"
        names = [slot for _, slot in sorted(input_slots(self.module, args, kwargs))]
        dtype = WORKING_DTYPES[self.options.dtype].onnxruntime
        if self.taken_dtype == "float64" and self._open is not None and self._open.program is not None:
            _, dtype, _ = adapt_options(self.options, self._open.program)
        name, provider = f"{self.candidate_name} in {ONNXRUNTIME}", self.options.provider
        return OnnxModelSide(name, self.candidate, args, kwargs, dtype=dtype, provider=provider, names=names)

    @cached_property
    def taken_dtype(self) -> str:
        """The floating-point dtype of all numbers that the file takes; "" if it takes none, or several."""
        if isinstance(self.candidate, Program):
            return ""
        model = graph_model(self.candidate)
        stored = {tensor.name for tensor in model.graph.initializer}
        input_types = {i.type.tensor_type.elem_type for i in model.graph.input if i.name not in stored}
        names = {str(onnx.helper.tensor_dtype_to_np_dtype(input_type)) for input_type in input_types & _FLOATING}
        return names.pop() if len(names) == 1 else ""

    @cached_property
    def _draws(self) -> str:
        """What the file draws, as a text; empty if it draws nothing."""
        if isinstance(self.candidate, Program):
            return ""
        nodes = drawing_nodes(graph_model(self.candidate))
        return f"{self.candidate_name} draws random numbers ({name_draws(nodes)})" if nodes else ""

    @cached_property
    def _open(self) -> OnnxFile | None:
        """The file, read with its open sizes."""
        assert not isinstance(self.candidate, Program), "it is read already"
        return self._read({})

    def _read(self, shapes: Shapes) -> OnnxFile:
        if isinstance(self.candidate, onnx.ModelProto):
            return read("the model", shapes, self.candidate)
        assert not isinstance(self.candidate, Program), "it is read already"
        return read(str(self.candidate), shapes)

    def _program(self, runtime: OnnxModelSide | None) -> tuple[Program, list[str]]:
        """Return the program of the file, and notes on its conversion.

        Raises:
            CellbridgeError: it can't be read as a program, or not be judged in the working dtype.
        """
        if runtime is None:
            assert isinstance(self.candidate, Program), "there is a runtime side for models"
            return self.candidate, []
        file = self._open
        if file is None or file.program is None:
            shapes = {name: x.shape for name, x in runtime.inputs.items() if isinstance(x, np.ndarray)}
            file = self._read(shapes)
        if file.program is None:
            raise UsageError(file.unknown) from file.error
        file_dtype, dtype = dtype_of(file.program), self.options.dtype
        if file_dtype != dtype and {file_dtype, dtype} & HALVES:
            raise UsageError(
                f"it computes in {file_dtype}, and was compared in {dtype}; --dtype {file_dtype} compares its Cells"
            )
        return file.program, list(file.notes)

    def _arrange(self, runtime: OnnxModelSide | None) -> Arrange:
        if runtime is None:
            assert isinstance(self.candidate, Program), "there is a runtime side for models"
            return _arrange_by(self.candidate.arguments)

        def arrange(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Array]:
            values = runtime.pair_inputs(runtime.graph, args, kwargs).values()
            arrays = [x for x in values if isinstance(x, np.ndarray)]
            if len(arrays) < len(values):
                raise UsageError("it takes sequences of tensors")
            return arrays

        return arrange

    def _pair(self, runtime: OnnxModelSide | None) -> PairResults:
        if runtime is None:
            return self._pair_results_of_port if self.is_port else lambda truth: None
        names = [value.name for value in runtime.graph.output]
        return lambda truth: runtime.pair_results(Run("float64", reference=ReferenceRun.of(truth)), names)[0]

    def _pair_results_of_port(self, truth: Records) -> list[int | None] | None:
        """Pair the results of a port's program by position, where they are the reference's in another container."""
        assert truth.result is not None, "torch records its result"
        program, _ = self._program(None)
        match = match_results(truth.result, program.result, is_port=True)
        return None if match.differences else match.partners


def _failures(report: Report, side: str) -> list[Comparison]:
    """Return what fails in the file's program."""
    return [c for cell in report.cells.values() for c in cell.failures if c.side == side]


def _arrange_by(arguments: tree.Structure) -> Arrange:
    """Return what arranges a call's tensors as the inputs of a program with these arguments."""
    return lambda args, kwargs: [as_array(leaf) for leaf in tree.match_call(arguments, args, kwargs)]
