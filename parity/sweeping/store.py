"""`Store`: the results of a sweep in one SQLite file, which one process writes."""

from __future__ import annotations

import json
import shlex
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from .result import ORDER, Result

FORMAT, VERSION = "cellbridge-sweep", 1
MAX_REPORT = 2**30
"""Bytes of the largest report that is read."""

_TABLES = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE results (model TEXT PRIMARY KEY, outcome TEXT NOT NULL, reason TEXT NOT NULL, code INTEGER NOT NULL, "
    "seconds REAL NOT NULL, memory INTEGER NOT NULL, failing TEXT NOT NULL, cause TEXT NOT NULL, output TEXT NOT NULL, "
    "report BLOB NOT NULL, finished TEXT NOT NULL)",
)
_COLUMNS = "model, outcome, reason, code, seconds, memory, failing, cause, output"


class Store:
    """The results of a sweep; each is saved whole as soon as it is there.

    Attributes:
        path: the file.
        options: options of `parity run` that all models were judged with.
        versions: versions of libraries that the sweep began with.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection
        about = dict(connection.execute("SELECT name, value FROM about"))
        self.options: list[str] = json.loads(about["options"])
        self.versions: dict[str, str] = json.loads(about["versions"])

    @classmethod
    @contextmanager
    def write(cls, path: Path, options: Sequence[str], versions: dict[str, str]) -> Iterator[Store]:
        """Within the context, open a file to go on with, or a new one; no other sweep can.

        Raises:
            UsageError: the file isn't the results of a sweep, was made with other options or by another version of the
                format, or another sweep writes it.
        """
        with _only_writer(path):
            with _as_usage_errors(path):
                is_new = not path.exists() or not path.stat().st_size
                connection = sqlite3.connect(path)
                # a result is saved without waiting for the disk; after a power failure, the last ones may be missing
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                if is_new:
                    about = {"format": FORMAT, "version": str(VERSION)}
                    about |= {"options": json.dumps(list(options)), "versions": json.dumps(versions)}
                    with connection:
                        for statement in _TABLES:
                            connection.execute(statement)
                        connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                _require_format(connection, path)
                store = cls(path, connection)
            try:
                if store.options != list(options):
                    raise UsageError(
                        f"{path} was made with other options of parity run: {shlex.join(store.options) or 'none'}\n"
                        "  what to do: give the same after --, or another file with -o"
                    )
                yield store
            finally:
                with suppress(sqlite3.OperationalError):  # somebody reads it: then its log stays beside it
                    connection.execute("PRAGMA journal_mode=DELETE")
                connection.close()

    @classmethod
    def read(cls, path: Path) -> Store:
        """Open the results of a sweep to read them.

        Raises:
            UsageError: there is no such file, or it isn't the results of a sweep.
        """
        if not path.is_file():
            raise UsageError(f"no such file: {path}")
        with _as_usage_errors(path):
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            _require_format(connection, path)
            return cls(path, connection)

    def add(self, result: Result) -> None:
        """Save a result, in the place of an older one of the same model, before this returns."""
        row = (
            result.model, result.outcome, result.reason, result.code, result.seconds, result.memory, result.failing,
            result.cause, result.output, result.report,
        )  # fmt: skip
        values = ", ".join("?" * len(row))
        with _as_usage_errors(self.path), self._connection:
            self._connection.execute(f"INSERT OR REPLACE INTO results VALUES ({values}, datetime('now'))", row)

    def results(self) -> dict[str, Result]:
        """Return what was saved, by model, without the reports."""
        with _as_usage_errors(self.path):
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM results ORDER BY rowid").fetchall()
            results = [_result(row) for row in rows]
        return {result.model: result for result in results}

    def report(self, model: str) -> dict[str, object]:
        """Return the report on a model; empty if there is none.

        Raises:
            UsageError: it is damaged.
        """
        with _as_usage_errors(self.path):
            row = self._connection.execute("SELECT report FROM results WHERE model = ?", (model,)).fetchone()
            if row is None or not row[0]:
                return {}
            decompressor = zlib.decompressobj()
            text = decompressor.decompress(row[0], MAX_REPORT)
            document = json.loads(text)
        return document if isinstance(document, dict) else {}


@contextmanager
def _only_writer(path: Path) -> Iterator[None]:
    """Within the context, no other process can write the results; a lock of SQLite's, which ends with the process."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        connection = sqlite3.connect(lock, timeout=0, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise UsageError(f"another sweep writes {path}: wait for its end, or give another file with -o") from error
        raise UsageError(f"can't write {path}: {error}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        connection.close()


@contextmanager
def _as_usage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, zlib.error, KeyError, ValueError) as error:
        raise UsageError(f"can't use {path}: {error}") from error


def _result(row: Sequence[Any]) -> Result:
    """Return the result in a row; `ValueError` if it isn't one."""
    model, outcome, reason, code, seconds, memory, failing, cause, output = row
    texts = model, reason, failing, cause, output
    if outcome not in ORDER or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"the result of {visible_name(str(model))} is damaged")
    return Result(model, outcome, reason, int(code), float(seconds), int(memory), failing, cause, output=output)


def _require_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `UsageError` unless the file holds the results of a sweep, in the version of the format that is known."""
    try:
        about = dict(connection.execute("SELECT name, value FROM about"))
    except sqlite3.Error:
        about = {}
    if about.get("format") != FORMAT:
        raise UsageError(f"{path} isn't the results of a sweep: give the name of a new file, or of one that it wrote")
    if about.get("version") != str(VERSION):
        raise UsageError(
            f"{path} has version {about.get('version')} of the format; this release reads version {VERSION}\n"
            "  what to do: use the release that wrote it, or give a new file"
        )
