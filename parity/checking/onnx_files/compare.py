"""Two ONNX files compared: both in the interpreter, the candidate also in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Unpack

from onnx import ModelProto

from ....converter.exclusive import one_at_a_time
from ....converter.onnx_in.importing import read_model
from ....converter.onnx_in.inputs import Shapes, input_names
from ....runtime.errors import CellbridgeError, UsageError
from ....runtime.ir.dims import SymbolicDim, symbols_in
from ....runtime.ir.program import Program
from ....runtime.ir.types import Constant
from ....runtime.tree import sequence
from ...dtypes import HALVES
from ...inputs.affordable import require_affordable
from ...inputs.onnx_draws import share_draws
from ...inputs.onnx_inputs import DeclaredInputs, default_sizes, generate, read_declared_inputs
from ...inputs.onnx_optionals import judge_without_optionals
from ...inputs.onnx_reading import (
    OnnxFile,
    adapt_options,
    dtype_of,
    read,
    read_with_inputs,
    rename_shapes,
    require_as_many,
    require_eval,
    with_named_outputs,
)
from ...options import OptionKeywords, Options, from_keywords
from ...report.report import Report
from ...sides.interpreter_side import InterpreterSide
from ...sides.onnx_models import output_names
from ...sides.quantized_steps import is_quantized
from ...sides.records import Array
from ...support.progress import NoProgress, Progress
from ..quantized.files import SAMPLES, QuantizedFile
from .declared_sizes import DeclaredSizes, add_failure, compare_outputs, other_sizes_to_try, reason_of, shapes_of
from .rejected import explain_rejected, reason_to_reject
from .same_places import pair_places
from .two_programs import TwoPrograms, reorder_inputs
from .undeclared_sizes import compare_beyond, holds_its_weights
from .whole import compare_whole

HOW = (
    "one file is quantized: its float network (with the weights before rounding, without quantizers) was compared "
    "Cell by Cell, and its weights and quantizers in steps"
)


@one_at_a_time
def compare_onnx(
    reference: str,
    candidate: str,
    *,
    inputs: str | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Compare an ONNX file with another one that should compute the same.

    Args:
        reference: the reference file.
        candidate: the other file; inputs and outputs are paired by name, else by position.
        inputs: as for `check_onnx`, by the names of the reference.
        shapes: as for `check_onnx`, by the names of the reference.
        progress: receives the stages of the run.
        **options: fields of `Options`.

    Returns:
        The report: both files in the interpreter, in float64 and in the working dtype, with gradients; and ONNX Runtime
        on the candidate. Cells are compared if both files have the same ones, else the models as a whole, and if these
        differ, the Cells of the reference, found in the candidate by values; at other sizes of the dynamic dimensions
        too, if the inputs are generated. Numbers such as 1 / sqrt(2), and weights that
        one file has multiplied by the scale of a batch norm, may be rounded differently in the two files. If a file
        can't be read as a program, the results of ONNX Runtime on both files are compared. If one file is quantized,
        the float file is the reference, whichever is given first; see docs/quantized.md. Random draws are the same
        numbers in both files.

    Raises:
        UsageError: a file or the inputs can't be read or don't fit.
        ConversionError: a model is malformed.
    """
    chosen, shown = from_keywords(Options, compare_onnx, options), progress or NoProgress()
    if "probe" not in options and inputs is None:
        chosen = replace(chosen, probe=True)
    require_eval(chosen)
    with explain_rejected(reference, candidate):
        shown.stage("read", None)
        pair = _pair_files(reference, candidate)
        declared = read_declared_inputs(pair.reference, shapes, inputs)
        require_as_many(pair.names, pair.others)
        if inputs is not None or not declared.ranked:
            report = _compare_pair(pair, declared, inputs, shapes or {}, chosen, shown)
        else:
            report = _compare_at_common_sizes(pair, declared, shapes or {}, chosen, shown)
        if inputs is None and not (chosen.fail_fast and report.failed):
            judge_without_optionals(
                report, pair.reference, pair.candidate, declared, shapes or {},
                lambda other_shapes: _compare_pair(
                    pair, read_declared_inputs(pair.reference, other_shapes), None, other_shapes, chosen, shown
                ),
            )  # fmt: skip
        if reason := reason_to_reject(pair.reference):
            report.conditions.remarks.insert(0, "though ONNX Runtime itself rejects the reference")
            report.notes.insert(0, f"ONNX Runtime itself rejects {pair.reference}: {reason}")
    report.notes += pair.notes
    return report


@dataclass(frozen=True)
class _FilePair:
    """Two files that are compared.

    Attributes:
        reference: the reference file; the float file if one of them is quantized.
        candidate: the other file.
        names: names of the reference's inputs.
        others: names of the candidate's inputs.
        quantized: the quantized candidate with its float network, if it is quantized.
        notes: notes for the report.
        derived: models that are read in the place of the files: without random draws, or without quantizers.
    """

    reference: str
    candidate: str
    names: list[str]
    others: list[str]
    quantized: QuantizedFile | None
    notes: list[str]
    derived: tuple[ModelProto | None, ModelProto | None] = (None, None)


def _compare_at_common_sizes(
    pair: _FilePair, declared: DeclaredInputs, given_shapes: Shapes, chosen: Options, shown: Progress
) -> Report:
    """Compare two files at sizes that both take; what the reference alone takes fails."""
    candidate_inputs = read_declared_inputs(pair.candidate, rename_shapes(pair.others, pair.names, given_shapes))
    if len(candidate_inputs.values) != len(declared.values) or not candidate_inputs.ranked:
        return _compare_pair(pair, declared, None, given_shapes, chosen, shown)
    by_name = {value.name: value for value in candidate_inputs.values}
    same_names = by_name.keys() == {value.name for value in declared.values}
    paired = [by_name[value.name] for value in declared.values] if same_names else candidate_inputs.values
    sizes = DeclaredSizes.between(declared.values, paired, given_shapes)
    if sizes.fixed:
        fixed = shapes_of(declared, sizes.fixed)
        declared, given_shapes = read_declared_inputs(pair.reference, fixed), fixed
    try:
        report = _compare_pair(pair, declared, None, given_shapes, chosen, shown)
    except CellbridgeError as error:
        if sizes.fixed or not any(symbols_in(value.shape) for value in declared.values):
            raise
        report = _compare_where_candidate_runs(pair, declared, chosen, shown, error)
    sizes.add_to(report, pair.candidate)
    models = read_model(pair.reference), read_model(pair.candidate)
    if (
        sizes.alone
        and report.ok
        and chosen.probe
        and pair.derived == (None, None)
        and all(map(holds_its_weights, models))
    ):
        compare_beyond(report, models, declared.values, [value.name for value in paired], chosen.seed)
    inputs_are_alike = not sizes.failures and not sizes.notes

    def infer() -> Program | None:
        return read(pair.candidate, rename_shapes(pair.others, pair.names, given_shapes), pair.derived[1]).program

    compare_outputs(report, pair.candidate, models, infer, inputs_are_alike=inputs_are_alike)
    return report


def _compare_where_candidate_runs(
    pair: _FilePair, declared: DeclaredInputs, chosen: Options, shown: Progress, error: CellbridgeError
) -> Report:
    """Compare at sizes that the candidate needs though it declares any; raise `error` if it runs at none."""
    usual = default_sizes(declared.values)
    shapes = shapes_of(declared, usual)
    read(pair.reference, shapes, pair.derived[0])  # the error is the reference's, unless it runs there
    for sizes in other_sizes_to_try(declared, read_model(pair.candidate)):
        shapes = shapes_of(declared, sizes)
        try:
            report = _compare_pair(
                pair, read_declared_inputs(pair.reference, shapes), None, shapes, chosen, shown
            )  # fmt: skip
        except CellbridgeError:
            continue
        add_failure(report, pair.candidate, reason_of(error, usual))
        return report
    raise error


def _compare_pair(
    pair: _FilePair,
    declared: DeclaredInputs,
    inputs: str | None,
    given_shapes: Shapes,
    chosen: Options,
    shown: Progress,
) -> Report:
    """Compare two files on inputs of one structure."""
    reference, candidate, names, others, quantized = (
        pair.reference, pair.candidate, pair.names, pair.others, pair.quantized,
    )  # fmt: skip
    model, other = pair.derived
    fixed_reference, arrays = read_with_inputs(reference, declared, inputs, chosen.seed, model)
    fixed_shapes = rename_shapes(others, names, declared.shapes(arrays))
    structure = {} if declared.ranked else fixed_shapes
    candidate_inputs = read_declared_inputs(
        candidate, structure or rename_shapes(others, names, declared.structure(arrays))
    )
    open_sizes = inputs is None and declared.ranked and any(symbols_in(value.shape) for value in declared.values)
    if open_sizes:
        first = read(reference, given_shapes, model)
        second = read(candidate, rename_shapes(others, names, given_shapes), other)
        if first.program is not None and second.program is not None:
            try:
                return _compare_programs(
                    first, second, declared, candidate_inputs, arrays, None, chosen, shown, quantized
                )
            except CellbridgeError as error:  # a file that can be read only with fixed sizes
                not_open = f"{error}".partition("\n")[0]
        else:
            not_open = str(first.error or second.error).partition("\n")[0]
    first, second = fixed_reference, read(candidate, fixed_shapes, other)
    if first.program is None or second.program is None:
        return compare_whole(first, second, declared, candidate_inputs, arrays, chosen, shown, generated=inputs is None)
    report = _compare_programs(
        first, second, declared, candidate_inputs, arrays, inputs, chosen, shown, quantized, fixed=True
    )
    if open_sizes:
        report.notes.append(f"not compared at other sizes, with which the files can't be read: {not_open}")
    return report


def _compare_programs(
    first: OnnxFile,
    second: OnnxFile,
    declared: DeclaredInputs,
    candidate_inputs: DeclaredInputs,
    arrays: list[Array],
    inputs: str | None,
    options: Options,
    shown: Progress,
    quantized: QuantizedFile | None = None,
    fixed: bool = False,
) -> Report:
    """Compare two files that can be read as programs."""
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


def _pair_files(reference: str, candidate: str) -> _FilePair:
    """Read both files, and decide which is the reference."""
    models = read_model(reference), read_model(candidate)
    which = [is_quantized(model) for model in models]
    quantized, notes = None, list[str]()
    if which == [True, False]:
        notes.append(f"{candidate} is the reference: a quantized file is judged by the float file")
        reference, candidate, models = candidate, reference, models[::-1]
    if any(which) and not all(which):
        quantized = QuantizedFile(candidate, models[1], reference, models[0])
        notes.insert(0, HOW)
    names, others = (input_names(model.graph) for model in models)
    if quantized is not None:
        return _FilePair(reference, candidate, names, others, quantized, notes, (None, quantized.form.model))
    draws = share_draws(reference, candidate)
    notes += [note for drawn in draws for note in drawn.notes]
    return _FilePair(reference, candidate, names, others, None, notes, (draws[0].model, draws[1].model))


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
