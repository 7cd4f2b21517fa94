"""Output files: written whole or not at all, under names that nobody can guess, also where a signal ends Python."""

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
    """SIGTERM arrived while files were being written: what is temporary is removed, then Python ends by the signal."""


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the context ends well, else vanishes; `OSError`s pass."""
    with atomic_path(path) as inside, inside.open("wb") as file:
        yield file


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields where to write instead of `path`: a file of the same name in a new folder beside it.

    When the context ends well, what lies in that folder is moved to where `path` is, see `replace_files`; on an
    exception it is dropped, and `path` is as it was. A symbolic link stays one. What is there and no regular file
    (`/dev/null`, a pipe) is written to, never replaced. `OSError`s pass.
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
        files = sorted(inside.parent.iterdir(), key=lambda file: file.name == target.name)  # the named one last
        replace_files(files, [target.with_name(file.name) for file in files])


def is_device(target: Path) -> bool:
    """Whether it is there and neither a regular file nor a folder."""
    return target.exists() and not target.is_file() and not target.is_dir()


def replace_files(files: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move files to where they belong; if one can't be moved, all targets are as they were.

    The last one is the one that the others belong to. Theirs go first, then it is replaced, then the new ones come:
    whoever is stopped in between leaves it without others, but never with those of another one. Each is on the disk
    before it is seen under its name. A file that is replaced hands on its permissions. All targets are in one folder,
    and the files in another one of the same file system.
    """
    for file, target in zip(files, targets, strict=True):
        if target.exists():
            shutil.copymode(target, file)
        with file.open("rb") as written:
            os.fsync(written.fileno())
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
            if not any(file.exists() for file in files):  # all is done
                raise
            for file, target, old in zip(files, targets, before, strict=True):
                if old.exists():
                    old.replace(target)
                elif not file.exists():
                    target.unlink(missing_ok=True)
            raise
    sync_folder(targets[0].parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system knows such a thing."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that can't
            raise
    finally:
        os.close(opened)


def _second_name(file: Path, name: Path) -> None:
    """`name` for what is in `file`, which stays where it is."""
    try:
        os.link(file, name)
    except OSError:  # a file system without links
        shutil.copy2(file, name)


@contextlib.contextmanager
def clean_up_on_sigterm() -> Iterator[None]:
    """Within the context SIGTERM first removes what is temporary, and then ends Python as it always does.

    Only in the main thread, and where nobody else handles the signal.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def unwind(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one doesn't interrupt the cleaning up
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
