"""`parity record`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ..jobs.training.training_config import TrainingConfig
from ..report.layout import echo
from ..support.files import require_new_folder
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import Run, Seed, Verbosity
from .arguments.parsing import parse_size
from .arguments.training import RecordedTraining
from .command import command
from .conversion import loaded


@dataclass(frozen=True)
class Recording(ArgumentGroup):
    """What is written."""

    title = "Record"
    target: str = option("-o", "--output", required=True, metavar="FOLDER", help="The new folder to write.")
    only: tuple[str, ...] = option(
        "--only", multiple=True, metavar="GLOB", help="Record only Cells whose path matches; may be repeated."
    )
    skip: tuple[str, ...] = option(
        "--skip", multiple=True, metavar="GLOB", help="Leave out Cells whose path matches; may be repeated."
    )
    budget: int | None = option(
        "--budget",
        metavar="SIZE",
        callback=parse_size,
        help="Write at most this (4GB); of what doesn't fit, write the norm, extremes, some elements and a checksum.",
    )
    no_float64: bool = option(
        "--no-float64",
        is_flag=True,
        help="Leave out the run in float64 and the network's program, by which other recordings are judged.",
    )


@command("record")
@click.argument("model")
def record(
    model: str, recording: Recording, how: Run, training: RecordedTraining, inputs: Seed, reports: Verbosity
) -> None:
    """Run MODEL, and record what its Cells compute.

    What crosses the boundaries of Cells is written to a folder, to be judged elsewhere or later. MODEL is a model file,
    as for parity run; its first inputs are used. Recorded are inputs, outputs and gradients of every Cell, parameters,
    their gradients and buffers, in the working dtype and in float64; and the network as a program, with which causes
    are found. Values are written as they come, so memory holds one Cell's at a time.

    Other programs write such a folder with cellbridge.recorder, a single file that may be copied (docs/recordings.md).
    parity judge compares two of them.
    """
    require_new_folder(recording.target)
    steps = training.steps
    config = None if steps is None else TrainingConfig(**training.config(steps))
    with loaded(model, inputs.seed, reports.verbose) as (user_file, progress):
        from ..jobs.recording.write import record as record_module

        size = record_module(
            user_file.module,
            user_file.args,
            recording.target,
            user_file.kwargs,
            budget=recording.budget,
            float64=not recording.no_float64,
            training=config,
            more_inputs=user_file.more_inputs,
            progress=progress,
            grads=not how.no_grad,
            train=how.train,
            dtype=how.dtype,
            only=recording.only,
            skip=recording.skip,
            seed=inputs.seed,
            loss=user_file.loss,
            model=user_file.name,
        )
    echo(f"recorded {size.in_words} in {recording.target}")
    if size.without_program:
        echo(f"without the network's program, so that no causes can be found: {size.without_program}")
