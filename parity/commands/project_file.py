"""`read_project_file`: the pyproject.toml of the user's project, which may be a stranger's, as data."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name, visible_text
from ..report.layout import echo

NAME = "pyproject.toml"
LARGEST = 2**18
"""The most bytes that the file may have."""
MAX_DOTS = 1000
"""The most dots in a line: reading the key `a.a.a...` takes time and memory by the square of its parts."""


def read_project_file(start: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the nearest pyproject.toml, from a folder up to the root of its repository, and what it says.

    The root is the first folder with `.git`; outside a repository, the folder itself alone is looked at. A file that
    another user may have put there, or that lies elsewhere, is ignored with a line on stderr that says so.

    Raises:
        UsageError: the file can't be read, or isn't TOML.
    """
    folders = list(_folders_of_repository(start))
    for folder in folders:
        file = folder / NAME
        if not os.path.lexists(file):
            continue
        if reason := _distrusted(file, folders[-1]):
            shown = visible_name(str(file))
            echo(f"note: {shown} is ignored: {reason}; what it says can be given on the command line", err=True)
            continue
        return file, _content(file)
    return None


def project_root(start: Path) -> Path:
    """Return the root of the repository that a folder is in; outside one, the folder itself."""
    return list(_folders_of_repository(start))[-1]


def _folders_of_repository(start: Path) -> Iterator[Path]:
    """Yield a folder and those above it, up to the root of its repository; outside one, the folder alone."""
    folders = [start, *start.parents]
    root = next((i for i, folder in enumerate(folders) if _is_users(folder) and _is_users(folder / ".git")), 0)
    yield from folders[: root + 1]


def _is_users(path: Path) -> bool:
    """Whether a file or folder, and what it leads to if it is a link, belongs to the user; always on Windows."""
    getuid = getattr(os, "getuid", None)
    try:
        return getuid is None or {path.lstat().st_uid, path.stat().st_uid} == {getuid()}
    except OSError:
        return False


def _distrusted(file: Path, root: Path) -> str:
    """Why a file isn't read; empty if it is."""
    try:
        kind = file.stat().st_mode
    except OSError as error:
        return error.strerror or "it can't be read"
    if not stat.S_ISREG(kind):
        return "it isn't a file"
    if not _is_users(file.parent) or not _is_users(file):
        return "it, or its folder, belongs to another user"
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
        return "it is a link that leads out of the project"
    return ""


def _content(file: Path) -> dict[str, Any]:
    shown = visible_name(str(file))
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageError(f"{shown} has more than {LARGEST} bytes: options of parity can't be read from it")
        if any(line.count(b".") > MAX_DOTS for line in content.splitlines()):
            raise UsageError(f"{shown} has a line with more than {MAX_DOTS} dots: options of parity can't be read")
        return tomllib.loads(content.decode())
    except RecursionError as error:
        raise UsageError(f"{shown} can't be read: its values are nested too deeply") from error
    except ValueError as error:  # of TOML, of UTF-8, of numbers
        raise UsageError(f"{shown}: {visible_text(str(error))[:200]}") from error
    except OSError as error:
        raise UsageError(f"{shown} can't be read: {error.strerror}") from error
