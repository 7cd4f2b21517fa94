"""Temporary folders beside output files, and the removal of folders that killed processes left behind.

A folder in use is locked by the process that created it, and holds the boot ID of the machine. If the lock is free and
the boot ID is the current one, the process has ended. Other folders are left alone: those of other users, those of
other machines (whose locks may be invisible here), and those that are just being created.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

PREFIX = ".cellbridge-"
OWNER = "owner"
PLACED = "placed"
REPLACED = "replaced"
BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def folder_beside(parent: Path) -> Iterator[Path]:
    """Yield a new empty folder inside `parent` that is removed at the end; remove abandoned ones as well."""
    _remove_abandoned(parent)
    folder = Path(mkdtemp(prefix=PREFIX, dir=parent))
    try:
        with _lock_folder(folder):
            inside = folder / "new"
            inside.mkdir()
            yield inside
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except BaseException:  # a signal: the rest is removed all the same
            shutil.rmtree(folder, ignore_errors=True)
            raise


def note_early_move(file: Path) -> None:
    """Note that a file moves out of a new folder of `folder_beside` before the file there that refers to it.

    If the process is killed while the other file is still there, the moved file is removed with the folder. It is
    known again by its number, time and size, whatever its new name is, which begins with the other file's name.
    """
    (file.parent.parent / PLACED).write_text(_identity(os.lstat(file)))


def note_late_removal(file: Path, old: Path) -> None:
    """Note that an old file beside the folder is to be removed once a new file of `folder_beside` is in its place.

    If the process is killed in between, the old file is removed with the folder.
    """
    (file.parent.parent / REPLACED).write_text(_identity(os.lstat(old)))


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev} {status.st_ino} {status.st_mtime_ns} {status.st_size}"


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, and write the boot ID into it."""
    boot = _boot_id()
    lock = _try_lock(folder) if boot else None
    if lock is not None:
        (folder / OWNER).write_text(boot)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes that have ended, if possible."""
    boot = _boot_id()
    if not boot:
        return
    with os.scandir(parent) as entries:
        folders = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX)]
    for folder in folders:
        lock = _try_lock(folder)
        if lock is None:
            continue
        try:
            is_ours = os.fstat(lock).st_uid == os.geteuid()
            if is_ours and stat.S_IMODE(os.fstat(lock).st_mode) == 0o700 and _read_small_file(folder / OWNER) == boot:
                _remove_placed(folder, parent)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _remove_placed(folder: Path, parent: Path) -> None:
    """Remove the file that an abandoned folder leaves useless.

    This is the file that has moved from it early, if the file that needs it is still there; else the file that the
    moved ones replace.
    """
    with contextlib.suppress(OSError):
        waiting = tuple(f"{file.name}." for file in (folder / "new").iterdir() if file.is_file())
        useless = _read_small_file(folder / (PLACED if waiting else REPLACED))
        for beside in parent.iterdir() if useless else ():
            if beside.name.startswith(waiting or "") and _identity(os.lstat(beside)) == useless:
                beside.unlink()


def _try_lock(folder: Path) -> int | None:
    """Open and lock the folder; return None if another process has the lock, or there is no lock or folder."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def _boot_id() -> str:
    """Return an ID of this boot of this machine; empty if the system provides none."""
    return _read_small_file(BOOT)


def _read_small_file(file: Path) -> str:
    """Return the contents of a small regular file; empty if there is none."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, AttributeError):  # Windows has no such flags
        return ""
    try:
        return os.read(opened, 100).decode(errors="replace") if stat.S_ISREG(os.fstat(opened).st_mode) else ""
    except OSError:
        return ""
    finally:
        os.close(opened)
