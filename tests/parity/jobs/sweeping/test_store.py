"""The file of results: what is saved is there whatever happens, and only one sweep writes it."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from cellbridge.parity.jobs.sweeping import database
from cellbridge.parity.jobs.sweeping.result import Outcome, Result
from cellbridge.parity.jobs.sweeping.run_options import RunOptions
from cellbridge.parity.jobs.sweeping.store import Store
from cellbridge.runtime.errors import UsageError

NO_OPTIONS = RunOptions()


def result(model: str, outcome: Outcome = "holds", **more: Any) -> Result:
    return Result(model, outcome, f"it {outcome}", 0 if outcome == "holds" else 1, 1.5, 10**6, **more)


def write(path: Path, *results: Result, options: RunOptions = NO_OPTIONS) -> None:
    with Store.write(path, options, {"torch": "1"}) as store:
        for entry in results:
            store.add(entry)


def test_results_come_back(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    report = json.dumps({"cells": [{"path": "a"}]})
    write(
        path,
        result("a.py"),
        result("b.py", "fails", report=zlib.compress(report.encode()), cause="eps", failing="1 of 2 Cells"),
    )
    store = Store.read(path)
    assert store.results() == {
        "a.py": result("a.py"),
        "b.py": result("b.py", "fails", cause="eps", failing="1 of 2 Cells"),
    }
    assert (store.report("b.py"), store.report("a.py"), store.report("c.py")) == (json.loads(report), {}, {})
    assert store.versions == {"torch": "1"}
    assert [file.name for file in tmp_path.iterdir()] == ["s.db"]


def test_a_later_result_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path / "s.db", result("a.py"))
    write(tmp_path / "s.db", result("a.py", "fails"))
    assert [entry.outcome for entry in Store.read(tmp_path / "s.db").results().values()] == ["fails"]


def test_names_are_data(tmp_path: Path) -> None:
    names = ["'); DROP TABLE results; --", "a\nb", "\u202etxt", "x" * 5000]
    write(tmp_path / "s.db", *map(result, names))
    assert list(Store.read(tmp_path / "s.db").results()) == names


def _killed_while_it_writes(path: Path) -> None:
    with Store.write(path, RunOptions(), {}) as store:
        for number in range(10**6):
            store.add(result(f"{number}.py", report=os.urandom(10_000)))


def test_a_killed_sweep_leaves_whole_results_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    process = multiprocessing.get_context("spawn").Process(target=_killed_while_it_writes, args=(path,))
    process.start()
    log = path.with_name("s.db-wal")  # of SQLite: what isn't in the file itself yet
    while not log.exists() or os.path.getsize(log) < 100_000:
        time.sleep(0.05)
    process.kill()
    process.join()
    saved = Store.read(path).results()
    assert list(saved) == [f"{number}.py" for number in range(len(saved))]
    assert len(saved) > 3
    write(path, result("more.py"))
    assert len(Store.read(path).results()) == len(saved) + 1


def test_only_one_sweep_writes(tmp_path: Path) -> None:
    with (
        Store.write(tmp_path / "s.db", RunOptions(), {}),
        pytest.raises(UsageError, match="another sweep is writing"),
        Store.write(tmp_path / "s.db", RunOptions(), {}),
    ):
        pass


def test_other_options_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "s.db", result("a.py"), options=RunOptions(["--dtype", "float16"]))
    with pytest.raises(UsageError, match="other options of parity run: --dtype float16"):
        write(tmp_path / "s.db")
    with pytest.raises(UsageError, match="other options of parity run: --dtype float16"):
        write(tmp_path / "s.db", options=RunOptions(["--dtype", "float16"], {"seed": 5}))
    assert len(Store.read(tmp_path / "s.db").results()) == 1


def _other_version(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE about SET value = '2' WHERE name = 'version'")


def _other_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE about (name, value)")


def _damaged_result(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE results SET outcome = 'fine'")


def _lacking_table(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE results")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_other_version, "version 2 of the format; this release reads version 1"),
        (_other_database, "isn't the results of a sweep"),
        (lambda path: path.write_bytes(b"not a database, but some other file" * 100), "isn't the results of a sweep"),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "s.db"),
        (_damaged_result, "the result of a.py is damaged"),
        (_lacking_table, "isn't the results of a sweep"),
        (lambda path: path.unlink(), "no such file"),
    ],
)
def test_what_is_no_file_of_results_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "s.db"
    write(path, result("a.py"))
    change(path)
    with pytest.raises(UsageError, match=message):
        Store.read(path).results()


def test_a_reason_forges_no_line_of_a_verdict(tmp_path: Path) -> None:
    write(tmp_path / "s.db", result("a.py"))
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("UPDATE results SET reason = ?, cause = ?", ("bad\n✓ 2 of 2  b.py", "\x1b[2J"))
    read = Store.read(tmp_path / "s.db").results()["a.py"]
    assert (read.reason, read.cause) == ("bad\\n✓ 2 of 2  b.py", "\\x1b[2J")


def test_a_report_that_is_damaged(tmp_path: Path) -> None:
    write(tmp_path / "s.db", result("a.py", report=zlib.compress(b"{}")))
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("UPDATE results SET report = ?", (b"no zlib",))
    with pytest.raises(UsageError, match="can't use"):
        Store.read(tmp_path / "s.db").report("a.py")


def test_a_statement_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LEAST_BUDGET", 1_000_000)
    write(tmp_path / "s.db", result("a.py"))
    connection, budget = database.connect(tmp_path / "s.db", read_only=True)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(endless).fetchall()
    budget.renew()
    assert connection.execute("SELECT count(*) FROM results").fetchone() == (1,)


def test_many_results_are_within_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LEAST_BUDGET", 0)  # what the size of the file allows is enough
    with Store.write(tmp_path / "s.db", RunOptions(), {}) as store:
        for number in range(2000):
            store.add(result(f"{number}.py"))
    assert len(Store.read(tmp_path / "s.db").results()) == 2000
