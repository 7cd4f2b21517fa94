"""`check` and `compare`: run the sides, compare, report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
import onnx
import torch
from torch.utils import _pytree as pytree

from ..converter.capture.cell_hooks import input_slots
from ..converter.capture.containers import open_containers
from ..converter.capture.export import from_torch
from ..converter.capture.refusals import require_ready
from ..converter.capture.wrappers import looking_through
from ..converter.exclusive import one_at_a_time
from ..converter.onnx_out.export import to_onnx
from ..converter.onnx_out.naming import input_names
from ..runtime.errors import CellbridgeError, ConversionError, ConversionWarning, UsageError
from ..runtime.ir.program import Program
from ..runtime.tracing import Operand
from .eval_mode import eval_mode_notes
from .hand_written import audited
from .notes import warnings_as_notes
from .options import Options, from_keywords
from .porting import compare_port, framework_of
from .progress import NoProgress, Progress
from .results import Report
from .round_trip import FROM_IR, FROM_ONNX, ways_back
from .sides.frameworks import Framework
from .sides.interpreter_side import InterpreterSide
from .sides.onnxruntime_side import ExportedSide, OnnxModelSide
from .sides.precision import Working, default_dtype, in_dtype
from .sides.records import Abilities, Side
from .sides.torch_side import TorchSide
from .sizes import described, other_sizes, resized
from .trial import judged

INTERPRETER, ONNXRUNTIME = "interpreter", "onnxruntime"
# the dtype that ONNX Runtime is judged in, for each working dtype
ONNXRUNTIME_DTYPES = {"float32": "float32", "float64": "float32", "float16": "float16", "bfloat16": "float32"}


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
    more_inputs: Iterable[tuple[tuple[Any, ...], dict[str, Any]]] = (),
    progress: Progress | None = None,
    **options: Any,
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
    require_ready(module)
    shown = progress or NoProgress()
    keywords = dict(kwargs or {})
    open_containers((args, keywords))
    framework = framework_of(cell)

    def port(args: tuple[Any, ...], keywords: dict[str, Any]) -> Report:
        assert framework is not None
        return compare_port(module, cell, args, keywords, framework, chosen, shown, cells, weights)

    def with_more(report: Report, judged_on: Callable[[tuple[Any, ...], dict[str, Any]], Report]) -> Report:
        for number, arguments in enumerate(more_inputs, 2):
            if chosen.fail_fast and not report.ok:
                break
            shown.stage(f"input {number}", None)
            open_containers(arguments)
            try:
                report.join_input(judged_on(*arguments))
            except CellbridgeError as error:
                raise UsageError(f"input number {number} of the model can't be judged: {error}") from error
        return report

    _require_sides(sides, round_trip, framework)
    if framework is not None and set(sides) == {framework.name} and save_onnx is None:
        return with_more(port(args, keywords), port)
    shown.stage("capture", None)
    try:
        with warnings_as_notes() as notes:
            program = captured(module, args, keywords, dynamic_shapes, chosen)
    except ConversionError as error:
        if framework is None or save_onnx is not None:
            raise
        report = with_more(port(args, keywords), port)
        report.notes.append(f"only the port was judged: {error}".partition("\n")[0])
        return report
    exported_dtype = ONNXRUNTIME_DTYPES[chosen.dtype]
    back: dict[str, torch.nn.Module] = {}
    if round_trip:
        shown.stage("convert back", None)
        back = ways_back(program)
    conversions = _Conversions(module, program, back, opset, sides, chosen, shown)

    def judged_on(args: tuple[Any, ...], keywords: dict[str, Any]) -> Report:
        report = conversions.judged(args, keywords)
        if framework is not None and _wanted(framework.name, sides) and not (chosen.fail_fast and not report.ok):
            report.join(port(args, keywords))
        return report

    report = with_more(judged_on(args, keywords), judged_on)
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
        to_onnx(program, save_onnx, opset=opset, external_data=external_data)
    return report


@dataclass(frozen=True)
class _Conversions:
    """What a module became, ready to be judged on any inputs.

    Attributes:
        module: the reference.
        program: what it was captured as; judged in the interpreter and in ONNX Runtime.
        back: torch modules made of the program, by the names of the sides that they are.
        opset: of the ONNX model.
        sides: names of those to judge; all of them if none is given.
    """

    module: torch.nn.Module
    program: Program
    back: Mapping[str, torch.nn.Module]
    opset: int | None
    sides: Sequence[str]
    options: Options
    progress: Progress

    def judged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Report:
        """All of them, held against the module."""
        options, dtype = self.options, self.options.dtype
        real_args, real_kwargs = _as_reals((args, kwargs))
        made = [
            _torch_side(name, network, real_args, real_kwargs, options, from_onnx=name == FROM_ONNX)
            for name, network in self.back.items()
        ]
        sides: list[Side] = [
            InterpreterSide(INTERPRETER, self.program, args, kwargs, working_dtype=dtype, seed=options.seed),
            ExportedSide(
                ONNXRUNTIME,
                self.program,
                args,
                kwargs,
                dtype=ONNXRUNTIME_DTYPES[dtype],
                provider=options.provider,
                opset=self.opset,
            ),
            *made,
        ]
        reference = _torch_side("torch", self.module, args, kwargs, options)
        return judged(reference, [s for s in sides if _wanted(s.name, self.sides)], options, self.progress)

    def judge_at_other_sizes(
        self, report: Report, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
    ) -> None:
        """Where there are dynamic dimensions, judge at other sizes too, and add that to the report."""
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        for sizes in other_sizes(self.program, tensors, dynamic_shapes):
            label = described(sizes)
            try:
                report.join_sizes(self.judged(*resized(self.program, args, kwargs, sizes)), label)
            except UsageError as error:
                report.notes.append(f"not compared at {label}: {error}".partition("\n")[0])


def _wanted(side: str, sides: Sequence[str]) -> bool:
    return not sides or side in sides


def _require_sides(sides: Sequence[str], round_trip: bool, framework: Framework | None) -> None:
    """Raise `UsageError` if one of these sides isn't there to be judged."""
    there = [INTERPRETER, ONNXRUNTIME]
    there += [FROM_IR, FROM_ONNX] if round_trip else []
    there += [framework.name] if framework is not None else []
    if unknown := [side for side in sides if side not in there]:
        raise UsageError(f"there is no side {unknown[0]!r} to judge: there are {', '.join(there)}")


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
    progress: Progress | None = None,
    **options: Any,
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
    framework = framework_of(candidate)
    if framework is not None:
        if not isinstance(reference, torch.nn.Module):
            raise UsageError(f"a Cell is compared with a torch module, given {type(reference).__name__}")
        shown = progress or NoProgress()
        return compare_port(reference, candidate, args, keywords, framework, chosen, shown, cells, weights)
    if cells is not None or weights is not None:
        raise UsageError(
            f"`cells` and `weights` are for a Cell as the candidate, given {type(candidate).__name__}: "
            "other Cells are paired by path"
        )
    if isinstance(reference, (str, PathLike, onnx.ModelProto)):
        raise UsageError(
            "the reference must be a torch module or a program: the truth is computed in float64, which "
            "an ONNX model can't be run in; give the ONNX model as the candidate"
        )
    believed = _side("reference", reference, args, keywords, chosen)
    side = _side("candidate", candidate, args, keywords, chosen, reference)
    rounded = [one for one in (believed, side) if one.abilities.gradients]
    report = judged(believed, [side], chosen, progress or NoProgress(), rounded)
    if isinstance(reference, torch.nn.Module):
        report.notes += eval_mode_notes(reference, chosen.train)
    return report


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
        array = np.asarray(leaf) if isinstance(leaf, Operand) or hasattr(leaf, "asnumpy") else leaf
        return torch.from_numpy(np.array(array)) if isinstance(array, np.ndarray) else leaf

    converted: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(as_torch, (tuple(args), keywords))
    return converted


def _side(
    name: str, network: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options, reference: Any = None
) -> Side:
    if isinstance(network, torch.nn.Module):
        return _torch_side(name, network, args, kwargs, options)
    if isinstance(network, Program):
        return InterpreterSide(name, network, args, kwargs, working_dtype=options.dtype, seed=options.seed)
    if isinstance(network, (str, PathLike, onnx.ModelProto)):
        dtype = ONNXRUNTIME_DTYPES[options.dtype]
        names = _input_names(reference, args, kwargs)
        return OnnxModelSide(name, network, args, kwargs, dtype=dtype, provider=options.provider, names=names)
    kinds = "a torch module or a program" + ("" if name == "reference" else ", a Cell, or an ONNX model or file")
    raise UsageError(f"the {name} must be {kinds}, given {type(network).__name__}")


def _input_names(reference: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """What a module or a program calls its inputs, in flat order of the arguments."""
    if isinstance(reference, Program):
        return input_names(reference)
    return [slot for _, slot in sorted(input_slots(reference, args, kwargs))]


def _as_reals(arguments: Any) -> Any:
    """Arguments as modules that are made of programs take them: complex tensors as pairs of reals."""
    return pytree.tree_map_only(
        torch.Tensor, lambda x: torch.view_as_real(x.resolve_conj()) if x.is_complex() else x, arguments
    )


def _torch_side(
    name: str,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    *,
    from_onnx: bool = False,
) -> TorchSide:
    """The side of a module.

    One made of an ONNX model (`from_onnx`) is seen at its own boundary only, and not in double precision: a number that
    is an attribute, such as eps, has the digits of float32 there.
    """
    side = TorchSide(
        name,
        module,
        args,
        kwargs,
        train=options.train,
        loss=options.loss,
        working_dtype=options.dtype,
        seed=options.seed,
        watched=[""] if from_onnx else None,
    )
    if from_onnx:
        side.abilities = Abilities((("rounding", ONNXRUNTIME_DTYPES[options.dtype]),), cells=False)
    return side


def _cast(tree: Any, dtype: str) -> Any:
    target = getattr(torch, dtype)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(target) if t.is_floating_point() else t, tree)
