"""Runs what a user wrote, and says of an exception what the user can do something about."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...runtime.errors import UsageError
from ...runtime.installed import is_installed

MAX_ERROR_LINES = 20  # lines of an exception that are shown; -v shows all


@contextmanager
def errors_shown(shown: str, when: str) -> Iterator[None]:
    """Turns whatever the block raises into a `UsageError` that shows the user's line; the exception is its cause.

    Args:
        shown: how messages call the user's file.
        when: what was being done, to go on from "model.py raised ValueError ...".
    """
    try:
        yield
    except SyntaxError as error:
        raise UsageError(_syntax_error(shown, error)) from error
    except SystemExit as error:
        raise UsageError(
            f"{shown} ended Python (sys.exit) {when}:\n{_user_line(error)}\n"
            f"What is for running it as a script belongs under: if __name__ == '__main__':"
        ) from error
    except Exception as error:
        raise UsageError(raised(shown, when, error)) from error


def raised(shown: str, when: str, error: Exception) -> str:
    """The message about an exception of the user's code."""
    text = f"{type(error).__name__}: {error}".rstrip(": ").splitlines()
    if len(text) > MAX_ERROR_LINES:
        text = [*text[:MAX_ERROR_LINES], f"... {len(text) - MAX_ERROR_LINES} more lines (-v shows them)"]
    lines = [f"{shown} raised {type(error).__name__} {when}:", _user_line(error), *(f"  {line}" for line in text)]
    if isinstance(error, ImportError) and "relative import" in str(error):
        lines.append("It is part of a package: give package.module:model, from the folder that holds the package.")
    return "\n".join(lines)


def _syntax_error(shown: str, error: SyntaxError) -> str:
    """The place, the line with a caret under the fault, and what Python says about it."""
    where = f"{_short(error.filename)}:{error.lineno}" if error.filename and error.lineno else shown
    *code, _ = traceback.format_exception_only(error)
    marked = [line.rstrip() for line in code if not line.lstrip().startswith("File ")]
    return "\n".join([f"{shown} has a syntax error:", f"  {where}: {error.msg}", *marked])


def _user_line(error: BaseException) -> str:
    return f"  {user_line(error)}"


def user_line(error: BaseException) -> str:
    """`file:line: text` of the last line of the traceback that isn't of Python, an installed package or this one."""
    own_rooms = (str(Path(__file__).parents[2] / room) for room in ("parity", "converter", "runtime"))
    foreign = ("<frozen", *(folder + os.sep for folder in own_rooms))
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(foreign) and not is_installed(f.filename)] or frames[-1:]
    return f"{_short(own[-1].filename)}:{own[-1].lineno}: {own[-1].line}"


def _short(file: str) -> str:
    """Relative to the current folder for what is inside it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
