"""Runs users' code, and reports its exceptions with the user's line."""

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
def report_user_errors(label: str, when: str) -> Iterator[None]:
    """Turn any exception of the block into a `UsageError` that shows the user's line, with the exception as its cause.

    Args:
        label: name of the user's file in messages.
        when: continues the message "model.py raised ValueError ...".
    """
    try:
        yield
    except SyntaxError as error:
        raise UsageError(_syntax_error(label, error)) from error
    except SystemExit as error:
        raise UsageError(
            f"{label} ended Python (sys.exit) {when}:\n{_user_line(error)}\n"
            f"Put code that runs only as a script under: if __name__ == '__main__':"
        ) from error
    except Exception as error:
        raise UsageError(format_user_error(label, when, error)) from error


def format_user_error(label: str, when: str, error: Exception) -> str:
    """Return the message about an exception of the user's code."""
    text = f"{type(error).__name__}: {error}".rstrip(": ").splitlines()
    if len(text) > MAX_ERROR_LINES:
        text = [*text[:MAX_ERROR_LINES], f"... {len(text) - MAX_ERROR_LINES} more lines (-v shows them)"]
    lines = [f"{label} raised {type(error).__name__} {when}:", _user_line(error), *(f"  {line}" for line in text)]
    if isinstance(error, ImportError) and "relative import" in str(error):
        lines.append("It is part of a package: give package.module:model, from the folder that holds the package.")
    return "\n".join(lines)


def _syntax_error(label: str, error: SyntaxError) -> str:
    """Return the message about a syntax error: place, line with a caret, and Python's message."""
    where = f"{_short(error.filename)}:{error.lineno}" if error.filename and error.lineno else label
    *code, _ = traceback.format_exception_only(error)
    code_lines = [line.rstrip() for line in code if not line.lstrip().startswith("File ")]
    return "\n".join([f"{label} has a syntax error:", f"  {where}: {error.msg}", *code_lines])


def _user_line(error: BaseException) -> str:
    return f"  {user_line(error)}"


def user_line(error: BaseException) -> str:
    """Return `file:line: text` of the last traceback line outside Python, installed packages and this package."""
    frames = traceback.extract_tb(error.__traceback__)
    return _format_line(([f for f in frames if _is_users(f.filename)] or frames[-1:])[-1])


def calling_line() -> str:
    """Return `file:line: text` of the innermost running line that `user_line` would take; empty if there is none."""
    lines = [f for f in traceback.extract_stack() if _is_users(f.filename)]
    return _format_line(lines[-1]) if lines else ""


def _is_users(file: str) -> bool:
    """Whether a file is neither Python's, nor an installed package's, nor ours."""
    own_rooms = (str(Path(__file__).parents[2] / room) for room in ("parity", "converter", "runtime"))
    return not file.startswith(("<frozen", *(folder + os.sep for folder in own_rooms))) and not is_installed(file)


def _format_line(frame: traceback.FrameSummary) -> str:
    return f"{_short(frame.filename)}:{frame.lineno}: {frame.line}"


def _short(file: str) -> str:
    """Return the path relative to the current folder, if it is inside."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
