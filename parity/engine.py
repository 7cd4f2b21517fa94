"""`check` and `compare`: run the sides, compare, report."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

from ..converter.capture.export import from_torch
from ..converter.onnx_out.export import to_onnx
from ..runtime.errors import UsageError
from ..runtime.ir.program import Program
from .options import Options
from .progress import NoProgress, Progress
from .results import Report
from .sides.interpreter_side import InterpreterSide
from .sides.onnxruntime_side import ExportedSide, OnnxModelSide
from .sides.precision import default_dtype, in_dtype
from .sides.records import Side
from .sides.torch_side import TorchSide
from .trial import Trial

# the dtype that ONNX Runtime is judged in, for each working dtype
ONNXRUNTIME_DTYPES = {"float32": "float32", "float64": "float32", "float16": "float16", "bfloat16": "float32"}


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
    working = getattr(torch, chosen.dtype)
    default = working if working == torch.float64 else torch.get_default_dtype()
    with in_dtype(module, working, through=working, train=chosen.train), default_dtype(default):
        example_args, example_kwargs = _cast((args, keywords), chosen.dtype)
        program = from_torch(module, example_args, example_kwargs, dynamic_shapes=dynamic_shapes, train=chosen.train)
    reference = _torch_side("torch", module, args, keywords, chosen)
    interpreter = InterpreterSide("interpreter", program, args, keywords, working_dtype=chosen.dtype, seed=chosen.seed)
    exported_dtype = ONNXRUNTIME_DTYPES[chosen.dtype]
    runtime = ExportedSide("onnxruntime", program, args, keywords, dtype=exported_dtype, provider=chosen.provider)
    report = _run(reference, [interpreter, runtime], chosen, shown)
    if exported_dtype != chosen.dtype:
        report.notes.append(
            f"ONNX Runtime was compared in {exported_dtype}: it has kernels in {chosen.dtype} for few operators"
        )
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
        dtype = ONNXRUNTIME_DTYPES[options.dtype]
        return OnnxModelSide(name, network, args, kwargs, dtype=dtype, provider=options.provider)
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
    trial = Trial(reference, options, progress)
    report = Report(
        model=options.model or trial.truth.calls[0].class_name,
        reference=reference.name,
        sides=[side.name for side in candidates],
        dtype=options.dtype,
        train=options.train,
        grads=options.grads,
        seed=options.seed,
        cells=trial.cells,
    )
    for side in candidates:
        for path, comparison in trial.judge(side):
            report.cells[path].comparisons.append(comparison)
        if options.fail_fast and not report.ok:
            report.notes.append(f"stopped at the first failing side ({side.name}), as asked by --fail-fast")
            break
    report.notes += trial.notes
    return report


def _cast(tree: Any, dtype: str) -> Any:
    target = getattr(torch, dtype)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(target) if t.is_floating_point() else t, tree)
