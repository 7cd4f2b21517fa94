"""A stranger's sweep.db, with which a sweep goes on, or that is compared."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from cellbridge.parity.jobs.sweeping.result import Result
from cellbridge.parity.jobs.sweeping.run_options import RunOptions
from cellbridge.parity.jobs.sweeping.store import Store
from tests.strangers.attack import WORK, Attack

COMMANDS = {"going on": ["sweep", "net.py"], "comparing": ["sweep", "--compare", "sweep.db", "sweep.db"]}
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
COLUMNS = "i, 'holds', '', 0, 1.0, 1, '', '', '', '', ''"
NOT_RESULTS = "sweep.db isn't the results of a sweep"
DAMAGED = "damaged"


def database(*statements: str) -> Callable[[Path], None]:
    """Return what makes a file of results on net.py, which fails, changed by statements of SQL."""

    def make(folder: Path) -> None:
        path = folder / WORK / "sweep.db"
        with Store.write(path, RunOptions(), {"torch": "1"}) as store:
            store.add(Result("net.py", "fails", "parity fails", 1, 1.5, 10**6, report=zlib.compress(b"{}")))
        connection = sqlite3.connect(path)
        with connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    return make


SCHEMAS = {
    "a trigger that turns results into holds": [
        "CREATE TRIGGER t AFTER INSERT ON results BEGIN UPDATE results SET outcome = 'holds', code = 0; END"
    ],
    "a view for the table": [
        "ALTER TABLE results RENAME TO hidden", "CREATE VIEW results AS SELECT * FROM hidden",
    ],
    "a view that never ends": [
        "DROP TABLE results", "CREATE VIEW results AS " + ENDLESS.format(COLUMNS),
    ],
    "an endless view of what it says of itself": [
        "ALTER TABLE about RENAME TO hidden", "CREATE VIEW about AS " + ENDLESS.format("i AS name, 'x' AS value"),
    ],
    "a table without checks of types": ["DROP TABLE results", "CREATE TABLE results (model, outcome)"],
    "a table more": ["CREATE TABLE more (x)"],
    "an index on an expression": ["CREATE INDEX i ON results (abs(code))"],
    "a generated column": ["ALTER TABLE results ADD COLUMN z AS (code)"],
    "a virtual table": ["CREATE VIRTUAL TABLE v USING fts5(x)"],
    "another format": ["UPDATE about SET value = 'other' WHERE name = 'format'"],
    "a format that is a number": ["UPDATE about SET value = 7 WHERE name = 'format'"],
    "a format that is a blob": ["UPDATE about SET value = x'00ff' WHERE name = 'options'"],
}  # fmt: skip
ABOUT = {
    "options that aren't a list": "UPDATE about SET value = '{}' WHERE name = 'options'",
    "options that aren't texts": "UPDATE about SET value = '[1, null]' WHERE name = 'options'",
    "options that aren't JSON": "UPDATE about SET value = 'x' WHERE name = 'options'",
    "options nested 100,000 deep": f"UPDATE about SET value = '{'[' * 100_000}' WHERE name = 'options'",
    "versions that aren't a table": "UPDATE about SET value = '[]' WHERE name = 'versions'",
    "versions that are numbers": "UPDATE about SET value = '{\"a\": 1}' WHERE name = 'versions'",
    "no versions": "DELETE FROM about WHERE name = 'versions'",
}
VALUES = {
    "model": ["x'00'"],
    "outcome": ["'fine'", "'HOLDS'", "7", "x'00'", "'holds'"],  # the last contradicts its exit code
    "reason": ["x'00'"],
    "code": ["'x'", "1.5", "99999999999", "0", "x'00'"],
    "seconds": ["'x'", "9e999", "-9e999", "-1.0", "x'00'", "1e300"],
    "memory": ["'x'", "-1", "1.5", "x'00'"],
    "failing": ["x'00'"],
    "cause": ["x'00'"],
    "output": ["x'00'"],
}
"""By column, values that SQLite keeps in it and a sweep doesn't write."""


def _rows() -> Iterator[Attack]:
    for doing, command in COMMANDS.items():
        for name, statements in SCHEMAS.items():
            yield Attack(f"{name}, {doing}", command, 2, [NOT_RESULTS], make=database(*statements))
        for name, statement in ABOUT.items():
            yield Attack(f"{name}, {doing}", command, 2, ["can't use sweep.db"], make=database(statement))
        for column, values in VALUES.items():
            for value in values:
                make = database(f"UPDATE results SET {column} = {value}")
                yield Attack(f"{column} = {value}, {doing}", command, 2, [DAMAGED], make=make)


def _beside(name: str, content: str = "x") -> Callable[[Path], None]:
    """Return what makes a sound file of results, and something beside it."""

    def make(folder: Path) -> None:
        database()(folder)
        (folder / WORK / name).write_text(content)

    return make


def _link_beside(folder: Path) -> None:
    database()(folder)
    (folder / WORK / "sweep.db-writer").symlink_to("../victim")


ATTACKS = [
    Attack("a sound file of results", COMMANDS["going on"], 1, ["1 of 1 models have a result already", "1 fails"],
           make=database(), writes=["work/sweep.db"]),
    Attack("two sound files of results", COMMANDS["comparing"], 0, ["1 as before"], make=database()),
    Attack("a journal beside it, going on", COMMANDS["going on"], 2, ["remove sweep.db-journal"],
           make=_beside("sweep.db-journal")),
    Attack("a journal beside it, comparing", COMMANDS["comparing"], 2, ["remove sweep.db-journal"],
           make=_beside("sweep.db-journal")),
    Attack("a file in the way of its lock", COMMANDS["going on"], 2, ["needs the name sweep.db-writer"],
           make=_beside("sweep.db-writer")),
    Attack("a link in the way of its lock", COMMANDS["going on"], 2, ["needs the name sweep.db-writer"],
           make=_link_beside),
    Attack("a file that isn't a database", COMMANDS["going on"], 2, [NOT_RESULTS],
           files={"work/sweep.db": "something else of the user's"}),
    Attack("a device for a database", ["sweep", "net.py", "-o", "/dev/zero"], 2, ["isn't a file"]),
    *_rows(),
]  # fmt: skip
