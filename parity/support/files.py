"""Output files: refused before the work starts if they can't be written, and then written whole or not at all."""

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
            raise UsageError(f"can't write {path}: the file is there and may not be changed")
        if not files.is_device(target):
            with folder_beside(target.resolve().parent) as folder:
                (folder / target.name).touch()  # or the name is too long
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"can't write {path}: {error}") from error


def require_apart(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Raise `UsageError` if one file is to be written twice, or is read and would be overwritten.

    Args:
        outputs: what is to be written, by option.
        inputs: what is read, likewise.
    """
    taken = {_same_as(path): option for option, path in inputs.items() if path is not None}
    for option, path in outputs.items():
        if path is None or files.is_device(Path(path)):
            continue
        if (other := taken.setdefault(_same_as(path), option)) != option:
            raise UsageError(f"{other} and {option} are one file, {path}: give {option} another name")


def _same_as(path: str) -> object:
    """What is equal for two paths of one file: links are followed."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


@contextmanager
def written_whole(path: str | PathLike[str]) -> Iterator[Path]:
    """As `runtime.files.atomic_path`, with `UsageError` where a file can't be created or moved there."""
    with _placed(path, files.atomic_path(path)) as inside:
        yield inside


@contextmanager
def written_model(path: str | PathLike[str]) -> Iterator[Path]:
    """As `written_whole`, for an ONNX model that may have its tensors in a second file beside it."""
    from ...runtime.lowering.external_data import place_model

    with _placed(path, place_model(path)) as inside:
        yield inside


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write `text` in UTF-8; `UsageError` if that is not possible."""
    with written_whole(path) as file, _refused(path):
        file.write_text(text, encoding="utf-8")


def write_bytes(path: str | PathLike[str], content: bytes) -> None:
    """Write a file; `UsageError` if that is not possible."""
    with written_whole(path) as file, _refused(path):
        file.write_bytes(content)


@contextmanager
def _placed(path: str | PathLike[str], place: AbstractContextManager[Path]) -> Iterator[Path]:
    """`place`, whose own `OSError`s are refusals; those of the block are not."""
    with _refused(path):
        inside = place.__enter__()
    try:
        yield inside
    except BaseException:
        place.__exit__(*sys.exc_info())
        raise
    with _refused(path):
        place.__exit__(None, None, None)


@contextmanager
def _refused(path: str | PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error
