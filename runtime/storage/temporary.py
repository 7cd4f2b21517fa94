"""New folders beside what is written, and the removal of those that a process left which was killed.

A folder in use is locked by the process that made it. Where the lock of a folder is free, and it is written in it
that it was locked on this machine since that was started, the process has ended. Others are left alone: those of other
users, of other machines (whose locks may not be seen here), and those that are being made.
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
BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def folder_beside(parent: Path) -> Iterator[Path]:
    """An empty folder within a new one in `parent`, which is removed in the end; so are those that were left there."""
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
        except BaseException:  # a signal, at which what is left goes all the same
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, and write down since when it tells anything."""
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
    """Remove the folders of processes that have ended; what can't be removed stays."""
    boot = _boot_id()
    if not boot:
        return
    with os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX)]
    for folder in found:
        lock = _try_lock(folder)
        if lock is None:
            continue
        try:
            ours = os.fstat(lock).st_uid == os.geteuid()
            if ours and stat.S_IMODE(os.fstat(lock).st_mode) == 0o700 and _read_small_file(folder / OWNER) == boot:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _try_lock(folder: Path) -> int | None:
    """The folder opened and locked; None where somebody else has the lock, or there is none, or no folder."""
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
    """What no other machine has, nor this one after it was started again; empty where the system doesn't tell."""
    return _read_small_file(BOOT)


def _read_small_file(file: Path) -> str:
    """What is in a small regular file; empty where there is none."""
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
