"""`check` and `compare`: run the sides, compare, report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Unpack

import numpy as np
import onnx
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.cell_hooks import input_slots
from ...converter.capture.containers import open_containers
from ...converter.capture.export import from_torch
from ...converter.capture.refusals import require_ready
from ...converter.capture.wrappers import looking_through
from ...converter.exclusive import one_at_a_time
from ...converter.onnx_out.export import to_onnx
from ...converter.onnx_out.naming import input_names
from ...runtime.errors import ConversionError, ConversionWarning, UsageError
from ...runtime.ir.program import Program
from ...runtime.lowering import opsets
from ...runtime.tensor_like import TensorLike
from ..comparison.trial import judged
from ..dtypes import WORKING_DTYPES
from ..options import OptionKeywords, Options, from_keywords
from ..porting.compare import compare_port
from ..report.report import Report
from ..results.eval_mode import eval_mode_notes
from ..results.notes import warnings_as_notes
from ..sides.interpreter_side import InterpreterSide
from ..sides.known_frameworks import framework_of
from ..sides.onnxruntime_side import OnnxModelSide
from ..sides.precision import Working, default_dtype, in_dtype
from ..sides.records import Side
from ..support.progress import NoProgress, Progress
from .conversions import Conversions, require_sides, torch_side, wanted
from .hand_written import audited
from .round_trip import ways_back
from .several_inputs import Arguments, JudgedOn, judged_over_all


@one_at_a_time
@looking_through
def check(
    module: torch.nn.Module,
    args: tuple[Any, ...],
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
    """Convert a module and compare all sides: torch, the interpreter, ONNX Runtime on the exported model; a port too.

    Args:
        module: the reference.
        args: positional inputs.
        kwargs: keyword inputs.
        dynamic_shapes: as `converter.from_torch` takes it.
        cell: the port of the module written by hand, if there is one.
        cells: as for `compare`.
        weights: as for `compare`.
        save_onnx: where to write the exported model.
        opset: of the exported model, as `converter.to_onnx` takes it.
        external_data: of the exported model, as `converter.to_onnx` takes it.
        round_trip: judge the ways back too: the torch modules that the program becomes, directly (Cell by Cell) and, in
            eval mode, by way of ONNX (as a whole).
        sides: names of those to judge, as "interpreter", "onnxruntime" and "cell" for a port; all of them if none is
            given.
        more_inputs: further positional and keyword inputs, taken one after the other: the conversion of the first call
            is judged on all of them, and of each comparison the worst is reported.
        progress: told of stages.
        **options: fields of `Options`.

    Returns:
        The report.

    Raises:
        UsageError: the inputs don't fit the module, an option is wrong, or the module's outputs aren't finite.
        ConversionError: the module can't be converted, and there is no port, which would be judged alone, with a note.
    """
    chosen = from_keywords(Options, check, options)
    if opset is not None:
        opsets.require_loadable(opset)
    require_ready(module)
    shown = progress or NoProgress()
    keywords = dict(kwargs or {})
    open_containers((args, keywords))
    framework = framework_of(cell)

    def port(args: tuple[Any, ...], keywords: dict[str, Any]) -> Report:
        assert framework is not None
        return compare_port(module, cell, args, keywords, framework, chosen, shown, cells, weights)

    def over_all(judged_on: JudgedOn) -> Report:
        return judged_over_all((args, keywords), more_inputs, judged_on, chosen, shown)

    require_sides(sides, round_trip, framework)
    if framework is not None and set(sides) == {framework.name} and save_onnx is None:
        return over_all(port)
    shown.stage("capture", None)
    try:
        with warnings_as_notes() as notes:
            program = captured(module, args, keywords, dynamic_shapes, chosen)
    except ConversionError as error:
        if framework is None or save_onnx is not None:
            raise
        report = over_all(port)
        report.notes.append(f"only the port was judged: {error}".partition("\n")[0])
        return report
    exported_dtype = WORKING_DTYPES[chosen.dtype].onnxruntime
    back: dict[str, torch.nn.Module] = {}
    if round_trip:
        shown.stage("convert back", None)
        back = ways_back(program)
    conversions = Conversions(module, program, back, opset, sides, chosen, shown)

    def judged_on(args: tuple[Any, ...], keywords: dict[str, Any]) -> Report:
        report = conversions.judged(args, keywords)
        if framework is not None and wanted(framework.name, sides) and not (chosen.fail_fast and not report.ok):
            report.join(port(args, keywords))
        return report

    report = over_all(judged_on)
    report.notes += eval_mode_notes(module, chosen.train) + notes
    if not (chosen.fail_fast and not report.ok):
        conversions.judge_at_other_sizes(report, args, keywords, dynamic_shapes)
    own = Working(module, getattr(torch, chosen.dtype)).replaced
    if own in (torch.float16, torch.bfloat16) and chosen.dtype == "float32":
        name = str(own).removeprefix("torch.")
        report.notes.append(
            f"the model is in {name}; it was compared, and is written to ONNX, in float32: --dtype {name} compares it "
            "as it is, parity export --fp16 writes it in float16"
        )
    if exported_dtype != chosen.dtype:
        report.notes.append(
            f"ONNX Runtime was compared in {exported_dtype}: it has kernels in {chosen.dtype} for few operators"
        )
    if save_onnx is not None:
        shown.stage("write ONNX", None)
        model = to_onnx(program, save_onnx, opset=opset, external_data=external_data)
        report.notes.append(f"the ONNX model is of {opsets.describe(model)}")
    return report


def captured(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, options: Options
) -> Program:
    """The program of a module in the working dtype and mode of `options`.

    A backward written by hand that isn't the derivative of its forward, for all that can be told by mistake, isn't part
    of it: the derivative takes its place, to be compared with.
    """
    working = getattr(torch, options.dtype)
    default = working if working == torch.float64 else torch.get_default_dtype()
    example_args, example_kwargs = _cast((args, kwargs), options.dtype)

    def capture(**more: Any) -> Program:
        with in_dtype(module, working, through=working, train=options.train), default_dtype(default):
            return from_torch(
                module, example_args, example_kwargs, dynamic_shapes=dynamic_shapes, train=options.train, **more
            )

    program = capture()
    if not any(node.op == "own_gradient" for node in program.nodes):
        return program
    double_args, double_kwargs = _cast((example_args, example_kwargs), "float64")
    audit = audited(module, double_args, double_kwargs, working, train=options.train)
    for note in audit.notes():
        warnings.warn(note, ConversionWarning, stacklevel=2)
    return capture(differentiated=audit.wrong) if audit.wrong else program


@one_at_a_time
@looking_through
def compare(
    reference: Any,
    candidate: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    cells: Mapping[str, str] | None = None,
    weights: Mapping[Any, Any] | None = None,
    more_inputs: Iterable[Arguments] = (),
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Compare two sides Cell by Cell.

    Args:
        reference: a torch module or a program.
        candidate: a torch module, a program, an ONNX model or the path of one. Cells are paired by path, parameters
            are taken from each side as they are. Or a Cell, the port of a torch module: Cells are paired as
            `parity.pairing` says, and the module's weights are carried over for the comparison.
        args: positional inputs, the same for both: a tuple; one tensor will do, and so will a dict of keyword inputs.
        kwargs: keyword inputs.
        cells: for a Cell, what isn't paired rightly by itself: paths of modules by paths of Cells.
        weights: for a Cell, what isn't carried over rightly by itself; see `parity.weights.overrides`.
        more_inputs: further positional and keyword inputs; as for `check`.
        progress: told of stages.
        **options: fields of `Options`.

    Returns:
        The report. An ONNX model is compared at its outputs: gradients and inner Cells aren't in it.

    Raises:
        UsageError: a side is of another kind, the inputs don't fit, or it isn't clear which Parameter of the Cell is
            which of the module.
    """
    chosen = from_keywords(Options, compare, options)
    args, keywords = as_arguments(args, kwargs)
    shown = progress or NoProgress()
    framework = framework_of(candidate)
    _require_comparable(reference, framework is not None, cells is not None or weights is not None, candidate)

    def judged_on(args: tuple[Any, ...], keywords: dict[str, Any]) -> Report:
        if framework is not None:
            return compare_port(reference, candidate, args, keywords, framework, chosen, shown, cells, weights)
        reference_side = _side("reference", reference, args, keywords, chosen)
        side = _side("candidate", candidate, args, keywords, chosen, reference)
        rounded = [one for one in (reference_side, side) if one.capabilities.gradients]
        return judged(reference_side, [side], chosen, shown, rounded)

    more = (as_arguments(*arguments) for arguments in more_inputs)
    report = judged_over_all((args, keywords), more, judged_on, chosen, shown)
    if framework is None and isinstance(reference, torch.nn.Module):
        report.notes += eval_mode_notes(reference, chosen.train)
    return report


def _require_comparable(reference: Any, is_port: bool, explained: bool, candidate: Any) -> None:
    """Raise `UsageError` unless these can be compared; `explained` if Cells or weights of a port were."""
    if is_port and not isinstance(reference, torch.nn.Module):
        raise UsageError(f"a Cell is compared with a torch module, given {type(reference).__name__}")
    if explained and not is_port:
        raise UsageError(
            f"`cells` and `weights` are for a Cell as the candidate, given {type(candidate).__name__}: "
            "other Cells are paired by path"
        )
    if isinstance(reference, (str, PathLike, onnx.ModelProto)):
        raise UsageError(
            "the reference must be a torch module or a program: the truth is computed in float64, which "
            "an ONNX model can't be run in; give the ONNX model as the candidate"
        )


def as_arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments, with torch tensors in place of arrays and tensors of ours."""
    keywords = dict(kwargs or {})
    open_containers((args, keywords))
    if isinstance(args, Mapping):
        args, keywords = (), {**args, **keywords}
    elif not isinstance(args, (tuple, list)):
        args = (args,)

    def as_torch(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf
        array = np.asarray(leaf) if isinstance(leaf, TensorLike) or hasattr(leaf, "asnumpy") else leaf
        return torch.from_numpy(np.array(array)) if isinstance(array, np.ndarray) else leaf

    converted: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(as_torch, (tuple(args), keywords))
    return converted


def _side(
    name: str, network: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options, reference: Any = None
) -> Side:
    if isinstance(network, torch.nn.Module):
        return torch_side(name, network, args, kwargs, options)
    if isinstance(network, Program):
        return InterpreterSide(name, network, args, kwargs, working_dtype=options.dtype, seed=options.seed)
    if isinstance(network, (str, PathLike, onnx.ModelProto)):
        dtype = WORKING_DTYPES[options.dtype].onnxruntime
        names = _input_names(reference, args, kwargs)
        return OnnxModelSide(name, network, args, kwargs, dtype=dtype, provider=options.provider, names=names)
    kinds = "a torch module or a program" + ("" if name == "reference" else ", a Cell, or an ONNX model or file")
    raise UsageError(f"the {name} must be {kinds}, given {type(network).__name__}")


def _input_names(reference: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """What a module or a program calls its inputs, in flat order of the arguments."""
    if isinstance(reference, Program):
        return input_names(reference)
    return [slot for _, slot in sorted(input_slots(reference, args, kwargs))]


def _cast(tree: Any, dtype: str) -> Any:
    target = getattr(torch, dtype)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(target) if t.is_floating_point() else t, tree)
