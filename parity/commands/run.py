"""`parity run`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from ...runtime.errors import UsageError
from .. import files
from ..progress import TerminalProgress
from .command import EXIT_CODES, Command, judging, shared
from .conversion import checked
from .outcome import file_of, finish, require_outputs
from .training import recipe_of, steps_option, trained, training_options


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option("--train", is_flag=True, help="Compare in train mode: batch statistics, dropout, buffer updates.")
@click.option("--round-trip", is_flag=True, help="Judge the torch modules made of the conversions too.")
@click.option(
    "--save-onnx", "onnx_file", metavar="FILE", help="Keep the ONNX model that was judged, whatever the verdict."
)
@steps_option
@training_options
@judging
@shared
def run(
    model: str,
    seed: int,
    verbose: bool,
    json_file: str | None,
    junit_file: str | None,
    onnx_file: str | None,
    inputs: str | None,
    shapes: dict[str, tuple[int, ...]],
    no_grad: bool,
    train: bool,
    round_trip: bool,
    steps: int | None,
    **options: Any,
) -> None:
    """Compare MODEL in torch with its conversions, Cell by Cell.

    MODEL is path/model.py, path/model.py:factory or package.module:factory. The file defines model(), an nn.Module, and
    inputs(), a tuple of arguments or a dict of keyword arguments, or several of them, yielded; optionally
    loss(outputs), dynamic_shapes, and cell(), the port of the model, which is judged too (cells and weights say which
    of its Cells and Parameters are which).

    Or it is an ONNX file: then the interpreter, torch and ONNX Runtime are held against each other on it, on generated
    inputs of --shape, or on --inputs. One that can't be read as a program is compared as a whole, its Cells unknown.

    With --train-steps, steps of training are compared: losses, gradients, overflow decisions, clipped gradients,
    optimizer state, parameters and buffers. The loss is that of the file, else the mean of the squares of all
    floating-point outputs. The first batches are inputs(), the others are made of them. With --dtype float16 or
    bfloat16, torch trains under autocast.
    """
    outputs = {"--json": json_file, "--junit": junit_file, "--save-onnx": onnx_file}
    require_outputs(outputs, {"MODEL": file_of(model), "--inputs": inputs})
    recipe = recipe_of(model, steps, options)
    if recipe is not None:
        finish(trained(model, seed, verbose, recipe, **options), verbose, json_file, junit_file)
    options |= {"grads": not no_grad}
    if Path(model).suffix == ".onnx":
        if train or round_trip or onnx_file is not None:
            raise UsageError("--train, --round-trip and --save-onnx are for torch models, not for an ONNX file")
        from ..onnx_files import check_onnx

        with TerminalProgress() as progress:
            report = check_onnx(
                model, inputs=inputs, shapes=shapes, seed=seed, model=model, progress=progress, **options
            )
        finish(report, verbose, json_file, junit_file)
    if inputs is not None or shapes:
        option = "--inputs" if inputs is not None else "--shape"
        raise UsageError(f"{option} is for ONNX files: a model file has inputs() of its own")
    with files.written_model(onnx_file) if onnx_file else nullcontext() as onnx_path:
        report = checked(model, seed, verbose, train=train, round_trip=round_trip, save_onnx=onnx_path, **options)
    finish(report, verbose, json_file, junit_file)
