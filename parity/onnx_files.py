"""ONNX files, held against themselves and against each other: the interpreter, torch, and ONNX Runtime on the file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..converter.exclusive import one_at_a_time
from ..converter.onnx_in.importing import from_onnx
from ..converter.torch_out.export import to_torch
from ..runtime.errors import CellbridgeError, ConversionError, UsageError
from ..runtime.ir.dims import evaluate, symbols_in
from ..runtime.ir.program import Program
from ..runtime.ir.types import BFLOAT16, BOOL, FLOAT64, Constant, Value, is_floating
from ..runtime.memory import require_room
from ..runtime.tree import TENSOR, Structure, positional, sequence
from .affordable import require_affordable
from .input_files import read_arrays
from .options import Options, from_keywords
from .progress import NoProgress, Progress
from .results import FAIL, Comparison, Report
from .sides.interpreter_side import InterpreterSide
from .sides.onnxruntime_side import OnnxModelSide, output_names
from .sides.records import Abilities, Array, Run, Side
from .sides.torch_side import TorchSide
from .sizes import described, other_sizes
from .trial import judged

SIZES = (2, 5, 3, 7)  # of symbolic dimensions, in the order in which the inputs name them
PASSING_ON = frozenset({"boundary", "cast", "reshape", "expand", "transpose", "concat", "slice"})


@one_at_a_time
def check_onnx(path: str, *, inputs: str | None = None, progress: Progress | None = None, **options: Any) -> Report:
    """Hold an ONNX file, read as a program, against itself: in the interpreter, in torch, and in ONNX Runtime.

    Args:
        path: the file.
        inputs: an .npz file of arrays by input name; generated from the declared types if not given.
        progress: told of stages.
        **options: fields of `Options`.

    Returns:
        The report. The program as a torch module is the reference; the interpreter is compared with it Cell by Cell and
        backward. ONNX Runtime runs the file itself, and is compared at its outputs.

    Raises:
        UsageError: the file or the inputs can't be read or don't fit, or an option is wrong.
        ConversionError: the model can't be read as a program.
    """
    chosen, shown = from_keywords(Options, check_onnx, options), progress or NoProgress()
    _require_eval(chosen)
    shown.stage("read", None)
    program = _by_position(from_onnx(path))
    chosen, runtime_dtype, notes = _suited(chosen, program)
    args = tuple(_arrays(program, inputs, chosen.seed))
    require_affordable(program, args)
    interpreter = InterpreterSide("interpreter", program, args, {}, working_dtype=chosen.dtype, seed=chosen.seed)
    runtime = OnnxModelSide("onnxruntime", path, args, {}, dtype=runtime_dtype, provider=chosen.provider)
    reference: Side = interpreter
    sides: list[Side] = [runtime]
    try:
        _require_dtypes_of_torch(program)
        module = to_torch(program)
        reference = TorchSide("torch", module, _tensors(args), {}, working_dtype=chosen.dtype, seed=chosen.seed)
        sides = [interpreter, runtime]
    except ConversionError as error:
        notes.append(f"the interpreter is the reference, not torch: {error}".partition("\n")[0])
    report = judged(reference, sides, chosen, shown)
    report.notes += notes
    return report


@one_at_a_time
def compare_onnx(
    reference: str, candidate: str, *, inputs: str | None = None, progress: Progress | None = None, **options: Any
) -> Report:
    """Hold one ONNX file against another one that should compute the same.

    Args:
        reference: the file that is believed.
        candidate: the other one; inputs and outputs are paired by name, else by position.
        inputs: as for `check_onnx`, by the names of the reference.
        progress: told of stages.
        **options: fields of `Options`.

    Returns:
        The report: both files in the interpreter, in float64 and in the working dtype, with gradients; and ONNX Runtime
        on the candidate. Cells are compared where both files have the same, else the models as a whole; at other sizes
        of the dynamic dimensions too, if the inputs are generated. Numbers such as
        1 / sqrt(2) may be rounded to float32 in one file and not in the other.

    Raises:
        UsageError: a file or the inputs can't be read or don't fit.
        ConversionError: a model can't be read as a program.
    """
    chosen, shown = from_keywords(Options, compare_onnx, options), progress or NoProgress()
    _require_eval(chosen)
    shown.stage("read", None)
    first, second = _by_position(from_onnx(reference)), _by_position(from_onnx(candidate))
    chosen, runtime_dtype, notes = _suited(chosen, first)
    first, second, how = _with_results(first, second, output_names(reference), output_names(candidate))
    notes += how
    arrays = _arrays(first, inputs, chosen.seed)
    others = _paired(first, second, arrays)
    _require_same_dtypes(second, others, reference, candidate)
    require_affordable(first, arrays)
    require_affordable(second, others)
    alike = _interface(first) == _interface(second)
    if not alike:
        notes.append("the models were compared as a whole: their Cells or parameters are not the same")
        first, second = _without_parameters(first), _without_parameters(second)
    files = _Files(reference, candidate, first, second, alike, chosen, runtime_dtype, shown)
    report = files.judged(arrays)
    if inputs is None and not (chosen.fail_fast and not report.ok):
        files.judge_at_other_sizes(report, arrays)
    report.notes += notes
    return report


@dataclass(frozen=True)
class _Files:
    """Two files and the programs read from them, ready to be compared on any inputs."""

    reference: str
    candidate: str
    first: Program
    second: Program
    alike: bool
    options: Options
    runtime_dtype: str
    progress: Progress

    def judged(self, arrays: list[Array]) -> Report:
        """The candidate held against the reference."""
        others = tuple(_paired(self.first, self.second, arrays))
        believed, side = self._believed(arrays), self._side(arrays)
        if not self.alike:
            side.abilities = Abilities(side.abilities.checks, cells=False)
        name, dtype, provider = f"{self.candidate} in onnxruntime", self.runtime_dtype, self.options.provider
        runtime = OnnxModelSide(name, self.candidate, others, {}, dtype=dtype, provider=provider)
        return judged(believed, [side, runtime], self.options, self.progress, rounded=[believed, side])

    def judge_at_other_sizes(self, report: Report, arrays: list[Array]) -> None:
        """Where there are dynamic dimensions, judge at other sizes too, and add that to the report."""
        for sizes in other_sizes(self.first, arrays, None, [self.second]):
            label = described(sizes)
            resized = generated_inputs(self.first, self.options.seed, sizes)
            forward = Run("float64", grads=False)
            try:
                self._believed(resized).run(forward)
            except CellbridgeError as error:
                report.notes.append(f"not compared at {label}: {error}".partition("\n")[0])
                continue
            try:
                self._side(resized).run(forward)
            except CellbridgeError as error:
                reason = f"doesn't run where {self.reference} does: {error}".partition("\n")[0]
                failed = Comparison(self.candidate, "meaning", "end to end", "call", "", 0, FAIL, reason, sizes=label)
                report.sizes.append(label)
                report.cells[""].comparisons.append(failed)
                continue
            try:
                report.join_sizes(self.judged(resized), label)
            except UsageError as error:  # results of no element, say, or that aren't finite
                report.notes.append(f"not compared at {label}: {error}".partition("\n")[0])

    def _believed(self, arrays: list[Array]) -> InterpreterSide:
        return self._interpreted(self.reference, self.first, arrays)

    def _side(self, arrays: list[Array]) -> InterpreterSide:
        return self._interpreted(self.candidate, self.second, _paired(self.first, self.second, arrays))

    def _interpreted(self, name: str, program: Program, args: list[Array]) -> InterpreterSide:
        dtype, seed = self.options.dtype, self.options.seed
        return InterpreterSide(name, program, tuple(args), {}, working_dtype=dtype, seed=seed)


def _require_eval(options: Options) -> None:
    if options.train:
        raise UsageError("an ONNX model is compared as it is: --train is for torch models")


def _suited(options: Options, program: Program) -> tuple[Options, str, list[str]]:
    """The options for a file, the dtype that ONNX Runtime is judged in, and notes.

    What a file computes in half precision is judged in that, where no other dtype than float32 is asked for.
    """
    sizes: Counter[str] = Counter()
    for value in (*program.inputs, *(parameter.value for parameter in program.parameters.values())):
        if is_floating(value.dtype):
            sizes[value.dtype.name] += math.prod(size for size in value.shape if isinstance(size, int))
    ((own, _),) = sizes.most_common(1) or [("float32", 0)]
    if own not in ("float16", "bfloat16"):
        return options, "float32", []
    if options.dtype != "float32":
        return options, own, []
    return replace(options, dtype=own), own, [f"the file computes in {own}, which is what rounding was judged in"]


def _require_dtypes_of_torch(program: Program) -> None:
    """Raise `ConversionError` for a dtype that torch doesn't compute with: float8, float4, integers of 4 bits, ..."""
    values = (
        *program.inputs,
        *program.constant_data,
        *(parameter.value for parameter in program.parameters.values()),
        *(value for node in program.nodes for value in node.outputs),
    )
    for value in values:
        if value.dtype.isbuiltin != 1 and value.dtype != BFLOAT16:
            raise ConversionError(f"it doesn't compute with {value.dtype.name}")


def _tensors(arrays: tuple[Array, ...]) -> tuple[Any, ...]:
    import torch

    return tuple(
        torch.from_numpy(array.astype(np.float32)).bfloat16()  # which NumPy itself doesn't have
        if array.dtype == BFLOAT16
        else torch.from_numpy(np.array(array))
        for array in arrays
    )


# ---- inputs ----


def _arrays(program: Program, path: str | None, seed: int) -> list[Array]:
    """The inputs of a program, in order: those of an .npz file, or generated ones."""
    if path is None:
        return generated_inputs(program, seed)
    return read_arrays(path, program.inputs)


def generated_inputs(program: Program, seed: int, sizes: Mapping[str, int] | None = None) -> list[Array]:
    """Random inputs of the declared types: normal numbers, indices that fit the tables they are taken from, bits.

    Symbolic dimensions get `sizes`; if not given, small ones, each its own.
    """
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(name for value in program.inputs for name in sorted(symbols_in(value.shape))))
    if sizes is None:
        sizes = {name: SIZES[i] if i < len(SIZES) else SIZES[-1] + 2 * i for i, name in enumerate(names)}
    arrays: list[Array] = []
    shapes = [tuple(evaluate(dim, sizes) for dim in value.shape) for value in program.inputs]
    require_room((sum(math.prod(shape) for shape in shapes),), FLOAT64)
    for value, shape in zip(program.inputs, shapes, strict=True):
        require_room(shape, FLOAT64)
        if value.dtype == BOOL:
            arrays.append(rng.integers(0, 2, shape).astype(BOOL))
        elif is_floating(value.dtype):
            arrays.append(np.asarray(rng.standard_normal(shape)).astype(value.dtype))
        else:
            arrays.append(rng.integers(0, min(_tables(program, value), default=2), shape).astype(value.dtype))
    return arrays


def _tables(program: Program, indices: Value) -> Iterator[int]:
    """The lengths of what is looked up by `indices`."""
    reached = {indices}
    for node in program.nodes:
        if node.op == "take" and node.inputs[1] in reached and node.inputs[0] is not None:
            size = node.inputs[0].shape[node.attributes["axis"]]
            if isinstance(size, int):
                yield size
        elif node.op in PASSING_ON and reached.intersection(v for v in node.inputs if v is not None):
            reached.update(node.outputs)


# ---- two models ----


def _paired(first: Program, second: Program, arrays: list[Array]) -> list[Array]:
    """The same inputs in the order of another program."""
    if len(first.inputs) != len(second.inputs):
        raise UsageError(f"the models take {len(first.inputs)} and {len(second.inputs)} inputs: they can't be compared")
    by_name: Mapping[str, Array] = {value.name: array for value, array in zip(first.inputs, arrays, strict=True)}
    if {value.name for value in second.inputs} == set(by_name):
        return [by_name[value.name] for value in second.inputs]
    return arrays


def _by_position(program: Program) -> Program:
    """The program with its inputs by position, however the module was called that the file was written from."""
    return program.replace(arguments=positional(len(program.inputs)))


def _with_results(
    first: Program, second: Program, names: list[str], other_names: list[str]
) -> tuple[Program, Program, list[str]]:
    """Both programs, returning dicts of their outputs by name, or sequences where names don't pair them; and a note."""
    pairs = ((first, names), (second, other_names))
    distinct = all(len(program.outputs) == len(keys) == len(set(keys)) for program, keys in pairs)
    if distinct and (set(names) == set(other_names) or len(names) != len(other_names)):
        first, second = (
            program.replace(result=Structure("dict", (TENSOR,) * len(keys), tuple(keys))) for program, keys in pairs
        )
        return first, second, [f"outputs were paired by name: {', '.join(names)}"] if len(names) > 1 else []
    first, second = (program.replace(result=sequence(len(program.outputs))) for program, _ in pairs)
    how = f"outputs were paired by position: {', '.join(other_names)} with {', '.join(names)}"
    return first, second, [how] if len(names) > 1 else []


def _require_same_dtypes(second: Program, others: list[Array], reference: str, candidate: str) -> None:
    for value, array in zip(second.inputs, others, strict=True):
        if value.dtype != array.dtype:
            raise UsageError(
                f"input {value.name!r} is {array.dtype.name} in {reference} and {value.dtype.name} in {candidate}\n"
                "  what to do: compare files of one dtype; a model in half precision is held against the torch model "
                "that it comes from by parity run --dtype float16"
            )


def _interface(program: Program) -> set[Any]:
    """What must be the same in two programs for their Cells to be compared."""
    marks = [node for node in program.nodes if node.op == "boundary"]
    counts = {(number, kind): 0 for number in range(len(program.calls)) for kind in ("input", "output")}
    for node in marks:
        counts[node.attributes["call"], node.attributes["kind"]] += 1
    calls = {(str(program.calls[number]), kind, count) for (number, kind), count in counts.items()}
    return calls | set(program.parameters)


def _without_parameters(program: Program) -> Program:
    """The program with its parameters fixed: they have other names in the other one."""
    constants = tuple(Constant(p.value, p.data) for p in program.parameters.values())
    return program.replace(parameters={}, constants=program.constants + constants)
