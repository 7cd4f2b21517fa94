"""`connect`: opens a SQLite file that somebody else may have made, in which nothing but rows of known tables is read.

A view or a trigger would be run by SQLite, and decide what the rows say; a file of another schema is therefore refused
as a whole.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ....runtime.errors import UsageError

STEPS = 100_000
"""Instructions of SQLite's virtual machine between two looks at the budget."""
LEAST_BUDGET = 100_000_000
"""Instructions that reading any file may take."""
PER_BYTE = 100
"""Instructions per byte of the file that reading it may take in addition; a row of 200 bytes takes about 30."""
MAX_VALUE = 2**30
"""Bytes of the largest text or blob."""


class Budget:
    """Ends a statement of SQLite that does much more than the size of its file explains."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.renew()

    def renew(self) -> None:
        """Allow one more reading of the file."""
        size = self._path.stat().st_size if self._path.exists() else 0
        self._left = LEAST_BUDGET + PER_BYTE * size

    def __call__(self) -> bool:
        """Whether SQLite is to stop, which raises `sqlite3.OperationalError`."""
        self._left -= STEPS
        return self._left < 0


def connect(path: Path, *, read_only: bool) -> tuple[sqlite3.Connection, Budget]:
    """Open a file, which need not be there if it may be written.

    Raises:
        UsageError: it isn't a file, or a journal lies beside it: SQLite would apply that, and remove a file that it
            names.
        sqlite3.Error: SQLite can't open it.
    """
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(f"{path} isn't a file: give the name of a new file, or of one that parity sweep wrote")
    journal = path.with_name(f"{path.name}-journal")
    if journal.exists() or journal.is_symlink():
        raise UsageError(
            f"beside {path} there is {journal.name}, left by a write that didn't finish\n"
            f"  what to do: remove {journal.name}, or give another file"
        )
    mode = "ro" if read_only else "rwc"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
    budget = Budget(path)
    connection.set_progress_handler(budget, STEPS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
        connection.execute(f"PRAGMA {setting}")
    return connection, budget


def has_schema(connection: sqlite3.Connection, tables: Sequence[str]) -> bool:
    """Whether a file has exactly the tables that these statements make: no other, no view, no trigger, no index."""
    with sqlite3.connect(":memory:") as empty:
        for statement in tables:
            empty.execute(statement)
        return _schema(connection) == _schema(empty)


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Within the context, no other process can write the results; a lock of SQLite's, which ends with the process.

    Raises:
        UsageError: another process has it, or something else has the name of its file, beside `path`.
    """
    lock = path.with_name(f"{path.name}-writer")  # beside -wal and -shm, which SQLite makes
    if lock.is_symlink() or (lock.exists() and (not lock.is_file() or lock.stat().st_size)):
        raise UsageError(f"a sweep into {path} needs the name {lock}, which is taken: give another file with -o")
    connection = None
    try:
        connection = sqlite3.connect(lock, timeout=0, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if connection is not None:
            connection.close()
        if "locked" in str(error):
            raise UsageError(
                f"another sweep is writing {path}: wait until it ends, or give another file with -o"
            ) from error
        raise UsageError(f"can't write {path}: {error}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        connection.close()
