"""`check` and `compare`: run the sides, compare, report."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import onnx
import torch

from ..converter.capture.export import from_torch
from ..converter.onnx_out.export import to_onnx
from ..runtime.errors import UsageError
from ..runtime.ir.program import Program
from .cells import cell_reports, owners, require_finite
from .comparer import Comparer, compare_parameters
from .judge import Tolerance
from .noise import Noise
from .progress import NoProgress, Progress
from .results import FAIL, NOT_COMPARED, PASS, SKIPPED, Comparison, Report
from .sides.interpreter_side import InterpreterSide
from .sides.onnxruntime_side import ExportedSide, OnnxModelSide
from .sides.precision import in_dtype
from .sides.records import Records, Run, Side
from .sides.torch_side import TorchSide

DTYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class Options:
    """What a run compares and how.

    Attributes:
        grads: compare gradients too.
        train: run in train mode, with random draws replayed and buffer updates compared.
        dtype: working dtype, one of `DTYPES`.
        rtol: replaces the computed bars, with `atol`.
        atol: replaces the computed bars, with `rtol`.
        only: globs of Cell paths; others are skipped.
        skip: globs of Cell paths to skip.
        fail_fast: stop after the first comparison of a side that fails.
        provider: of ONNX Runtime, "cpu" or "cuda".
        seed: of cotangents and of torch's random numbers.
        loss: makes a scalar of the module's outputs, whose gradients are the cotangents.
        model: what to call it in the report.
    """

    grads: bool = True
    train: bool = False
    dtype: str = "float32"
    rtol: float | None = None
    atol: float | None = None
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    fail_fast: bool = False
    provider: str = "cpu"
    seed: int = 0
    loss: Callable[[Any], torch.Tensor] | None = None
    model: str = ""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UsageError(f"dtype must be one of {', '.join(DTYPES)}, given {self.dtype!r}")


def check(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    save_onnx: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Convert a module and compare all sides: torch, the interpreter, ONNX Runtime on the exported model.

    Args:
        module: the reference.
        args: positional inputs.
        kwargs: keyword inputs.
        dynamic_shapes: as `converter.from_torch` takes it.
        save_onnx: where to write the exported model.
        progress: told of stages.
        **options: fields of `Options`.

    Returns:
        The report.

    Raises:
        UsageError: the inputs don't fit the module, an option is wrong, or the module's outputs aren't finite.
        ConversionError: the module can't be converted.
    """
    chosen = Options(**options)
    shown = progress or NoProgress()
    keywords = dict(kwargs or {})
    shown.stage("capture", None)
    with in_dtype(module, getattr(torch, chosen.dtype), train=chosen.train):
        example_args, example_kwargs = _cast((args, keywords), chosen.dtype)
        program = from_torch(
            module, example_args, example_kwargs, dynamic_shapes=dynamic_shapes, train=chosen.train
        )
    reference = _torch_side("torch", module, args, keywords, chosen)
    interpreter = InterpreterSide("interpreter", program, args, keywords, working_dtype=chosen.dtype, seed=chosen.seed)
    # ONNX Runtime's CPU kernels know float64 only here and there: the exported model is judged in float32 instead
    exported = program.astype("float32") if chosen.dtype == "float64" else program
    runtime = ExportedSide("onnxruntime", exported, args, keywords, provider=chosen.provider)
    report = _run(reference, [interpreter, runtime], chosen, shown)
    if save_onnx is not None:
        shown.stage("write ONNX", None)
        to_onnx(program, save_onnx)
    return report


def compare(
    reference: Any,
    candidate: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Compare two sides Cell by Cell.

    Args:
        reference: a torch module or a program.
        candidate: a torch module, a program, an ONNX model or the path of one. Cells are paired by path, parameters
            are taken from each side as they are.
        args: positional inputs, the same for both.
        kwargs: keyword inputs.
        progress: told of stages.
        **options: fields of `Options`.

    Returns:
        The report. An ONNX model is compared at its outputs: gradients and inner Cells aren't in it.

    Raises:
        UsageError: a side is of another kind, or the inputs don't fit.
    """
    chosen = Options(**options)
    keywords = dict(kwargs or {})
    if isinstance(reference, (str, PathLike, onnx.ModelProto)):
        raise UsageError(
            "the reference must be a torch module or a program: the truth is computed in float64, which "
            "an ONNX model can't be run in; give the ONNX model as the candidate"
        )
    return _run(
        _side("reference", reference, args, keywords, chosen),
        [_side("candidate", candidate, args, keywords, chosen)],
        chosen,
        progress or NoProgress(),
    )


def _side(name: str, network: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options) -> Side:
    if isinstance(network, torch.nn.Module):
        return _torch_side(name, network, args, kwargs, options)
    if isinstance(network, Program):
        return InterpreterSide(name, network, args, kwargs, working_dtype=options.dtype, seed=options.seed)
    if isinstance(network, (str, PathLike, onnx.ModelProto)):
        return OnnxModelSide(name, network, args, kwargs, provider=options.provider)
    raise UsageError(
        f"the {name} must be a torch module, a program, or an ONNX model or file, given {type(network).__name__}"
    )


def _torch_side(
    name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
) -> TorchSide:
    return TorchSide(
        name,
        module,
        args,
        kwargs,
        train=options.train,
        loss=options.loss,
        working_dtype=options.dtype,
        seed=options.seed,
    )


def _run(reference: Side, candidates: list[Side], options: Options, progress: Progress) -> Report:
    working = "float32" if options.dtype == "float64" else options.dtype
    tolerance = Tolerance(working, options.rtol, options.atol)
    progress.stage("reference", 3)
    truth = reference.run(Run("float64", options.grads))
    require_finite(truth, "float64")
    progress.advance()
    replayed = Run(working, options.grads, truth.cotangents, truth.draws)
    noises = {"isolated": Noise(reference, truth, replace(replayed, feed=truth))}
    progress.advance()
    noises["end to end"] = Noise(reference, truth, replayed)
    require_finite(noises["end to end"].first, working)
    report = Report(
        model=options.model or truth.calls[0].class_name,
        reference=reference.name,
        sides=[side.name for side in candidates],
        dtype=options.dtype,
        train=options.train,
        grads=options.grads,
        seed=options.seed,
        cells=cell_reports(reference, truth),
    )
    owner = owners(report.cells, reference, truth)
    for side in candidates:
        found = _compare_side(side, reference, truth, noises, options, tolerance, owner, progress, report)
        _enter(report, found, options)
        if options.fail_fast and not report.ok:
            report.notes.append(f"stopped at the first failing side ({side.name}), as asked by --fail-fast")
            break
    return report


def _compare_side(
    side: Side,
    reference: Side,
    truth: Records,
    noises: Mapping[str, Noise],
    options: Options,
    tolerance: Tolerance,
    owner: Mapping[str, str],
    progress: Progress,
    report: Report,
) -> list[tuple[str, Comparison]]:
    """All comparisons of one side; with fail_fast, up to the first way of comparing that fails."""
    inside = not isinstance(side, OnnxModelSide)
    only_outputs = isinstance(side, (OnnxModelSide, ExportedSide))
    checks = [("meaning", "float64")] if not only_outputs else []
    if only_outputs or options.dtype != "float64":
        checks.append(("rounding", tolerance.dtype))
    feedings = ["isolated", "end to end"] if inside else ["end to end"]
    progress.stage(side.name, len(checks) * len(feedings))
    found: list[tuple[str, Comparison]] = []
    if inside and not only_outputs:
        found += compare_parameters(side.name, reference.parameters(), side.parameters(), owner)
    if only_outputs and options.dtype == "float64":
        report.notes.append("ONNX Runtime was compared in float32: its CPU kernels don't cover float64")
    for feeding in feedings:
        noise = noises[feeding]
        comparer = Comparer(
            side.name, feeding, truth, noise, tolerance, owner, grads=options.grads and not only_outputs
        )
        for check_name, dtype in checks:
            run = replace(noise.run, dtype=dtype, grads=options.grads and not only_outputs)
            records = side.run(run)
            comparisons = comparer.compare(check_name, records)
            # before rounding is called too large, the reference's own is measured again, and again
            while check_name == "rounding" and _undecided(comparisons, found) and noise.sample():
                comparisons = comparer.compare(check_name, records)
            found += comparisons
            progress.advance()
            if options.fail_fast and _fails(comparisons, options):
                return found
    return found


def _undecided(comparisons: list[tuple[str, Comparison]], found: list[tuple[str, Comparison]]) -> bool:
    """Whether rounding fails somewhere where nothing else has failed already."""
    failed = {(path, c.kind, c.tensor) for path, c in found if c.status != PASS}
    return any(c.status == FAIL and (path, c.kind, c.tensor) not in failed for path, c in comparisons)


def _fails(comparisons: list[tuple[str, Comparison]], options: Options) -> bool:
    return any(c.status in (FAIL, NOT_COMPARED) and _selected(path, options) for path, c in comparisons)


def _selected(path: str, options: Options) -> bool:
    wanted = not options.only or any(fnmatch.fnmatchcase(path, glob) for glob in options.only)
    return wanted and not any(fnmatch.fnmatchcase(path, glob) for glob in options.skip)


def _enter(report: Report, found: list[tuple[str, Comparison]], options: Options) -> None:
    for path, comparison in found:
        if path not in report.cells:
            path = ""
        if _selected(path, options):
            report.cells[path].comparisons.append(comparison)
    for path, cell in report.cells.items():
        if not _selected(path, options):
            cell.presence = SKIPPED
    if options.only and all(cell.presence == SKIPPED for cell in report.cells.values()):
        raise UsageError(f"no Cell matches --only {' '.join(options.only)}; see the paths with: parity inspect")


def _cast(tree: Any, dtype: str) -> Any:
    from torch.utils import _pytree as pytree

    target = getattr(torch, dtype)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(target) if t.is_floating_point() else t, tree)
