"""One result for several processes: the first computes it, the others wait and read it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ATTEMPTS = 2
"""Number of processes that may end while they compute a result before the others give up."""


class EndedBefore(Exception):
    """Every process that started to compute the result ended before it finished."""


def once(path: Path, compute: Callable[[], Any]) -> Any:
    """Return the result at `path`, or compute it and write it there.

    Meanwhile a lock beside the file is held, which the system releases when the process ends in any way. Then the next
    process computes it, up to `ATTEMPTS` times, since the same crash may hit all of them.

    Args:
        path: path of the JSON file, in an existing folder.
        compute: returns JSON values. Its exceptions are raised, and nothing is written.

    Raises:
        EndedBefore: `ATTEMPTS` processes ended while they computed the result.
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
            lock.truncate(0)  # it wasn't a crash
            raise
        temporary = path.with_name(f"{path.name}.written")
        temporary.write_text(json.dumps(result), encoding="utf-8")
        temporary.replace(path)
        return result


@contextmanager
def _exclusive(file: IO[str]) -> Iterator[None]:
    """Within the context, hold an exclusive lock on the file, after waiting for other processes."""
    if sys.platform == "win32":
        import msvcrt

        is_locked = False
        while not is_locked:
            file.seek(0)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # gives up after 10 seconds
                is_locked = True
            except OSError:
                continue
        yield
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file releases it
