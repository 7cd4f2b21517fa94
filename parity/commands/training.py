"""Training on the command line: its options, and the run of `parity run --train-steps`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...runtime.errors import UsageError
from ..inputs.dynamic_axes import with_dynamic_axes
from ..inputs.model_file import load
from ..options import OptionKeywords
from ..report.layout import echo
from ..support.progress import TerminalProgress
from ..training.training_config import DYNAMIC, OPTIMIZERS, TrainingConfig, TrainingConfigKeywords
from .command import Function, quiet

if TYPE_CHECKING:
    from ..report.training_report import TrainingReport

TRAINING = ("optimizer", "lr", "weight_decay", "loss_scale", "clip_norm", "accumulate", "frozen")
"""Training options, by the names of their values: fields of `TrainingConfigKeywords`."""

CHECKED_STEPS = 2
"""Number of steps that `parity export --training-step` compares with torch's before it writes."""

NOT_IN_TRAINING = (
    "train", "round_trip", "onnx_file", "inputs", "only", "skip", "fail_fast", "diagnose_seconds", "strict", "probe",
    "no_grad", "repro",
)  # fmt: skip
"""Options of `parity run` that can't be combined with training, by the names of their values."""


def options_on_command_line(names: Sequence[str]) -> list[str]:
    """Return the options with these value names that are on the command line, as the user writes them."""
    context = click.get_current_context()
    option_of = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    line = click.core.ParameterSource.COMMANDLINE
    return [option_of[name] for name in names if context.get_parameter_source(name) is line]


def _parse_loss_scale(ctx: click.Context, parameter: click.Parameter, text: str | None) -> float | str | None:
    """Parse `--loss-scale`: a number of at least 1, or "dynamic"."""
    if text is None or text == DYNAMIC:
        return text
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not scale >= 1:
        raise click.BadParameter(f"{text!r} is neither a number of at least 1 nor '{DYNAMIC}'.", ctx, parameter)
    return scale


def training_options(function: Function) -> Function:
    """Add the training options, which the command gets as one `config`."""

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        config = {name: values.pop(name) for name in TRAINING}
        return function(config=config, **values)

    decorated: Any = command
    for decorate in (
        click.option(
            "--freeze",
            "frozen",
            multiple=True,
            metavar="GLOB",
            help="Don't train parameters whose name matches; may be repeated.",
        ),
        click.option(
            "--accumulate",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Batches per step, whose gradients are averaged.",
        ),
        click.option(
            "--clip-norm", type=click.FloatRange(min=0, min_open=True), help="Clip gradients to this total norm."
        ),
        click.option(
            "--loss-scale",
            callback=_parse_loss_scale,
            metavar="NUMBER|dynamic",
            help="Scale the loss, and skip updates that overflow; dynamic: like torch's GradScaler.",
        ),
        click.option(
            "--weight-decay",
            type=click.FloatRange(min=0),
            help="Weight decay. Default: the optimizer's own (0.01 for adamw, else 0).",
        ),
        click.option("--lr", type=click.FloatRange(min=0), default=1e-3, show_default=True, help="Learning rate."),
        click.option(
            "--optimizer",
            type=click.Choice(list(OPTIMIZERS), case_sensitive=False),
            default="adamw",
            show_default=True,
            help="Optimizer of torch.optim; momentum and nesterov are SGD with momentum 0.9.",
        ),
    ):
        decorated = decorate(decorated)
    result: Function = decorated
    return result


def steps_option(function: Function) -> Function:
    """Add the option for the number of training steps."""
    return click.option(
        "--train-steps",
        "steps",
        type=click.IntRange(min=1),
        metavar="N",
        help="Compare N steps of training instead: torch (autocast, GradScaler, torch.optim), the interpreter and "
        "the compiled step.",
    )(function)


def require_training_step(training: bool) -> None:
    """Raise `UsageError` for options of `parity export` that don't apply with, or without, a training step."""
    if not training:
        if alone := options_on_command_line(TRAINING):
            raise UsageError(f"{', '.join(alone)}: only for training; write a training step with --training-step")
    elif other := options_on_command_line(("fp16", "bf16", "int8", "external_data", "no_grad")):
        raise UsageError(f"{', '.join(other)}: not with --training-step, which keeps its state in float32 in one file")


def require_steps(model: str, steps: int | None) -> None:
    """Raise `UsageError` for options of `parity run` that don't apply with, or without, training."""
    if steps is None:
        if alone := options_on_command_line(TRAINING):
            raise UsageError(f"{', '.join(alone)}: only for training; give the number of steps with --train-steps N")
    elif Path(model).suffix == ".onnx":
        raise UsageError("--train-steps is for torch models, not for an ONNX file")
    elif other := options_on_command_line(NOT_IN_TRAINING):
        raise UsageError(f"{', '.join(other)}: not with --train-steps, which compares whole steps of training")


def export_training(
    model: str,
    seed: int,
    verbose: bool,
    output: str,
    opset: int | None,
    dynamic: Sequence[str],
    config: TrainingConfigKeywords,
    *,
    separate_state: bool = False,
) -> None:
    """Write a training step of a model file, and the JSON file that describes it.

    Raises:
        UsageError: the file can't be written, or the model, its loss or its dynamic shapes are wrong.
        ConversionError: it can't be converted.
    """
    user_file = with_dynamic_axes(load(model, seed), dynamic)
    from torch.utils import _pytree as pytree

    from ...converter import training_step_to_onnx
    from ...runtime import tree
    from ...runtime.ir.types import is_floating
    from ...runtime.lowering import opsets
    from ...runtime.programs.call import as_array
    from ...runtime.train_step.arguments import training_step
    from ..inputs.sizes import open_axes
    from ..training.loss_network import loss_program

    with quiet(verbose):
        program = loss_program(
            user_file.module,
            user_file.args,
            user_file.kwargs,
            loss=user_file.loss,
            dynamic_shapes=user_file.dynamic_shapes,
        )
    leaves = [x for x in pytree.tree_leaves((user_file.args, user_file.kwargs)) if tree.is_tensor(x)]
    arguments = inspect.signature(user_file.module.forward).bind(*user_file.args, **user_file.kwargs).arguments
    path_of = {
        id(leaf): ".".join([name, *(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)])
        for name, value in arguments.items()
        for path, leaf in pytree.tree_flatten_with_path(value)[0]
    }
    step = training_step(program, None, **TrainingConfig(**config).step_arguments())
    names = tuple(path_of[id(leaf)] for leaf in leaves)
    # a module in another dtype is trained in float32
    typed_arrays = zip(map(as_array, leaves), program.inputs, strict=True)
    batch = tuple(array.astype(value.dtype) if is_floating(array.dtype) else array for array, value in typed_arrays)
    model_proto = training_step_to_onnx(
        step, batch, output, names=names, dynamic_shapes=open_axes(program), opset=opset,
        separate_state=separate_state,
    )  # fmt: skip
    echo(f"the ONNX model is of {opsets.describe(model_proto)}")


def check_model_file_training(
    model: str,
    seed: int,
    verbose: bool,
    config: TrainingConfigKeywords,
    options: OptionKeywords,
    dynamic: Sequence[str] = (),
) -> TrainingReport:
    """Return the report on training a model file; torch is imported only here, so that `--help` is quick."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed), dynamic)
        from ..training.check import check_training

        with quiet(verbose):
            report = check_training(
                user_file.module,
                user_file.args,
                user_file.kwargs,
                loss=user_file.loss,
                dynamic_shapes=user_file.dynamic_shapes,
                more_inputs=user_file.more_inputs,
                dtype=options.get("dtype", "float32"),
                rtol=options.get("rtol"),
                atol=options.get("atol"),
                provider=options.get("provider", "cpu"),
                model=user_file.name,
                seed=seed,
                progress=progress,
                **config,
            )
    if user_file.cell is not None:
        report.notes.append("the port was not trained: parity.assert_training_parity compares it with its own script")
    return report
