"""Common parts of the subcommands of `parity`: options, exit codes and error messages."""

from __future__ import annotations

import errno
import functools
import io
import logging
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.storage.files import clean_up_on_sigterm
from ..dtypes import WORKING_DTYPES
from ..options import OptionKeywords
from ..report.formats import FORMATS
from ..report.layout import echo
from ..support.deadline import STOPPED, OutOfTime, deadline
from ..support.process import tuned_process

EXIT_CODES = """\b
Exit codes:
  0    parity holds (or the command succeeded)
  1    parity fails
  2    the command line or the model file is wrong, or there was too little
       time (--timeout) or memory
  3    the model can't be converted
  4    nothing fails, but parity can't be judged: gradients of the reference
       itself are wrong, what is computed has no digits, or outputs of the
       network were not compared
  70   a bug in parity itself: please report it
  130  interrupted (Ctrl-C)
  141  the reader of the output has closed it (parity ... | head)
"""
NOT_KNOWN = 4
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
OUT_OF_MEMORY = 2
INTERRUPTED = 130  # 128 + SIGINT, as in shells
UNREAD = 141  # 128 + SIGPIPE

COMMAND_LINE = f"{__name__}.arguments"  # in the context's `meta`

Function = TypeVar("Function", bound=Callable[..., Any])


class Command(click.Command):
    """A command that reports errors as a message on stderr and an exit code; `-v` adds the traceback.

    `--timeout` stops it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        positive = click.FloatRange(min=0, min_open=True)
        self.params.append(
            click.Option(["--timeout"], type=positive, metavar="SECONDS", help="Stop the command after this time.")
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, and keep it for `command_with`."""
        ctx.meta[COMMAND_LINE] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and turn exceptions into messages."""
        from .project_options import say_options

        say_options(ctx)
        try:
            with clean_up_on_sigterm(), tuned_process(), deadline(ctx.params.pop("timeout")):
                return super().invoke(ctx)
        except OutOfTime as error:
            say_error(error, str(error), ctx)
            raise click.exceptions.Exit(STOPPED) from error
        except CellbridgeError as error:
            say_error(error, str(error), ctx)
            raise click.exceptions.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            echo("interrupted; no file was left half-written", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from error
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except SystemExit as error:
            if isinstance(error.__context__, BrokenPipeError):
                raise  # rich ends Python if its output has no reader
            echo(f"error: the model ended Python (sys.exit) while it ran: {error}", err=True)
            raise click.exceptions.Exit(2) from error
        except Exception as error:
            if lacks_memory(error):
                say_error(error, _too_little_memory(error), ctx)
                raise click.exceptions.Exit(OUT_OF_MEMORY) from error
            if isinstance(error, OSError) and error.filename is not None:
                say_error(error, f"can't use {error.filename}: {error.strerror}", ctx)
                raise click.exceptions.Exit(2) from error
            text = f"this is a bug in parity, not in your model: {type(error).__name__}: {error}"
            say_error(error, f"{text}\nPlease report it with the output of -v.", ctx)
            raise click.exceptions.Exit(INTERNAL_ERROR) from error


def command_with(*options: str, without: str = "") -> str:
    """Return the running command as the user gave it, ready to be pasted into a shell.

    Args:
        options: options to add.
        without: an option to leave out with its value.
    """
    ctx = click.get_current_context()
    given: list[str] = [word for word in ctx.meta[COMMAND_LINE] if not word.startswith(f"{without}=")]
    if without in given:
        place = given.index(without)
        del given[place : place + 2]
    arguments = [*options, *given] if "--" in given else [*given, *options]
    return shlex.join(["parity", str(ctx.info_name), *arguments])


class OutputError(click.ClickException):
    """The output of a command can't be written."""

    exit_code = 2


class Group(click.Group):
    """A group of commands whose output may be closed, at the start or while they run."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line; the output of `--help` may have no reader."""
        _open_standard_streams()
        with _closed_pipe_is_no_error():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; the exit code is `UNREAD` if stdout or stderr has no reader."""
        from .project_options import load_project_options

        with _closed_pipe_is_no_error():
            try:
                load_project_options(self, ctx)
            except UsageError as error:
                say_error(error, str(error), ctx)
                raise click.exceptions.Exit(error.exit_code) from error
            return super().invoke(ctx)


@contextmanager
def _closed_pipe_is_no_error() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, SystemExit) as error:
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.__stdout__, sys.__stderr__):  # their buffers have no reader either
            if stream is not None:
                os.dup2(nowhere, stream.fileno())
        raise click.exceptions.Exit(UNREAD) from error
    except OSError as error:
        raise OutputError(f"can't write the output: {error.strerror or error}") from error


def _open_standard_streams() -> None:
    """Redirect stdout and stderr to nowhere if they are closed (`>&-`), so that no file gets their descriptors."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open as long as Python runs


def say_error(error: BaseException, message: str, ctx: click.Context) -> None:
    """Print the message of an error on stderr; with `-v`, its traceback too."""
    if ctx.params.get("verbose"):
        echo("".join(traceback.format_exception(error)), err=True)
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    echo(message, err=True)


def lacks_memory(error: BaseException) -> bool:
    """Whether an exception reports a lack of memory, or of address space for a thread or library."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    texts = ("can't start new thread", "can't allocate memory", "annot allocate memory", "failed to map segment")
    return isinstance(error, (RuntimeError, ImportError, OSError)) and any(text in str(error) for text in texts)


def _too_little_memory(error: BaseException) -> str:
    from ...runtime.memory import memory_size, size_in_words

    detail = str(error).partition("\n")[0]
    return (
        f"there is too little memory{f': {detail}' if detail else ''}; this process may use "
        f"{size_in_words(memory_size())}\n"
        "  what to do: allow it more (ulimit -v, the container's limit), or use smaller inputs"
    )


@contextmanager
def quiet(verbose: bool) -> Iterator[None]:
    """Suppress, unless `verbose`, torch's logs and output about a refused model: the error has the message."""
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


def common_options(function: Function) -> Function:
    """Add the argument MODEL, and the options that all commands have."""
    return options_of_all(click.argument("model")(function))


def options_of_all(function: Function) -> Function:
    """Add the options that all commands have."""
    for decorate in (
        click.option("-v", "--verbose", is_flag=True, help="Show every Cell and every failing check; tracebacks too."),
        click.option(
            "--seed", default=0, show_default=True, help="Seed of torch's random numbers, set before MODEL is loaded."
        ),
    ):
        function = decorate(function)
    return function


mode_option = click.option(
    "--train/--eval", default=None, help="Run in train or in eval mode; by default as parity run does."
)
computing_dtype_option = click.option(
    "--dtype",
    type=click.Choice(list(WORKING_DTYPES)),
    default="float32",
    show_default=True,
    help="The dtype that the network computes in.",
)

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_size(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Parse `4GB`."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?(B|KB|MB|GB|TB)?", text.strip().upper())
    if match is None:
        raise click.BadParameter(f"needed a size such as 500MB or 4GB, given {text!r}", ctx, parameter)
    return int(float(match[1]) * _UNITS[match[2] or "B"])


memory_option = click.option(
    "--memory",
    metavar="SIZE",
    callback=parse_size,
    help="Judge a model that is larger than this (8GB) in parts, one after another, so that the process takes no more; "
    "its weights may stay in safetensors files, which the file names as checkpoint (docs/howto/large.md).",
)

NOTHING = "none"


def _parse_shapes(
    ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, tuple[int, ...] | None]:
    """Parse `--shape`, which excludes `--inputs`; None for an empty optional."""
    shapes: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        parts = [size.strip() for size in sizes.split(",")] if sizes.strip() not in ("", NOTHING) else []
        if not equals or not name or not all(re.fullmatch("[0-9]{1,18}", part) for part in parts):
            raise click.BadParameter(f"needed NAME=SIZES, such as x=1,3,96,128; given {text!r}", ctx, parameter)
        if name in shapes:
            raise click.BadParameter(f"{name!r} is given twice", ctx, parameter)
        shapes[name] = None if sizes.strip() == NOTHING else tuple(map(int, parts))
    if shapes and ctx.params.get("inputs"):
        raise click.BadParameter("can't be combined with --inputs, whose arrays have shapes already", ctx, parameter)
    return shapes


shapes_option = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=SIZES",
    callback=_parse_shapes,
    help="Shape of an input of an ONNX file: x=1,3,96,128; for an item of a sequence, s[0]=2,3. x=none omits an "
    "optional input. May be repeated.",
)


@dataclass(frozen=True)
class JudgingOptions:
    """The command line's options for judging and for report files.

    Attributes:
        options: fields of `Options`.
        inputs: the file of arrays for an ONNX file.
        shapes: shapes of generated inputs of an ONNX file, by name.
        files: paths of the report by format; None for formats not requested.
        repro: the folder for reproductions of failures, if they are requested.
    """

    options: OptionKeywords
    inputs: str | None
    shapes: dict[str, tuple[int, ...] | None]
    files: dict[str, str | None]
    repro: str | None

    @property
    def inputs_option(self) -> str | None:
        """The option for an ONNX file's inputs, if there is one; a model file defines its inputs itself."""
        return "--inputs" if self.inputs is not None else "--shape" if self.shapes else None


def probe_option(*, default: bool | None) -> Callable[[Function], Function]:
    """Return the decorator that adds `--probe`; without a default, what is compared decides."""
    return click.option(
        "--probe/--no-probe",
        default=default,
        show_default="probe where two networks are compared" if default is None else True,
        help="If everything agrees, compare on further inputs too, derived from the given ones: other values, "
        "masks, sizes, and calls in a row. It takes about as long again, or up to 10 s.",
    )


repro_option = click.option(
    "--repro",
    metavar="DIR",
    help="Write a minimal script for each failure, with its tensors and a README, to this new folder.",
)
diagnose_option = click.option(
    "--diagnose-seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Cut the search for the causes of failures after this time; 0 for none. It is bounded by what it computes, "
    "and the report says if it was cut. Default: 600 s.",
)


def require_causes_for_repro(repro: str | None, diagnose_seconds: float | None) -> None:
    """Raise `UsageError` for a reproduction of causes that aren't looked for."""
    if repro is not None and diagnose_seconds == 0:
        raise UsageError("--repro reproduces causes, which --diagnose-seconds 0 doesn't look for: leave one out")


def judging_options(function: Function) -> Function:
    """Add the options for judging, which the command gets as one `JudgingOptions`."""

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        take = values.pop
        options: OptionKeywords = {
            "grads": not take("no_grad"),
            "dtype": take("dtype"),
            "rtol": take("rtol"),
            "atol": take("atol"),
            "only": take("only"),
            "skip": take("skip"),
            "fail_fast": take("fail_fast"),
            "diagnose_seconds": take("diagnose_seconds"),
            "provider": take("provider"),
            "strict": take("strict"),
        }
        if options["provider"] != "cpu":  # it is asked for before MODEL is loaded
            from ...runtime.compiled.session import choose_provider

            choose_provider(options["provider"])
        if (probe := take("probe")) is not None:
            options["probe"] = probe
        files = {name: take(f"{name}_file") for name in FORMATS}
        judging = JudgingOptions(options, take("inputs"), take("shapes"), files, take("repro"))
        require_causes_for_repro(judging.repro, options["diagnose_seconds"])
        return function(judging=judging, **values)

    decorated: Any = command
    glob = "GLOB"
    for decorate in (
        repro_option,
        *(
            click.option(f"--{name}", f"{name}_file", metavar="FILE", help=FORMATS[name].help)
            for name in reversed(FORMATS)
        ),
        shapes_option,
        click.option("--inputs", metavar="FILE", is_eager=True, help="Arrays by input name (.npz), for ONNX files."),
        click.option(
            "--provider",
            metavar="|".join(["cpu", "cuda", "tensorrt", "openvino", "..."]),
            default="cpu",
            show_default=True,
            help="ONNX Runtime's execution provider: any that the installed one has.",
        ),
        diagnose_option,
        probe_option(default=None),
        click.option("--strict", is_flag=True, help="Fail if the sides are divided into Cells differently, too."),
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
            type=click.Choice(list(WORKING_DTYPES)),
            default="float32",
            show_default=True,
            help="The dtype that rounding is judged in.",
        ),
        click.option("--no-grad", is_flag=True, help="Compare outputs only."),
    ):
        decorated = decorate(decorated)
    result: Function = decorated
    return result
