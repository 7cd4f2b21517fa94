"""`check` and `compare`: run the sides, compare, report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Unpack

import torch
from torch.utils import _pytree as pytree

from ...converter.capture.cell_hooks import notify_calls
from ...converter.capture.export_errors import require_ready
from ...converter.capture.modes import is_training_in_part
from ...converter.capture.wrappers import unwrap_arguments
from ...converter.dtypes import is_real
from ...converter.exclusive import one_at_a_time
from ...converter.onnx_out.export import to_onnx
from ...runtime.errors import ConversionError, UsageError
from ...runtime.lowering import opsets
from ..dtypes import HALVES, WORKING_DTYPES
from ..inputs.arguments import as_arguments
from ..judging.coverage import add_coverage
from ..judging.judging import judge_sides
from ..options import OptionKeywords, Options, from_keywords
from ..report.report import Report
from ..results.modes import mode_notes
from ..results.notes import warnings_as_notes
from ..sides.given_dtypes import keep_dtypes_if_needed
from ..sides.imported import is_imported
from ..sides.jax_hints import candidate_hint
from ..sides.kinds import IN_FILES, ONNX, Kind
from ..sides.known_frameworks import framework_of, name_of_port
from ..sides.names import ONNXRUNTIME
from ..sides.opening import Given, in_words, kind_of, open_side, require_module
from ..sides.precision import WorkingDtypeCaster, convert
from ..sides.runtime_program import written_program
from ..sides.torch_program import capture_program
from ..support.progress import NoProgress, Progress
from .cell_pairs import compare_cell
from .conversions import Conversions, is_selected, require_sides, sides_without_onnx
from .jax_pairs import compare_network_in_jax
from .loaded_weights import hint_at_loading, require_loadable, weights_loaded
from .module_pairs import compare_pair
from .onnx_files.module_and_file import ModuleAndFile
from .plan import Plan
from .round_trip import ways_back
from .several_inputs import Arguments, JudgeInput, judge_all_inputs

_WRITES = {"float16": "--fp16", "bfloat16": "--bf16", "float64": "--no-check"}
"""The options of `parity export` that write a model in its own dtype."""


@one_at_a_time
@unwrap_arguments
def check(
    module: torch.nn.Module,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    cell: Any = None,
    cells: Mapping[str, str] | None = None,
    weights: Mapping[Any, Any] | None = None,
    save_onnx: str | PathLike[str] | None = None,
    opset: int | None = None,
    external_data: bool | Literal["auto"] = "auto",
    round_trip: bool = False,
    sides: Sequence[str] = (),
    more_inputs: Iterable[Arguments] = (),
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Convert a module and compare all sides: torch, the interpreter, ONNX Runtime, and a port if given.

    Args:
        module: the reference.
        args: positional inputs: a tuple, a tensor or array alone, or a dict of keyword inputs.
        kwargs: keyword inputs.
        dynamic_shapes: as for `converter.from_torch`.
        cell: the port of the module, if there is one: a Cell, or a network in JAX (`jax_side`).
        cells: as for `compare`.
        weights: as for `compare`.
        save_onnx: path to write the exported model to.
        opset: opset of the exported model, as for `converter.to_onnx`.
        external_data: as for `converter.to_onnx`.
        round_trip: also judge the torch modules that the program is converted back to, directly (Cell by Cell) and, in
            eval mode, by way of ONNX (as a whole).
        sides: names of the sides to judge, such as "interpreter", "onnxruntime", or "cell" for a port; all if empty.
        more_inputs: further positional and keyword inputs, read one at a time: the conversion of the first is judged on
            all of them, and the worst result of each comparison is reported.
        progress: receives the stages of the run.
        **options: fields of `Options`.

    Returns:
        The report.

    Raises:
        UsageError: the inputs don't fit the module, an option is wrong, or the module's outputs aren't finite.
        ConversionError: the module can't be converted. If there is a port, it is judged alone instead, with a note.
    """
    require_module(module, "is converted")
    chosen = _in_mode_of(module, from_keywords(Options, check, options))
    if opset is not None:
        opsets.require_loadable(opset)
    require_ready(module)
    stages = progress or NoProgress()
    args, keywords = as_arguments(args, kwargs)
    framework = framework_of(cell)
    port_name = name_of_port(cell)
    if cell is not None and port_name is None:
        raise UsageError(
            f"`cell` must be a Cell, or a network in JAX as a side, given {in_words(cell)}{candidate_hint(cell)}"
        )
    is_in_jax = kind_of(cell) is Kind.JAX
    if is_in_jax and (cells is not None or weights is not None):
        raise UsageError("`cells` and `weights` are for Cells; of a network in JAX, compare() takes names=")

    def port(args: tuple[Any, ...], keywords: dict[str, Any]) -> Report:
        plan = Plan(module, cell, args, keywords, _with_probes(chosen, options), stages, cells, weights)
        if is_in_jax:
            return compare_network_in_jax(plan, None, options)
        assert framework is not None
        return compare_cell(plan, framework)

    def over_all(judge: JudgeInput) -> Report:
        report = judge_all_inputs((args, keywords), more_inputs, judge, chosen, stages)
        if port_name is not None and port_name in report.sides:
            add_coverage(report, port_name, module, args, keywords, chosen)
        return report

    require_sides(sides, round_trip, port_name)
    try:
        dtype, given_dtype_notes = keep_dtypes_if_needed(module, args, keywords, chosen.dtype, train=chosen.train)
    except UsageError:
        sides = sides_without_onnx(sides, round_trip, port_name)
        dtype, given_dtype_notes = keep_dtypes_if_needed(
            module, args, keywords, chosen.dtype, train=chosen.train, in_onnxruntime=False
        )
        if save_onnx is not None or not sides or not given_dtype_notes:
            raise
        given_dtype_notes.append(
            f"ONNX Runtime was left out: it computes in {WORKING_DTYPES[dtype].onnxruntime}, in which the model's code "
            "doesn't run; cast to the dtype of the weights, as in x.to(self.linear.weight.dtype), to compare it too"
        )
    chosen = replace(chosen, dtype=dtype)
    if port_name is not None and set(sides) == {port_name} and save_onnx is None:
        return over_all(port)
    stages.stage("capture", sum(1 for _ in module.modules()))
    try:
        with warnings_as_notes() as notes, notify_calls(stages.advance):
            program = capture_program(module, args, keywords, dynamic_shapes, chosen.dtype, chosen.train)
    except ConversionError as error:
        if port_name is None or save_onnx is not None:
            raise
        report = over_all(port)
        report.notes.append(f"only the port was judged: {error}".partition("\n")[0])
        return report
    back: dict[str, torch.nn.Module] = {}
    if round_trip:
        stages.stage("convert back", None)
        back = ways_back(program)
    given = args if dynamic_shapes is None else None
    conversions = Conversions(module, program, given, back, opset, sides, chosen, stages)

    def judge(args: tuple[Any, ...], keywords: dict[str, Any]) -> Report:
        report = conversions.judge_inputs(args, keywords)
        if port_name is not None and is_selected(port_name, sides) and not (chosen.fail_fast and report.failed):
            report.join(port(args, keywords))
        return report

    report = over_all(judge)
    report.notes += mode_notes(module, chosen.train) + notes
    if not (chosen.fail_fast and report.failed):
        conversions.judge_at_other_sizes(report, args, keywords, dynamic_shapes)
    report.notes += given_dtype_notes + _dtype_notes(module, chosen.dtype)
    exported, rewriting_notes = written_program(program, chosen.dtype, chosen.provider)
    report.notes += rewriting_notes
    judged_dtype = WORKING_DTYPES[chosen.dtype].onnxruntime
    if judged_dtype != chosen.dtype and is_selected(ONNXRUNTIME, sides):
        report.notes.append(
            f"ONNX Runtime was compared in {judged_dtype}: it has kernels in {chosen.dtype} for few operators"
            + (f"; the file is in {chosen.dtype}, and wasn't run" if save_onnx is not None else "")
        )
    if save_onnx is not None:
        stages.stage("write ONNX", None)
        model = to_onnx(exported, save_onnx, opset=opset, external_data=external_data)
        report.notes.append(f"the ONNX model is of {opsets.describe(model)}")
    return report


def _dtype_notes(module: torch.nn.Module, working_dtype: str) -> list[str]:
    """Return a remark on a module in another dtype than float32 that was compared in float32."""
    own = WorkingDtypeCaster(module, getattr(torch, working_dtype)).replaced
    name = str(own).removeprefix("torch.")
    if working_dtype != "float32" or name not in _WRITES:
        return []
    return [
        f"the model is in {name}, but was compared, and is written to ONNX, in float32: --dtype {name} compares it in "
        f"{name}, and parity export {_WRITES[name]} writes it in {name}"
    ]


@one_at_a_time
@unwrap_arguments
def compare(
    reference: Any,
    candidate: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    cells: Mapping[str, str] | None = None,
    weights: Mapping[Any, Any] | None = None,
    names: str | PathLike[str] | None = None,
    load_weights: bool | str | PathLike[str] = False,
    write_map: str | PathLike[str] | None = None,
    more_inputs: Iterable[Arguments] = (),
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Compare two sides Cell by Cell.

    Args:
        reference: a torch module or a program.
        candidate: a torch module, a program, an ONNX model or its path, or the folder of a recording: Cells are paired
            by path, and each side keeps its parameters. Cells that two torch modules call differently are judged in the
            Cell around them. Or a Cell, the port of a torch module: Cells are paired as `parity.pairing` describes, and
            the module's weights are carried over for the comparison. Or a network in JAX, as `jax_side` makes it. Where
            nothing is said of names, and names pair few Cells of a module, a Cell or a network in JAX, its program is
            aligned with the reference by the values that it computes.
        args: positional inputs for both: a tuple, a single tensor, or a dict of keyword inputs.
        kwargs: keyword inputs.
        cells: for a port or a torch module, pairs that aren't found automatically: paths in the reference by paths in
            the candidate. Each `*` stands for the same text on both sides, as in `weights`. Cells and parameters inside
            are paired by the rest of their names.
        weights: for a port, weights that aren't carried over correctly automatically; for a torch module, parameters
            that have another name or layout than the reference's, to which they are compared. See
            `parity.weights.overrides`.
        names: for a recording, a TOML file that says what the module's Cells and parameters are called there
            (docs/recordings.md).
        load_weights: compare with the weights of a torch module in the candidate, a torch module, a Cell or a network
            in JAX, which has its own again afterwards. True finds by the structure of both which weights belong where;
            a path is that of a map file (docs/weights.md) that says it.
        write_map: path of a new map file, to write what `load_weights=True` finds.
        more_inputs: further positional and keyword inputs; as for `check`.
        progress: receives the stages of the run.
        **options: fields of `Options`.

    Returns:
        The report. An ONNX model is compared with a module Cell by Cell, in the interpreter with gradients, and at
        its outputs in ONNX Runtime; at other sizes of its dynamic axes too. Where everything agrees, both sides are
        compared on inputs derived from the given ones, too, unless `probe=False`.
        Cells that it computes together are judged in the Cell around them. If it can't be read as a program, and with
        a program as the reference, it is compared at its outputs alone; a note has the reason.

    Raises:
        UsageError: a side is of the wrong type, the inputs don't fit, or the parameters can't be matched unambiguously.
    """
    chosen = _in_mode_of(reference, _with_probes(from_keywords(Options, compare, options), options), candidate)
    args, keywords = as_arguments(args, kwargs)
    stages = progress or NoProgress()
    dtype_notes: list[str] = []
    reference_kind, candidate_kind = kind_of(reference), kind_of(candidate)
    for network, kind in ((reference, reference_kind), (candidate, candidate_kind)):
        if kind is Kind.MODULE:
            require_ready(network)
    if reference_kind is Kind.MODULE:
        dtype, dtype_notes = keep_dtypes_if_needed(
            reference, args, keywords, chosen.dtype, train=chosen.train, in_onnxruntime=candidate_kind in ONNX
        )
        chosen = replace(chosen, dtype=dtype)
        if candidate_kind is Kind.MODULE and candidate is not reference:
            keep_dtypes_if_needed(candidate, args, keywords, chosen.dtype, train=chosen.train, in_onnxruntime=False)
    framework = framework_of(candidate)
    of_modules = reference_kind is Kind.MODULE and candidate_kind is Kind.MODULE
    explained = (weights is not None or cells is not None) and not of_modules
    _require_comparable(reference, framework is not None, explained, candidate)
    require_loadable(reference, candidate, load_weights, write_map)

    def plan(args: tuple[Any, ...], keywords: dict[str, Any]) -> Plan:
        return Plan(reference, candidate, args, keywords, chosen, stages, cells, weights)

    if candidate_kind in (Kind.JAX, Kind.RECORDING) and reference_kind is not Kind.MODULE:
        raise UsageError(f"{candidate_kind.value} is compared with a torch module, given {in_words(reference)}")
    if candidate_kind is Kind.RECORDING:
        from .recordings.against import compare_with_recording

        return compare_with_recording(reference, candidate, args, keywords, names=names, progress=progress, **options)
    is_in_jax = candidate_kind is Kind.JAX
    if names is not None and not is_in_jax:
        given = f"{in_words(candidate)}{candidate_hint(candidate)}"
        raise UsageError(f"names= is for the folder of a recording, or a network in JAX, given {given}")
    of_file = candidate_kind in ONNX or (candidate_kind is Kind.PROGRAM and is_imported(candidate))
    file = None
    if of_file and reference_kind is Kind.MODULE:
        file = ModuleAndFile(reference, candidate, chosen, stages)
        taken = file.taken_dtype
        if chosen.dtype == "float32" and (taken == "float64" or (taken in HALVES and not _has_numbers(reference))):
            chosen = replace(chosen, dtype=taken)
            dtype_notes.append(f"the file takes numbers in {taken}, in which both were compared")
            (args, keywords), *more_inputs = (
                _in_dtype(*as_arguments(*arguments), dtype=_TORCH_DTYPES[taken])
                for arguments in [(args, keywords), *more_inputs]
            )
        if "probe" not in options and chosen.dtype in HALVES:
            chosen = replace(chosen, probe=False)  # the range of half precision is that of the given inputs
        file.options = chosen

    def judge(args: tuple[Any, ...], keywords: dict[str, Any]) -> Report:
        if framework is not None:
            return compare_cell(plan(args, keywords), framework, load_weights is not False)
        if is_in_jax:
            return compare_network_in_jax(plan(args, keywords), names, options)
        if file is not None:
            return file.judge_inputs(args, keywords)
        if of_modules:
            return compare_pair(plan(args, keywords))
        reference_side = open_side(Given("reference", reference, args, keywords, chosen))
        side = open_side(Given("candidate", candidate, args, keywords, chosen, reference))
        rounded = [s for s in (reference_side, side) if s.capabilities.gradients]
        return judge_sides(reference_side, [side], chosen, stages, rounded)

    more = (as_arguments(*arguments) for arguments in more_inputs)
    with weights_loaded(reference, candidate, args, keywords, load_weights, write_map, stages) as loaded:
        candidate = loaded.network
        report = judge_all_inputs((args, keywords), more, judge, chosen, stages)
    is_port = framework is not None or is_in_jax
    if of_modules or is_port:
        add_coverage(report, report.sides[0], reference, args, keywords, chosen)
    if (of_modules or framework is not None) and not chosen.model:
        report.name_networks(reference, candidate)
    report.notes += loaded.notes
    if of_modules and load_weights is False and report.failed:
        report.notes += hint_at_loading(reference, candidate)
    if file is not None and not (chosen.fail_fast and report.failed):
        file.judge_at_other_sizes(report, args, keywords)
    if reference_kind is Kind.MODULE and not is_port:
        report.notes += mode_notes(reference, chosen.train) + dtype_notes
    return report


def _has_numbers(module: torch.nn.Module) -> bool:
    """Whether a module has floating-point parameters or buffers, which say in which dtype it computes."""
    return any(is_real(tensor) for tensor in (*module.parameters(), *module.buffers()))


def _in_dtype(args: Any, keywords: Any, *, dtype: torch.dtype) -> tuple[Any, Any]:
    """Return arguments with all floating-point tensors in a dtype."""

    def converted(tensor: torch.Tensor) -> torch.Tensor:
        return convert(tensor, dtype) if is_real(tensor) else tensor

    result: tuple[Any, Any] = pytree.tree_map_only(torch.Tensor, converted, (args, keywords))
    return result


def _with_probes(options: Options, given: OptionKeywords) -> Options:
    """Return the options for two networks, which may differ where the given inputs don't show it: probes are on."""
    return options if "probe" in given else replace(options, probe=True)


def _in_mode_of(reference: Any, options: Options, candidate: Any = None) -> Options:
    """Return the options with the mode of the reference, unless they say which.

    One that is in train mode in part runs in train mode, but in eval mode beside an ONNX model, which is for inference.
    """
    if options.train is None and kind_of(reference) is Kind.MODULE and is_training_in_part(reference):
        return replace(options, train=kind_of(candidate) not in IN_FILES)
    return options


_TORCH_DTYPES = {"float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}


def _require_comparable(reference: Any, is_port: bool, explained: bool, candidate: Any) -> None:
    """Raise `UsageError` unless these can be compared; `explained`: whether something for a port alone is given."""
    if is_port and kind_of(reference) is not Kind.MODULE:
        raise UsageError(f"a Cell is compared with a torch module, given {in_words(reference)}")
    if explained and not is_port:
        raise UsageError(
            f"`weights` and `cells` are for a Cell or a torch module as the candidate, given "
            f"{in_words(candidate)}: other Cells are paired by path{candidate_hint(candidate)}"
        )
    if kind_of(reference) in IN_FILES:
        raise UsageError(
            "the reference must be a torch module or a program: the truth is computed in float64, which "
            "an ONNX model can't be run in; give the ONNX model as the candidate"
        )
