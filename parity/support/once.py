"""One result for several processes: the first that asks computes it, the others wait and read it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ATTEMPTS = 2
"""So often a result is computed by processes that end before they have it."""


class EndedBefore(Exception):
    """Every process that began to compute the result ended before it had it."""


def once(path: Path, compute: Callable[[], Any]) -> Any:
    """The result at `path`, or `compute()`, which is written there.

    A lock beside the file is held meanwhile; the system releases it when a process ends, however it ends. Then the
    next one computes, up to `ATTEMPTS` times, since a crash of one may well be the crash of all.

    Args:
        path: of the JSON file; its folder is there.
        compute: makes JSON values. What it raises is raised, and nothing is written.

    Raises:
        EndedBefore: `ATTEMPTS` processes ended while they computed.
    """
    with path.with_name(f"{path.name}.lock").open("a+", encoding="utf-8") as lock, _exclusive(lock):
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        lock.seek(0)
        if len(lock.readlines()) >= ATTEMPTS:
            raise EndedBefore
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        try:
            result = compute()
        except BaseException:
            lock.truncate(0)  # it was no crash
            raise
        written = path.with_name(f"{path.name}.written")
        written.write_text(json.dumps(result), encoding="utf-8")
        written.replace(path)
        return result


@contextmanager
def _exclusive(file: IO[str]) -> Iterator[None]:
    """Waits until no other process has the file locked, and locks it."""
    if sys.platform == "win32":
        import msvcrt

        locked = False
        while not locked:
            file.seek(0)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # gives up after 10 seconds
                locked = True
            except OSError:
                continue
        yield
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file releases it
