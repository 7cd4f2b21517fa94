"""`parity record`."""

from __future__ import annotations

import click

from ...runtime.errors import UsageError
from ..inputs.model_file import load
from ..report.layout import echo
from ..support.files import require_new_folder
from ..support.progress import TerminalProgress
from ..training.training_config import TrainingConfig, TrainingConfigKeywords
from .command import EXIT_CODES, Command, common_options, computing_dtype_option, mode_option, parse_size, quiet
from .training import TRAINING, options_on_command_line, training_options


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option("-o", "--output", "target", required=True, metavar="FOLDER", help="The new folder to write.")
@click.option("--only", multiple=True, metavar="GLOB", help="Record only Cells whose path matches; may be repeated.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave out Cells whose path matches; may be repeated.")
@click.option(
    "--budget",
    metavar="SIZE",
    callback=parse_size,
    help="Write at most this (4GB); of what doesn't fit, write the norm, extremes, some elements and a checksum.",
)
@mode_option
@computing_dtype_option
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Record N steps of training, in train mode; on inputs() first, and then on batches derived from them.",
)
@training_options
@click.option(
    "--no-float64",
    is_flag=True,
    help="Leave out what others are judged by: the run in float64, and the network's program.",
)
@click.option("--no-grad", is_flag=True, help="Record the forward pass only.")
@common_options
def record(
    model: str,
    seed: int,
    verbose: bool,
    target: str,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    budget: int | None,
    train: bool | None,
    dtype: str,
    steps: int | None,
    config: TrainingConfigKeywords,
    no_float64: bool,
    no_grad: bool,
) -> None:
    """Run MODEL and write what crosses the boundaries of its Cells to a folder, to be judged elsewhere or later.

    MODEL is a model file, as for parity run; its first inputs are used. Recorded are inputs, outputs and gradients of
    every Cell, parameters, their gradients and buffers, in the working dtype and in float64; and the network as a
    program, with which causes are found. Values are written as they
    come, so memory holds one Cell's at a time.

    With --steps, steps of training are recorded: of each the same, and the parameters before it. The loss is loss() of
    the model file, or else the mean of the squares of all floating-point outputs.

    Other programs write such a folder with cellbridge.recorder, a single file that may be copied (docs/recordings.md).
    parity judge compares two of them.
    """
    require_new_folder(target)
    if steps is None and (alone := options_on_command_line(TRAINING)):
        raise UsageError(f"{', '.join(alone)}: only for training; give the number of steps with --steps N")
    if steps is not None:
        config["steps"] = steps
    training = None if steps is None else TrainingConfig(**config)
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = load(model, seed)
        from ..recordings.write import record as record_module

        with quiet(verbose):
            size = record_module(
                user_file.module,
                user_file.args,
                target,
                user_file.kwargs,
                budget=budget,
                float64=not no_float64,
                training=training,
                more_inputs=user_file.more_inputs,
                progress=progress,
                grads=not no_grad,
                train=train,
                dtype=dtype,
                only=only,
                skip=skip,
                seed=seed,
                loss=user_file.loss,
                model=user_file.name,
            )
    echo(f"recorded {size.in_words} in {target}")
    if size.without_program:
        echo(f"without the network's program, so that no causes can be found: {size.without_program}")
