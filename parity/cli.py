"""The command `parity`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..runtime.errors import UsageError
from . import files
from .command import EXIT_CODES, Command, judging, quiet, shared
from .dynamic_axes import with_dynamic_axes
from .model_file import load
from .notes import warnings_as_notes
from .progress import TerminalProgress
from .training_command import (
    CHECKED_STEPS,
    export_recipe,
    export_training,
    recipe_of,
    steps_option,
    trained,
    training_options,
)

if TYPE_CHECKING:
    from ..runtime.ir.program import Program
    from .results import Report
    from .training_report import TrainingReport


def _checked(model: str, seed: int, verbose: bool, dynamic: Sequence[str] = (), **options: Any) -> Report:
    """The report on a model file; torch is loaded here, so that `--help` is quick."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed), dynamic)
        from .engine import check

        with quiet(verbose):
            return check(
                user_file.module,
                user_file.args,
                user_file.kwargs,
                loss=user_file.loss,
                dynamic_shapes=user_file.dynamic_shapes,
                cell=user_file.cell,
                cells=user_file.cells,
                weights=user_file.weights,
                model=user_file.name,
                seed=seed,
                progress=progress,
                **options,
            )


def _converted(model: str, seed: int, verbose: bool, dynamic: Sequence[str] = (), dtype: str | None = None) -> Program:
    """The program of a model file, in the dtypes that it has or in `dtype`; what differs in it is told on stderr."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed), dynamic)
        from ..converter import from_torch

        progress.stage("capture", None)
        arguments = user_file.module, user_file.args, user_file.kwargs
        with quiet(verbose), warnings_as_notes() as notes:
            if dtype is None:
                program = from_torch(*arguments, dynamic_shapes=user_file.dynamic_shapes)
            else:
                from .engine import captured
                from .options import Options

                program = captured(*arguments, user_file.dynamic_shapes, Options(dtype=dtype))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    return program


def _show(report: Report | TrainingReport, verbose: bool) -> None:
    from rich.console import Console

    from .report import terminal, training
    from .training_report import TrainingReport

    if isinstance(report, TrainingReport):
        training.render(report, Console())
    else:
        terminal.render(report, Console(), verbose)


@click.group(epilog=EXIT_CODES)
@click.version_option(package_name="cellbridge", prog_name="parity")
def main() -> None:
    """Judge, module by module, whether a PyTorch model survives conversion: its outputs and its gradients."""


def _require_outputs(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Raise `UsageError`, before the work starts, if a file can't be written, or what is read would be overwritten."""
    files.require_apart(outputs, inputs)
    for path in outputs.values():
        if path is not None:
            files.require_writable(path)


def _file_of(model: str) -> str:
    """The file of `path/model.py:factory`."""
    head, _, factory = model.rpartition(":")
    return head if head and factory.isidentifier() else model


def _finish(report: Report | TrainingReport, verbose: bool, json_file: str | None, junit_file: str | None) -> None:
    """Write and show a report; the exit code is its verdict."""
    if json_file is not None:
        from .report import json_report

        json_report.write(report, json_file)
    if junit_file is not None:
        from .report import junit

        junit.write(report, junit_file)
    _show(report, verbose)
    raise click.exceptions.Exit(0 if report.ok else 1)


@main.command(cls=Command, epilog=EXIT_CODES)
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
    no_grad: bool,
    train: bool,
    round_trip: bool,
    steps: int | None,
    **options: Any,
) -> None:
    """Compare MODEL in torch with its conversions, Cell by Cell.

    MODEL is path/model.py, path/model.py:factory or package.module:factory. The file defines model(), an nn.Module, and
    inputs(), a tuple of arguments or a dict of keyword arguments; optionally loss(outputs), dynamic_shapes, and cell(),
    the port of the model, which is judged too (cells and weights say which of its Cells and Parameters are which).

    Or it is an ONNX file: then the interpreter, torch and ONNX Runtime are held against each other on it.

    With --train-steps, steps of training are compared: losses, gradients, overflow decisions, clipped gradients,
    optimizer state, parameters and buffers. The loss is that of the file, else the mean of the squares of all
    floating-point outputs. The first batch is inputs(), the others are made of it. With --dtype float16 or bfloat16,
    torch trains under autocast.
    """
    outputs = {"--json": json_file, "--junit": junit_file, "--save-onnx": onnx_file}
    _require_outputs(outputs, {"MODEL": _file_of(model), "--inputs": inputs})
    recipe = recipe_of(model, steps, options)
    if recipe is not None:
        _finish(trained(model, seed, verbose, recipe, **options), verbose, json_file, junit_file)
    options |= {"grads": not no_grad}
    if Path(model).suffix == ".onnx":
        if train or round_trip or onnx_file is not None:
            raise UsageError("--train, --round-trip and --save-onnx are for torch models, not for an ONNX file")
        from .onnx_files import check_onnx

        with TerminalProgress() as progress:
            report = check_onnx(model, inputs=inputs, seed=seed, model=model, progress=progress, **options)
        _finish(report, verbose, json_file, junit_file)
    if inputs is not None:
        raise UsageError("--inputs is for ONNX files: a model file has inputs() of its own")
    with files.written_whole(onnx_file) if onnx_file else nullcontext() as onnx_path:
        report = _checked(model, seed, verbose, train=train, round_trip=round_trip, save_onnx=onnx_path, **options)
    _finish(report, verbose, json_file, junit_file)


@main.command(cls=Command, epilog=EXIT_CODES)
@click.argument("reference")
@click.argument("candidate")
@click.option("-v", "--verbose", is_flag=True, help="Show every Cell and every failing check; tracebacks too.")
@click.option("--seed", default=0, show_default=True, help="Of the random inputs and cotangents.")
@judging
def compare(
    reference: str,
    candidate: str,
    seed: int,
    verbose: bool,
    json_file: str | None,
    junit_file: str | None,
    inputs: str | None,
    no_grad: bool,
    **options: Any,
) -> None:
    """Compare two ONNX files that should compute the same: CANDIDATE with REFERENCE, outputs and gradients.

    Inputs are generated from the declared types, at several sizes of dynamic dimensions, or taken from --inputs. Cells
    are compared one by one where both files have the same (both written by parity export, say), else the models as a
    whole.
    """
    read = {"REFERENCE": reference, "CANDIDATE": candidate, "--inputs": inputs}
    _require_outputs({"--json": json_file, "--junit": junit_file}, read)
    for given in (reference, candidate):
        if Path(_file_of(given)).suffix == ".py":
            raise UsageError(
                f"parity compare takes two ONNX files, given {given}\n"
                "  what to do: judge a model file with parity run; two modules in Python, with "
                "parity.compare(reference, candidate, args) or assert_parity"
            )
    from .onnx_comparison import compare_onnx

    options |= {"grads": not no_grad, "model": candidate}
    with TerminalProgress() as progress:
        report = compare_onnx(reference, candidate, inputs=inputs, seed=seed, progress=progress, **options)
    _finish(report, verbose, json_file, junit_file)


@main.command(cls=Command, epilog=EXIT_CODES)
@click.option("-o", "--output", required=True, metavar="FILE", help="The ONNX file to write.")
@click.option("--no-check", is_flag=True, help="Write it without comparing it with torch.")
@click.option("--no-grad", is_flag=True, help="Compare outputs only.")
@click.option("--opset", type=int, help="Version of the operator set: 17 to the newest that ONNX Runtime takes.")
@click.option(
    "--fp16",
    is_flag=True,
    help="Write it in half precision: parameters, inputs and outputs are float16, as after module.half(); that is "
    "compared with torch in float16.",
)
@click.option(
    "--dynamic",
    multiple=True,
    metavar="NAME:AXIS=SYMBOL",
    help="Let this axis of an argument of forward vary (x:0=batch); axes with one SYMBOL always have one size. May be "
    "repeated. For a MODEL without dynamic_shapes.",
)
@click.option("--external-data", is_flag=True, help="Write the weights to FILE.data, as is always done above 2 GB.")
@click.option(
    "--training-step",
    is_flag=True,
    help="Write a step of training instead, with its optimizer and state, and a JSON file that describes it "
    "(docs/train_without_torch.md).",
)
@training_options
@shared
def export(
    model: str,
    seed: int,
    verbose: bool,
    output: str,
    no_check: bool,
    no_grad: bool,
    opset: int | None,
    fp16: bool,
    dynamic: tuple[str, ...],
    external_data: bool,
    training_step: bool,
    **options: Any,
) -> None:
    """Convert MODEL to ONNX, and write it if parity holds.

    MODEL is a model file, as for `parity run`. Where parity fails nothing is written. With --training-step, the loss is
    that of the file, else the mean of the squares of all floating-point outputs.
    """
    _require_outputs({"--output": output}, {"MODEL": _file_of(model)})
    if opset is not None:
        from ..runtime.lowering import opsets

        opsets.chosen(opset)  # or it is refused, before the work starts
    recipe = export_recipe(training_step, options)
    if recipe is not None:
        if not no_check:
            how: dict[str, Any] = {"dtype": "float32", "provider": "cpu", "rtol": None, "atol": None}
            steps = {"steps": CHECKED_STEPS, **recipe}
            _passed(trained(model, seed, verbose, steps, dynamic=dynamic, **how), verbose, output)
        export_training(model, seed, verbose, output, opset, dynamic, recipe)
        described = Path(output).with_suffix(".json")
        click.echo(f"wrote {output} and {described}" + (", unchecked" if no_check else ""))
        return
    form: dict[str, Any] = {"opset": opset, "external_data": external_data or "auto"}
    with files.written_whole(output) as onnx_path:
        if no_check:
            from ..converter import to_onnx

            to_onnx(_converted(model, seed, verbose, dynamic, "float16" if fp16 else None), onnx_path, **form)
        else:
            dtype = "float16" if fp16 else "float32"
            report = _checked(
                model, seed, verbose, dynamic, grads=not no_grad, dtype=dtype, save_onnx=onnx_path, **form
            )
            _passed(report, verbose, output)
    click.echo(f"wrote {output}" + (", unchecked" if no_check else ""))


def _passed(report: Report | TrainingReport, verbose: bool, output: str) -> None:
    """Show a report that fails, and end; tell the notes of one that passes."""
    if not report.ok:
        _show(report, verbose)
        click.echo(f"error: {output} was not written, since parity fails (--no-check writes it all the same)", err=True)
        raise click.exceptions.Exit(1)
    for note in report.notes:
        click.echo(f"note: {note}", err=True)


@main.command(cls=Command, epilog=EXIT_CODES)
@click.option("--ir", is_flag=True, help="Print the program, op by op.")
@shared
def inspect(model: str, seed: int, verbose: bool, ir: bool) -> None:
    """Show the Cells of MODEL as converted, their parameters and ops.

    MODEL is a model file or an ONNX file, as for `parity run`.
    """
    from rich.console import Console

    from .report import inspection

    if Path(model).suffix == ".onnx":
        from ..converter import from_onnx

        program = from_onnx(model)
    else:
        program = _converted(model, seed, verbose)
    if ir:
        click.echo(str(program))
    else:
        inspection.render(program, Console())


@main.command(cls=Command, epilog=EXIT_CODES)
@click.argument("source")
@click.option("-o", "--output", "target", required=True, metavar="TARGET", help="The checkpoint to write.")
@click.option("--map", "map_file", metavar="FILE", help="What names alone don't tell, in TOML; for both directions.")
@click.option("-v", "--verbose", is_flag=True, help="Show what became of every parameter; tracebacks too.")
def weights(source: str, target: str, map_file: str | None, verbose: bool) -> None:
    """Make of a checkpoint of torch one that Cells load, or the other way.

    SOURCE and TARGET are a state dict of torch (.pt, .pth, .bin, .safetensors) and a checkpoint of Cells (.ckpt). No
    network is needed: names and shapes tell most (a batch normalization's weight becomes gamma); what they don't tell
    is asked for, with the lines to put into FILE. Torch's names are on the left there:

    \b
      "encoder.*.norm.weight" = "encoder.*.norm.gamma"     another name
      "backbone." = "encoder."                             another prefix
      "fc.weight" = { transpose = true }                   axes exchanged
      "conv.weight" = { to = "c.weight", expand_dims = 2 } a new axis of size 1
      "a.qkv" = { to = ["a.q", "a.k", "a.v"] }             divided along axis 0
      "position_ids" = { drop = true }                     left behind

    The first line that matches a name holds. More in docs/weights.md.
    """
    from rich.console import Console

    from .report import conversion
    from .weights.checkpoints import convert

    done = convert(source, target, map_file)
    conversion.render(done, source, target, Console(), verbose)
