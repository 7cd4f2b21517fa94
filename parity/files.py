"""Output files: refused before the work starts if they can't be written, and then written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from ..runtime.errors import UsageError
from ..runtime.files import put_in_place


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
        if not _is_device(target):
            with _folder_beside(target.resolve()):
                pass
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from error


def require_apart(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Raise `UsageError` if one file is to be written twice, or is read and would be overwritten.

    Args:
        outputs: what is to be written, by option.
        inputs: what is read, likewise.
    """
    taken = {_same_as(path): option for option, path in inputs.items() if path is not None}
    for option, path in outputs.items():
        if path is None or _is_device(Path(path)):
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
    """Yields where to write instead of `path`: a file of the same name in a temporary folder beside it.

    On leaving, what lies in that folder is moved into place (an ONNX model may have its tensors in a second file
    beside it); on an exception it is dropped, and `path` is as it was.

    Raises:
        UsageError: a file can't be created or moved there.
    """
    if _is_device(Path(path)):
        yield Path(path)
        return
    target = Path(path).resolve()  # a symbolic link stays one
    with _folder_beside(target) as folder:
        yield folder / target.name
        if not (folder / target.name).exists():
            raise RuntimeError(f"nothing was written for {path}")
        try:
            files = sorted(folder.iterdir(), key=lambda file: file.name == target.name)  # the named one last
            for file in files:
                if (there := target.with_name(file.name)).exists():
                    shutil.copymode(there, file)
            put_in_place(files, [target.with_name(file.name) for file in files])
        except OSError as error:
            raise UsageError(f"can't write {path}: {error.strerror}") from error


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write `text` in UTF-8; `UsageError` if that is not possible."""
    with written_whole(path) as file:
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"can't write {path}: {error.strerror}") from error


@contextmanager
def _folder_beside(target: Path) -> Iterator[Path]:
    try:
        folder = TemporaryDirectory(prefix=".parity-", dir=target.parent)
    except OSError as error:
        raise UsageError(f"can't write {target}: {error.strerror}") from error
    with folder as name:
        yield Path(name)


def _is_device(target: Path) -> bool:
    """Whether it is there and is no regular file (`/dev/null`, a pipe): such a thing is written to, never replaced."""
    return target.exists() and not target.is_file()
