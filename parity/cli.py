"""The command `parity`."""

from __future__ import annotations

import io
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..runtime.errors import CellbridgeError, UsageError
from . import files
from .dynamic_axes import with_dynamic_axes
from .model_file import load
from .progress import TerminalProgress

if TYPE_CHECKING:
    from ..runtime.ir.program import Program
    from .results import Report

EXIT_CODES = """\b
Exit codes:
  0    parity holds (or what was asked for is done)
  1    parity fails
  2    the command line or the model file is wrong
  3    the model can't be converted
  70   a fault of parity itself: please report it
  130  interrupted (Ctrl-C)
"""
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

Function = TypeVar("Function", bound=Callable[..., Any])


class _Command(click.Command):
    """A command whose errors are one message on stderr and an exit code; `-v` adds the traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CellbridgeError as error:
            _say(error, str(error), ctx)
            raise click.exceptions.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            click.echo("interrupted; no file was left half-written", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from error
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except SystemExit as error:
            if isinstance(error.__context__, BrokenPipeError):
                raise  # rich ends Python where nobody reads its output
            click.secho(f"error: the model ended Python (sys.exit) while it ran: {error}", err=True)
            raise click.exceptions.Exit(2) from error
        except Exception as error:
            text = f"this is a fault of parity, not of your model: {type(error).__name__}: {error}"
            _say(error, f"{text}\nPlease report it with the output of -v.", ctx)
            raise click.exceptions.Exit(INTERNAL_ERROR) from error


def _say(error: Exception, message: str, ctx: click.Context) -> None:
    if ctx.params.get("verbose"):
        click.echo("".join(traceback.format_exception(error)), err=True)
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(message, err=True)


@contextmanager
def _quiet(verbose: bool) -> Iterator[None]:
    """Leaves out, unless `verbose`, what torch logs and prints about a model that it refuses: the error says it."""
    if verbose:
        yield
        return
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _checked(model: str, seed: int, verbose: bool, dynamic: Sequence[str] = (), **options: Any) -> Report:
    """The report on a model file; torch is loaded here, so that `--help` is quick."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed), dynamic)
        from .engine import check

        with _quiet(verbose):
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
    """The program of a model file, in the dtypes that it has or in `dtype`."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed), dynamic)
        from ..converter import from_torch

        progress.stage("capture", None)
        arguments = user_file.module, user_file.args, user_file.kwargs
        with _quiet(verbose):
            if dtype is None:
                return from_torch(*arguments, dynamic_shapes=user_file.dynamic_shapes)
            from .engine import captured
            from .options import Options

            return captured(*arguments, user_file.dynamic_shapes, Options(dtype=dtype))


def _show(report: Report, verbose: bool) -> None:
    from rich.console import Console

    from .report import terminal

    terminal.render(report, Console(), verbose)


def _shared(function: Function) -> Function:
    """The argument and options that every command has."""
    for decorate in (
        click.option("-v", "--verbose", is_flag=True, help="Show every Cell and every failing check; tracebacks too."),
        click.option("--seed", default=0, show_default=True, help="Of torch's random numbers, before MODEL is loaded."),
        click.argument("model"),
    ):
        function = decorate(function)
    return function


@click.group(epilog=EXIT_CODES)
@click.version_option(package_name="cellbridge", prog_name="parity")
def main() -> None:
    """Judge, module by module, whether a PyTorch model survives conversion: its outputs and its gradients."""


def _judging(function: Function) -> Function:
    """The options of the commands that judge."""
    glob = "GLOB"
    for decorate in (
        click.option("--junit", "junit_file", metavar="FILE", help="Write the report as JUnit XML."),
        click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON (docs/report-schema.md)."),
        click.option("--inputs", metavar="FILE", help="Arrays by input name (.npz), for ONNX files."),
        click.option(
            "--provider",
            type=click.Choice(["cpu", "cuda"]),
            default="cpu",
            show_default=True,
            help="Where ONNX Runtime runs.",
        ),
        click.option("--fail-fast", is_flag=True, help="Stop at the first failing Cell."),
        click.option(
            "--skip", multiple=True, metavar=glob, help="Leave out Cells whose path matches; may be repeated."
        ),
        click.option(
            "--only", multiple=True, metavar=glob, help="Judge only Cells whose path matches; may be repeated."
        ),
        click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance, instead of the computed bar."),
        click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance, instead of the computed bar."),
        click.option(
            "--dtype",
            type=click.Choice(["float32", "float64", "float16", "bfloat16"]),
            default="float32",
            show_default=True,
            help="The dtype that rounding is judged in.",
        ),
        click.option("--no-grad", is_flag=True, help="Compare outputs only."),
    ):
        function = decorate(function)
    return function


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


def _finish(report: Report, verbose: bool, json_file: str | None, junit_file: str | None) -> None:
    """Write and show a report; the exit code is its verdict."""
    if json_file is not None:
        from .report import json_report

        json_report.write(report, json_file)
    if junit_file is not None:
        from .report import junit

        junit.write(report, junit_file)
    _show(report, verbose)
    raise click.exceptions.Exit(0 if report.ok else 1)


@main.command(cls=_Command, epilog=EXIT_CODES)
@click.option("--train", is_flag=True, help="Compare in train mode: batch statistics, dropout, buffer updates.")
@click.option("--round-trip", is_flag=True, help="Judge the torch modules made of the conversions too.")
@click.option(
    "--save-onnx", "onnx_file", metavar="FILE", help="Keep the ONNX model that was judged, whatever the verdict."
)
@_judging
@_shared
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
    **options: Any,
) -> None:
    """Compare MODEL in torch with its conversions, Cell by Cell.

    MODEL is path/model.py, path/model.py:factory or package.module:factory. The file defines model(), an nn.Module, and
    inputs(), a tuple of arguments or a dict of keyword arguments; optionally loss(outputs), dynamic_shapes, and cell(),
    the port of the model, which is judged too (cells and weights say which of its Cells and Parameters are which).

    Or it is an ONNX file: then the interpreter, torch and ONNX Runtime are held against each other on it.
    """
    outputs = {"--json": json_file, "--junit": junit_file, "--save-onnx": onnx_file}
    _require_outputs(outputs, {"MODEL": _file_of(model), "--inputs": inputs})
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


@main.command(cls=_Command, epilog=EXIT_CODES)
@click.argument("reference")
@click.argument("candidate")
@click.option("-v", "--verbose", is_flag=True, help="Show every Cell and every failing check; tracebacks too.")
@click.option("--seed", default=0, show_default=True, help="Of the random inputs and cotangents.")
@_judging
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

    Inputs are generated from the declared types, or taken from --inputs. Cells are compared one by one where both files
    have the same (both written by parity export, say), else the models as a whole.
    """
    read = {"REFERENCE": reference, "CANDIDATE": candidate, "--inputs": inputs}
    _require_outputs({"--json": json_file, "--junit": junit_file}, read)
    from .onnx_files import compare_onnx

    options |= {"grads": not no_grad, "model": candidate}
    with TerminalProgress() as progress:
        report = compare_onnx(reference, candidate, inputs=inputs, seed=seed, progress=progress, **options)
    _finish(report, verbose, json_file, junit_file)


@main.command(cls=_Command, epilog=EXIT_CODES)
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
@_shared
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
) -> None:
    """Convert MODEL to ONNX, and write it if parity holds.

    MODEL is as for `parity run`. Where parity fails nothing is written.
    """
    _require_outputs({"--output": output}, {"MODEL": _file_of(model)})
    if opset is not None:
        from ..converter.onnx_out import opsets

        opsets.chosen(opset)  # or it is refused, before the work starts
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
            if not report.ok:
                _show(report, verbose)
                click.echo(
                    f"error: {output} was not written, since parity fails (--no-check writes it all the same)", err=True
                )
                raise click.exceptions.Exit(1)
    click.echo(f"wrote {output}" + (", unchecked" if no_check else ""))


@main.command(cls=_Command, epilog=EXIT_CODES)
@click.option("--ir", is_flag=True, help="Print the program, op by op.")
@_shared
def inspect(model: str, seed: int, verbose: bool, ir: bool) -> None:
    """Show the Cells of MODEL as converted, their parameters and ops.

    MODEL is as for `parity run`.
    """
    from rich.console import Console

    from .report import inspection

    program = _converted(model, seed, verbose)
    if ir:
        click.echo(str(program))
    else:
        inspection.render(program, Console())


@main.command(cls=_Command, epilog=EXIT_CODES)
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
