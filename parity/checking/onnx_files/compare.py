"""Two ONNX files compared: both in the interpreter, the candidate also in ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

from onnx import ModelProto

from ....converter.exclusive import one_at_a_time
from ....converter.onnx_in.importing import read_model
from ....converter.onnx_in.inputs import Shapes, input_names
from ....runtime.errors import CellbridgeError
from ....runtime.ir.dims import symbols_in
from ....runtime.ir.program import Program
from ...inputs.onnx_draws import share_draws
from ...inputs.onnx_inputs import DeclaredInputs, default_sizes, read_declared_inputs
from ...inputs.onnx_reading import (
    read,
    read_with_inputs,
    rename_shapes,
    require_as_many,
    require_eval,
)
from ...options import OptionKeywords, Options, from_keywords
from ...report.report import Report
from ...sides.quantized_steps import is_quantized
from ...support.progress import NoProgress, Progress
from ..other_sizes import add_refusal
from ..quantized.files import QuantizedFile
from .compare_programs import compare_programs
from .declared_sizes import DeclaredSizes, compare_outputs, other_sizes_to_try, reason_of, shapes_of
from .optionals import judge_without_optionals
from .rejected import explain_rejected, reason_to_reject
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
        add_refusal(report, pair.candidate, reason_of(error, usual))
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
                return compare_programs(first, second, candidate_inputs, arrays, None, chosen, shown, quantized)
            except CellbridgeError as error:  # a file that can be read only with fixed sizes
                not_open = f"{error}".partition("\n")[0]
        else:
            not_open = str(first.error or second.error).partition("\n")[0]
    first, second = fixed_reference, read(candidate, fixed_shapes, other)
    if first.program is None or second.program is None:
        return compare_whole(first, second, declared, candidate_inputs, arrays, chosen, shown, generated=inputs is None)
    report = compare_programs(first, second, candidate_inputs, arrays, inputs, chosen, shown, quantized, fixed=True)
    if open_sizes:
        report.notes.append(f"not compared at other sizes, with which the files can't be read: {not_open}")
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
