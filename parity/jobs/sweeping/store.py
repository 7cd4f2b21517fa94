"""`Store`: the results of a sweep in one SQLite file, which one process writes."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name, visible_text
from .database import Budget, connect, has_schema, only_writer
from .result import NOT_JUDGED, ORDER, OUTCOMES, Result
from .run_options import RunOptions

FORMAT, VERSION = "cellbridge-sweep", 1
MAX_REPORT = 2**30
"""Bytes of the largest report that is read."""
MAX_SECONDS = 1e9
"""More than any process has run."""

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

    def __init__(
        self, path: Path, connection: sqlite3.Connection, budget: Budget, options: RunOptions | None = None
    ) -> None:
        self.path, self._connection, self._budget = path, connection, budget
        about = _require_format(connection, path)
        words, versions = json.loads(about["options"]), json.loads(about["versions"])
        project = json.loads(about.get("project_options", "{}"))  # a file of an older release has them among the words
        if not isinstance(words, list) or not isinstance(versions, dict) or not isinstance(project, dict):
            raise ValueError("what it says of options or versions is damaged")
        if not all(isinstance(text, str) for text in (*words, *versions.values())):
            raise ValueError("what it says of options or versions is damaged")
        self.options = RunOptions(words, project) if options is None else options
        self.versions: dict[str, str] = versions

    @classmethod
    @contextmanager
    def write(cls, path: Path, options: RunOptions, versions: dict[str, str]) -> Iterator[Store]:
        """Within the context, open a file to go on with, or a new one; no other sweep can.

        Raises:
            UsageError: the file isn't the results of a sweep, was made with other options or by another version of the
                format, or another sweep is writing it.
        """
        with only_writer(path):
            is_new = not path.exists() or not path.stat().st_size
            if not is_new:  # before anything in it is changed
                _require_same_options(cls.read(path), options)
            with _as_usage_errors(path):
                connection, budget = connect(path, read_only=False)
                # a result is saved without waiting for the disk; after a power failure, the last ones may be missing
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                if is_new:
                    about = {"format": FORMAT, "version": str(VERSION)}
                    about |= {"options": json.dumps(list(options.words)), "versions": json.dumps(versions)}
                    about |= {"project_options": json.dumps(dict(options.project))}
                    with connection:
                        for statement in _TABLES:
                            connection.execute(statement)
                        connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                store = cls(path, connection, budget, options)
            try:
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
            return cls(path, *connect(path, read_only=True))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def add(self, result: Result) -> None:
        """Save a result, in the place of an older one of the same model, before this returns."""
        row = (
            result.model, result.outcome, result.reason, result.code, result.seconds, result.memory, result.failing,
            result.cause, result.output, result.report,
        )  # fmt: skip
        values = ", ".join("?" * len(row))
        self._budget.renew()
        with _as_usage_errors(self.path), self._connection:
            self._connection.execute(f"INSERT OR REPLACE INTO results VALUES ({values}, datetime('now'))", row)

    def results(self) -> dict[str, Result]:
        """Return what was saved, by model, without the reports."""
        with _as_usage_errors(self.path):
            self._budget.renew()
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM results ORDER BY rowid").fetchall()
            results = [_result(row) for row in rows]
        return {result.model: result for result in results}

    def report(self, model: str) -> dict[str, object]:
        """Return the report on a model; empty if there is none.

        Raises:
            UsageError: it is damaged.
        """
        with _as_usage_errors(self.path):
            self._budget.renew()
            row = self._connection.execute("SELECT report FROM results WHERE model = ?", (model,)).fetchone()
            if row is None or not row[0]:
                return {}
            if not isinstance(row[0], bytes):
                raise ValueError(f"the report on {visible_name(model)} is damaged")
            decompressor = zlib.decompressobj()
            text = decompressor.decompress(row[0], MAX_REPORT)
            document = json.loads(text)
        return document if isinstance(document, dict) else {}


def _require_same_options(store: Store, options: RunOptions) -> None:
    """Raise `UsageError` unless a file, which is closed, is sound and was made with these options of `parity run`."""
    with closing(store):
        store.results()
    if not store.options.same(options):
        raise UsageError(
            f"{store.path} was made with other options of parity run: {store.options}\n"
            "  what to do: give the same after -- and in pyproject.toml, or another file with -o"
        )


@contextmanager
def _as_usage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, zlib.error, KeyError, ValueError, RecursionError) as error:
        reason = "reading it doesn't end" if str(error) == "interrupted" else visible_text(str(error))[:300]
        raise UsageError(f"can't use {path}: {reason}") from error


def _result(row: Sequence[Any]) -> Result:
    """Return the result in a row; `ValueError` if it isn't one. SQLite keeps values of any type in any column."""
    model, outcome, reason, code, seconds, memory, failing, cause, output = row
    is_whole = (
        all(isinstance(text, str) for text in (model, reason, failing, cause, output))
        and outcome in ORDER
        and isinstance(code, int) and abs(code) < 2**31
        and (outcome == NOT_JUDGED or OUTCOMES.get(code) == outcome)
        and isinstance(seconds, float) and 0 <= seconds < MAX_SECONDS
        and isinstance(memory, int) and memory >= 0
    )  # fmt: skip
    if not is_whole:
        raise ValueError(f"the result of {visible_name(str(model))} is damaged")
    # each is a line of the terminal, and a newline in it could forge the line of another verdict
    reason, failing, cause = map(visible_name, (reason, failing, cause))
    return Result(model, outcome, reason, code, seconds, memory, failing, cause, output=output)


def _require_format(connection: sqlite3.Connection, path: Path) -> dict[str, str]:
    """Return what a file says of itself, if it holds the results of a sweep and nothing else, in the known format.

    Raises:
        UsageError: it doesn't.
    """
    about: dict[Any, Any] = {}
    with suppress(sqlite3.DatabaseError):  # it is no database, or a damaged one
        if has_schema(connection, _TABLES):
            about = dict(connection.execute("SELECT name, value FROM about LIMIT 10"))
    if about.get("format") != FORMAT or not all(isinstance(value, str) for value in about.values()):
        raise UsageError(f"{path} isn't the results of a sweep: give a new file, or one that parity sweep wrote")
    if about.get("version") != str(VERSION):
        version = visible_name(about.get("version", "none"))[:40]
        raise UsageError(
            f"{path} has version {version} of the format; this release reads version {VERSION}\n"
            "  what to do: use the release that wrote it, or give a new file"
        )
    return about
