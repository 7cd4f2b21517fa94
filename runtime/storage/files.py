"""Atomic writing of output files, through temporary files with unpredictable names, even if a signal ends Python."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from .temporary import folder_beside


class Terminated(BaseException):
    """SIGTERM arrived during a write: temporary files are removed, then Python ends by the signal."""


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `path` if the context succeeds, and is removed if it fails.

    `OSError`s are raised as they are.
    """
    with atomic_path(path) as inside, inside.open("wb") as file:
        yield file


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to instead of `path`: a file of the same name in a new folder beside it.

    If the context succeeds, the files in that folder are moved to the folder of `path`, see `replace_files`; on an
    exception they are removed, and `path` is unchanged. A symbolic link is kept. Anything other than a regular file
    (`/dev/null`, a pipe) is written to, never replaced. `OSError`s are raised as they are.
    """
    target = Path(path)
    if not target.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if is_device(target):
        yield target
        return
    target = Path(os.path.realpath(target))
    with clean_up_on_sigterm(), folder_beside(target.parent) as folder:
        inside = folder / target.name
        yield inside
        if not inside.exists():
            raise RuntimeError(f"nothing was written for {path}")
        files = sorted(inside.parent.iterdir(), key=lambda file: file.name == target.name)  # `target` last
        replace_files(files, [target.with_name(file.name) for file in files])


def is_device(target: Path) -> bool:
    """Whether `target` exists and is neither a regular file nor a folder."""
    return target.exists() and not target.is_file() and not target.is_dir()


def replace_files(files: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move files to their targets; if one can't be moved, restore all targets.

    The last file is the main one, to which the others belong. First the old other files are removed, then the main file
    is replaced, then the new other files are moved: an interruption may leave the main file without the others, but
    never with those of another main file. Each file is on the disk before it gets its name. A new file inherits
    the permissions of the one that it replaces. All targets are in one folder, and the files in another one on the same
    file system.
    """
    for file, target in zip(files, targets, strict=True):
        if target.exists():
            shutil.copymode(target, file)
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    with TemporaryDirectory(prefix="before-", dir=files[0].parent) as folder:
        before = [Path(folder) / target.name for target in targets]
        try:
            for target, old in zip(targets[:-1], before[:-1], strict=True):
                if target.exists():
                    target.replace(old)
            if len(files) > 1 and targets[-1].exists():
                _second_name(targets[-1], before[-1])
            for file, target in zip(reversed(files), reversed(targets), strict=True):
                file.replace(target)
        except BaseException:
            if not any(file.exists() for file in files):  # all files were moved
                raise
            for file, target, old in zip(files, targets, before, strict=True):
                if old.exists():
                    old.replace(target)
                elif not file.exists():
                    target.unlink(missing_ok=True)
            raise
    sync_folder(targets[0].parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, if the system supports that."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without support
            raise
    finally:
        os.close(opened)


def _second_name(file: Path, name: Path) -> None:
    """Give the contents of `file` a second name, `name`."""
    try:
        os.link(file, name)
    except OSError:  # a file system without links
        shutil.copy2(file, name)


@contextlib.contextmanager
def clean_up_on_sigterm() -> Iterator[None]:
    """Within the context, SIGTERM removes temporary files before it ends Python.

    This has an effect only in the main thread, and if there is no other handler of the signal.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def unwind(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that a second one doesn't interrupt the cleanup
        raise Terminated

    signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    except Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
