"""`compare_programs`: two ONNX files that can be read as programs, brought into one form and judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ....runtime.errors import UsageError
from ....runtime.ir.dims import SymbolicDim
from ....runtime.ir.program import Program
from ....runtime.ir.types import Constant
from ....runtime.tree import sequence
from ...dtypes import HALVES
from ...inputs.affordable import require_affordable
from ...inputs.onnx_inputs import DeclaredInputs, generate
from ...inputs.onnx_reading import OnnxFile, adapt_options, dtype_of, read, with_named_outputs
from ...options import Options
from ...report.report import Report
from ...sides.interpreter_side import InterpreterSide
from ...sides.onnx_models import output_names
from ...sides.records import Array
from ...support.progress import Progress
from ..quantized.files import SAMPLES, QuantizedFile
from .placing import pair_places
from .two_programs import TwoPrograms, reorder_inputs


def compare_programs(
    first: OnnxFile,
    second: OnnxFile,
    candidate_inputs: DeclaredInputs,
    arrays: list[Array],
    inputs: str | None,
    options: Options,
    shown: Progress,
    quantized: QuantizedFile | None = None,
    fixed: bool = False,
) -> Report:
    """Compare two files that can be read as programs.

    Args:
        first: the reference.
        second: the candidate.
        candidate_inputs: the candidate's inputs as it declares them.
        arrays: inputs of the reference, which give the sizes of those that are generated.
        inputs: the file of given inputs; None if they are generated.
        options: options of the run.
        shown: receives the stages of the run.
        quantized: the quantized candidate with its float network; None if it isn't quantized.
        fixed: whether the files were read with fixed sizes, so that no others are tried.

    Raises:
        UsageError: the files take inputs of different dtypes, or too much memory.
    """
    assert first.program is not None
    assert second.program is not None
    if inputs is None:
        sizes = dict(_sizes_of(first.program, arrays))
        arrays = generate(first.program.inputs, options.seed, sizes, first.program)
    if quantized is not None or _narrower(first.program, second.program):
        options = replace(options, probe=False)  # quantizers and half precision have a range, that of the given inputs
    samples, about = [arrays], list[str]()
    if quantized is not None and inputs is None:
        samples, about = _samples(first.program, second.program, arrays, quantized, options.seed)
        arrays = samples[0]
    programs = first.program, second.program
    narrow = _narrower(*programs)
    if narrow:
        programs, arrays = _in_half(*programs, arrays, narrow)
        notes = [f"one file computes in float32, the other in {narrow}, in which rounding was judged"]
        options, runtime_dtype = replace(options, dtype=narrow), narrow
    else:
        options, runtime_dtype, notes = adapt_options(options, programs[0])
    names = output_names(first.path), output_names(second.path)
    programs, how = _with_results(*programs, *names)
    notes += [*how, *about]
    others = reorder_inputs(*programs, arrays)
    _require_same_dtypes(programs[1], others, first.path, second.path)
    require_affordable(programs[0], arrays, grads=options.grads)
    require_affordable(programs[1], others, grads=options.grads)
    alike = _interface(programs[0]) == _interface(programs[1])
    if not alike:
        programs = _without_parameters(programs[0]), _without_parameters(programs[1])
    elif len(programs[0].calls) > 1:
        pair = (
            InterpreterSide(path, program, tuple(x), {}, working_dtype=options.dtype, seed=options.seed)
            for path, program, x in zip((first.path, second.path), programs, (arrays, others), strict=True)
        )
        own_program, other_program, moved = pair_places(*pair)
        programs = own_program, other_program
        notes += moved
    with_runtime = quantized is None
    files = TwoPrograms(
        first.path,
        second.path,
        second.source,
        candidate_inputs,
        *programs,
        alike,
        bool(narrow),
        options,
        runtime_dtype,
        shown,
        with_runtime,
    )
    report = whole = files.judge_inputs(arrays)
    if not alike and not narrow and with_runtime and whole.failed:
        from .placing import place_in_cells  # torch takes seconds to import, and is needed for this alone

        report = place_in_cells(whole, first.program, second, arrays, options, shown)
    elif not alike:
        notes.append("the models were compared as a whole: their Cells or parameters are not the same")
    if report is whole and inputs is None and not fixed and not (options.fail_fast and report.failed):
        files.judge_at_other_sizes(report, arrays)
    if quantized is not None:
        second_inputs = list(second.program.inputs)
        samples_by_name = [
            {
                value.name: array
                for value, array in zip(second_inputs, reorder_inputs(first.program, second.program, x), strict=True)
            }
            for x in samples
        ]
        quantized.judge(report, samples_by_name, inputs is not None, options)
        quantized_file = read(second.path, {name: array.shape for name, array in samples_by_name[0].items()})
        quantized.judge_runtime(report, quantized_file, others, options, shown)
    report.notes += [*notes, *dict.fromkeys((*first.notes, *second.notes))]
    return report


def _samples(
    first: Program, second: Program, arrays: list[Array], quantized: QuantizedFile, seed: int
) -> tuple[list[list[Array]], list[str]]:
    """Return several generated inputs in the range of the quantizers, and notes."""
    samples, notes = [], list[str]()
    for number in range(SAMPLES):
        if number:
            arrays = generate(first.inputs, seed + number, dict(_sizes_of(first, arrays)), first)
        fitted_inputs, notes = quantized.fit_to_quantizers(
            second.inputs, reorder_inputs(first, second, arrays), seed + number
        )
        samples.append(reorder_inputs(second, first, fitted_inputs))
    return samples, notes


def _with_results(
    first: Program, second: Program, names: list[str], other_names: list[str]
) -> tuple[tuple[Program, Program], list[str]]:
    """Return both programs with results as dicts by name, or sequences if names don't pair them; and a note."""
    pairs = ((first, names), (second, other_names))
    distinct = all(len(program.outputs) == len(keys) == len(set(keys)) for program, keys in pairs)
    if distinct and (set(names) == set(other_names) or len(names) != len(other_names)):
        first, second = (with_named_outputs(program, keys) for program, keys in pairs)
        return (first, second), [f"outputs were paired by name: {', '.join(names)}"] if len(names) > 1 else []
    first, second = (program.replace(result=sequence(len(program.outputs))) for program, _ in pairs)
    how = f"outputs were paired by position: {', '.join(other_names)} with {', '.join(names)}"
    return (first, second), [how] if len(names) > 1 else []


def _narrower(first: Program, second: Program) -> str:
    """Return the half precision that only one of two programs computes in; empty if there is none."""
    names = {dtype_of(first), dtype_of(second)}
    halves = names & HALVES
    return halves.pop() if len(names) == 2 and len(halves) == 1 else ""


def _in_half(
    first: Program, second: Program, arrays: list[Array], narrow: str
) -> tuple[tuple[Program, Program], list[Array]]:
    """Return both programs, and the inputs, in half precision."""
    halves = first.astype(narrow), second.astype(narrow)
    return halves, [x.astype(v.dtype) for v, x in zip(halves[0].inputs, arrays, strict=True)]


def _sizes_of(program: Program, arrays: list[Array]) -> Iterator[tuple[str, int]]:
    for value, array in zip(program.inputs, arrays, strict=True):
        for dim, size in zip(value.shape, array.shape, strict=True):
            if isinstance(dim, SymbolicDim) and (solution := dim.solve(size)):
                yield solution


def _require_same_dtypes(second: Program, others: list[Array], reference: str, candidate: str) -> None:
    for value, array in zip(second.inputs, others, strict=True):
        if value.dtype != array.dtype:
            raise UsageError(
                f"input {value.name!r} is {array.dtype.name} in {reference} and {value.dtype.name} in {candidate}\n"
                "  what to do: compare files of one dtype; a model in half precision is compared with the torch model "
                "that it was exported from, with parity run --dtype float16"
            )


def _interface(program: Program) -> set[Any]:
    """Return a key that must be equal in two programs for their Cells to be compared."""
    marks = [node for node in program.nodes if node.op == "boundary"]
    counts = {(number, kind): 0 for number in range(len(program.calls)) for kind in ("input", "output")}
    for node in marks:
        counts[node.attributes["call"], node.attributes["kind"]] += 1
    calls = {(str(program.calls[number]), kind, count) for (number, kind), count in counts.items()}
    return calls | set(program.parameters)


def _without_parameters(program: Program) -> Program:
    """Return the program with its parameters as constants, because the other program has other names."""
    constants = tuple(Constant(p.value, p.data) for p in program.parameters.values())
    return program.replace(parameters={}, constants=program.constants + constants)
