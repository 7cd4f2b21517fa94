"""Output files: checked before the work starts, and then written completely or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path

from ...runtime.errors import UsageError
from ...runtime.storage import files
from ...runtime.storage.temporary import folder_beside


def require_writable(path: str | PathLike[str]) -> None:
    """Raise `UsageError` unless a file can be written at `path`; leaves nothing behind."""
    target = Path(path)
    try:
        if target.is_dir():
            raise UsageError(f"can't write {path}: it is a folder; give the name of a file")
        if not target.parent.is_dir():
            raise UsageError(f"can't write {path}: there is no folder {target.parent}; create it first")
        if target.exists() and not os.access(target, os.W_OK):
            raise UsageError(f"can't write {path}: the file exists and isn't writable")
        if not files.is_device(target):
            with folder_beside(target.resolve().parent) as folder:
                (folder / target.name).touch()  # fails if the name is too long
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"can't write {path}: {error}") from error


def require_new_folder(path: str | PathLike[str]) -> None:
    """Raise `UsageError` unless a folder can be made at `path`, or is there and empty; leaves nothing behind."""
    if "\0" in os.fspath(path):
        raise UsageError(f"can't write {path}: there is a NUL in its name")
    with _as_usage_errors(path):
        target = Path(os.path.realpath(path))
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            what = "folder isn't empty" if target.is_dir() else "name is taken by a file"
            raise UsageError(f"can't write {path}: the {what}; give the name of a new folder")
        if not target.parent.is_dir():
            raise UsageError(f"can't write {path}: there is no folder {target.parent}; create it first")
        with folder_beside(target.parent) as folder:
            (folder / target.name).mkdir()  # fails if the name is too long


@contextmanager
def new_folder(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield an empty folder that gets the name `path` if the context succeeds and there is something in it.

    Raises:
        UsageError: something is at `path`, other than an empty folder, or the folder can't be made there.
    """
    require_new_folder(path)
    target = Path(os.path.realpath(path))
    with _enter_with_usage_errors(path, folder_beside(target.parent)) as folder:
        yield folder
        if any(folder.iterdir()):
            with _as_usage_errors(path):
                if target.exists():
                    target.rmdir()
                folder.rename(target)
                files.sync_folder(target.parent)


def make_folder(path: str | PathLike[str]) -> None:
    """Make a folder and those around it, unless it is there; raise `UsageError` if that fails."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise UsageError(f"can't write {path}: it is a file; give the name of a folder")
    with _as_usage_errors(path):
        Path(path).mkdir(parents=True, exist_ok=True)


def require_apart(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Raise `UsageError` if a file would be written twice, or an input overwritten.

    Args:
        outputs: paths to write, by option.
        inputs: paths to read, by option.
    """
    option_of = {_same_as(path): option for option, path in inputs.items() if path is not None}
    for option, path in outputs.items():
        if path is None or files.is_device(Path(path)):
            continue
        if (other := option_of.setdefault(_same_as(path), option)) != option:
            raise UsageError(f"{other} and {option} are the same file, {path}: give {option} another name")


def _same_as(path: str) -> object:
    """Return a key that is equal for two paths of the same file; links are followed."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


@contextmanager
def atomic_path(path: str | PathLike[str]) -> Iterator[Path]:
    """Like `runtime.storage.files.atomic_path`, but raise `UsageError` if the file can't be created or moved."""
    with _enter_with_usage_errors(path, files.atomic_path(path)) as inside:
        yield inside


@contextmanager
def atomic_model_path(path: str | PathLike[str]) -> Iterator[Path]:
    """Like `atomic_path`, for an ONNX model that may have its tensors in a second file beside it."""
    from ...runtime.lowering.external_data import place_model

    with _enter_with_usage_errors(path, place_model(path)) as inside:
        yield inside


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write `text` in UTF-8; raise `UsageError` if that fails."""
    with atomic_path(path) as file, _as_usage_errors(path):
        file.write_text(text, encoding="utf-8")


def write_in_folder(folder: str | PathLike[str], name: str, content: str | bytes) -> None:
    """Write a file of a folder that others may write to, too: a link of its name is replaced, and not followed.

    Raises:
        UsageError: that fails.
    """
    target = Path(folder) / name
    with _as_usage_errors(target), folder_beside(Path(folder)) as beside:
        inside = beside / name
        inside.write_bytes(content.encode() if isinstance(content, str) else content)
        inside.replace(target)


def write_bytes(path: str | PathLike[str], content: bytes) -> None:
    """Write a file; raise `UsageError` if that fails."""
    with atomic_path(path) as file, _as_usage_errors(path):
        file.write_bytes(content)


@contextmanager
def _enter_with_usage_errors(path: str | PathLike[str], context: AbstractContextManager[Path]) -> Iterator[Path]:
    """Enter `context`, turning its own `OSError`s into `UsageError`s, but not those of the block."""
    with _as_usage_errors(path):
        inside = context.__enter__()
    try:
        yield inside
    except BaseException:
        context.__exit__(*sys.exc_info())
        raise
    with _as_usage_errors(path):
        context.__exit__(None, None, None)


@contextmanager
def _as_usage_errors(path: str | PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error
