"""Common parts of the subcommands of `parity`: help, exit codes and error messages."""

from __future__ import annotations

import difflib
import errno
import io
import logging
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import IO, Any

import click

from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.storage.files import clean_up_on_sigterm
from ..report.layout import echo
from ..support.colors import colors, wanted_colors
from ..support.deadline import STOPPED, OutOfTime, deadline
from ..support.process import tuned_process
from .arguments.declaring import take_groups
from .arguments.groups import Colors, Timeout
from .arguments.help import Context, write_options
from .arguments.refusing import refuse_combinations

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
_EXIT_CODES_IN_SHORT = (
    "Exit codes: 0 parity holds, or the command succeeded; 1 parity fails; 2 wrong use; 3 the model can't be "
    "converted; 4 parity can't be judged. parity -h lists all."
)
NOT_KNOWN = 4
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
OUT_OF_MEMORY = 2
INTERRUPTED = 130  # 128 + SIGINT, as in shells
UNREAD = 141  # 128 + SIGPIPE

PLAINER = {
    r"^Option '(\S+)' requires an argument$": r"\1 needs a value",
    r"^Got unexpected extra arguments? \((.*)\)$": r"unexpected argument: \1",
    r"\. Did you mean '(\S+)'\?$": r"; did you mean \1?",
    r"is not a valid float( range)?$": "isn't a number",
    r"is not a valid integer( range)?$": "isn't a whole number",
    r": (\S+) is not in the range x>=(\S+)$": r": needed at least \2, given \1",
    r": (\S+) is not in the range x>(\S+)$": r": needed more than \2, given \1",
    r": (\S+) is not in the range (\S+)<=x<=(\S+)$": r": needed \2 to \3, given \1",
}
"""What click says of a wrong command line, and what is said in its place."""
COMMAND_LINE = f"{__name__}.arguments"  # in the context's `meta`
HELP = {"help_option_names": ["-h", "--help"]}


class Command(click.Command):
    """A command that reports errors as a message on stderr and an exit code; `-v` adds the traceback.

    `--timeout` stops it. Options that can't be combined are refused before it runs.
    """

    context_class = Context

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(name, **({"context_settings": HELP, "epilog": _EXIT_CODES_IN_SHORT} | attributes))
        self.params += [*Colors.options(), *Timeout.options()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the titles of their groups."""
        write_options(self.get_params(ctx), ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, and keep it for `command_with`."""
        ctx.meta[COMMAND_LINE] = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # of which click says nothing where an option has no value
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and turn exceptions into messages."""
        with colors(ctx.params.pop("color")):
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        from .project_options import say_options

        try:
            without_effect = refuse_combinations(ctx)
            say_options(ctx, without_effect)
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


def command_with(*options: str, without: Sequence[str] = ()) -> str:
    """Return the running command as the user gave it, ready to be pasted into a shell.

    Args:
        options: options to add.
        without: options to leave out with their values.
    """
    ctx = click.get_current_context()
    words: list[str] = list(ctx.meta[COMMAND_LINE])
    for option in without:
        words = [word for word in words if not word.startswith(f"{option}=")]
        if option in words:
            index = words.index(option)
            del words[index : index + 2]
    arguments = [*options, *words] if "--" in words else [*words, *options]
    return shlex.join(["parity", str(ctx.info_name), *arguments])


def command(name: str, cls: type[Command] = Command) -> Callable[[Callable[..., Any]], Command]:
    """Return the decorator that makes a function a command.

    Parameters that are annotated with a group of options get what the command line gives of them.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        of_options, options = take_groups(function)
        decorated = click.command(name, cls=cls)(of_options)
        decorated.params += options
        return decorated

    return decorate


class OutputError(click.ClickException):
    """The output of a command can't be written."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message as those of all other errors."""
        _print_error(self.message)


class Group(click.Group):
    """A group of commands whose output may be closed, at the start or while they run.

    Attributes:
        sections: commands by the titles under which they are listed.
        aliases: names of commands by other names of two words.
    """

    context_class = Context

    def __init__(
        self, *args: Any, sections: Mapping[str, Sequence[Command]], aliases: Mapping[str, str], **attributes: Any
    ) -> None:
        super().__init__(*args, context_settings=HELP, epilog=EXIT_CODES, **attributes)
        self.sections, self.aliases = sections, aliases
        for command in (command for commands in sections.values() for command in commands):
            self.add_command(command)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by their titles, and then the options."""
        width = max(len(name) for name in self.commands)
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(str(command.name).ljust(width), command.get_short_help_str(limit=67)) for command in commands]
                )
        click.Command.format_options(self, ctx, formatter)

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> click.Context:
        """Parse the command line; the output of `--help` may have no reader."""
        _open_standard_streams()
        with colors(_asked_color(args)), _closed_pipe_is_no_error(), _say_wrong_use():
            return super().make_context(info_name, args, *rest, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, and keep it for errors before its command has parsed its own part."""
        ctx.meta[COMMAND_LINE] = list(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first words name, and the words behind its name."""
        name = self.aliases.get(" ".join(args[:2]))
        return super().resolve_command(ctx, args if name is None else [name, *args[2:]])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; the exit code is `UNREAD` if stdout or stderr has no reader."""
        from .project_options import load_project_options

        with colors(_asked_color(ctx.meta[COMMAND_LINE])), _closed_pipe_is_no_error():
            try:
                load_project_options(self, ctx)
            except UsageError as error:
                say_error(error, str(error), ctx)
                raise click.exceptions.Exit(error.exit_code) from error
            with _say_wrong_use():
                return super().invoke(ctx)


def _asked_color(words: Sequence[str]) -> str | None:
    """Return what a command line says of colors, which may be wrong in other respects."""
    asked = None
    for place, word in enumerate(words):
        if word == "--color":
            asked = next(iter(words[place + 1 :]), None)
        elif word.startswith("--color="):
            asked = word.partition("=")[2]
    return asked


@contextmanager
def _say_wrong_use() -> Iterator[None]:
    """Print what click says about a wrong command line in one line, as all other errors are printed."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        ctx = error.ctx or click.get_current_context()
        say_error(error, f"{_wrong_use(error, ctx)}\n  {ctx.command_path} -h shows what it takes", ctx)
        raise click.exceptions.Exit(error.exit_code) from error


def _wrong_use(error: click.UsageError, ctx: click.Context) -> str:
    if isinstance(error, click.NoSuchOption):
        options = [name for parameter in ctx.command.get_params(ctx) for name in parameter.opts]
        close = difflib.get_close_matches(error.option_name, options, n=1, cutoff=0.75)
        return f"no such option: {error.option_name}{f'; did you mean {close[0]}?' if close else ''}"
    message = error.format_message().removesuffix(".")
    for of_click, plain in PLAINER.items():
        message = re.sub(of_click, plain, message)
    return message[:1].lower() + message[1:]


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
    _print_error(message)


def _print_error(message: str) -> None:
    click.secho("error: ", fg="red", bold=True, nl=False, err=True, color=wanted_colors())
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
