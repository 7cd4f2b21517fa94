"""Fuzz targets for what people exchange about models: recordings, locks, and databases of sweeps."""

from __future__ import annotations

import functools
import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import torch

from cellbridge.parity import judge, record
from cellbridge.parity.jobs.locks.check import check_snapshot
from cellbridge.parity.jobs.locks.lock_file import Lock, read_lock, write_lock
from cellbridge.parity.jobs.locks.snapshot import take_snapshot
from cellbridge.parity.jobs.sweeping.comparison import compare_sweeps
from cellbridge.parity.jobs.sweeping.result import FAILS, HOLDS, Result
from cellbridge.parity.jobs.sweeping.run_options import RunOptions
from cellbridge.parity.jobs.sweeping.store import Store
from cellbridge.parity.jobs.sweeping.views import write_json, write_junit
from cellbridge.parity.options import Options
from cellbridge.parity.results.origin import Origin
from tests.fuzz.models import NAMES
from tests.fuzz.outputs import require_readable, require_tame
from tests.mutation import NUMBERS, mutate_bytes, mutate_json

STATEMENTS = (
    "CREATE TRIGGER t AFTER UPDATE ON results BEGIN UPDATE results SET outcome = 'holds'; END",
    "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
    "ALTER TABLE results RENAME TO kept",
    "ALTER TABLE results ADD COLUMN further TEXT DEFAULT (hex(randomblob(9)))",
    "DROP TABLE about",
    "DELETE FROM about",
)
"""What may be done to a database besides changing values."""


def recording(random: Random, folder: Path) -> None:
    """Judge a mutated recording by the one that it was made from, or the other way round."""
    shutil.copytree(_examples() / "ref.rec", folder / "ref.rec")
    shutil.copytree(_examples() / "ref.rec", folder / "other.rec")
    mutant = folder / "other.rec"
    files = sorted(path for path in mutant.iterdir() if path.is_file())
    for _ in range(random.randint(1, 2)):
        file = random.choice(files)
        data = file.read_bytes() if file.exists() else b""
        if file.suffix == ".json" and random.random() < 0.8 and data:
            file.write_text(json.dumps(mutate_json(json.loads(data), random)), encoding="utf-8", errors="surrogatepass")
            files.remove(file)
        elif random.random() < 0.1:
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(mutate_bytes(data, random))
            files.remove(file)
        if not files:
            break
    pair = [folder / "ref.rec", mutant]
    if random.random() < 0.3:
        pair.reverse()
    require_readable(judge(*pair, diagnose_seconds=0), folder)


def lock(random: Random, folder: Path) -> None:
    """Compare a network with a mutated lock of it."""
    path = folder / "parity.lock"
    text = (_examples() / "parity.lock").read_bytes()
    if random.random() < 0.2:
        path.write_bytes(mutate_bytes(text, random))
    else:
        document = mutate_json(json.loads(text), random)
        path.write_text(json.dumps(document), encoding="utf-8", errors="surrogatepass")
    locked = read_lock(path)
    now = read_lock(_examples() / "parity.lock")
    for snapshot in locked.snapshots:
        require_readable(check_snapshot(snapshot, now.snapshots[0], locked.versions, now.versions, {}), folder)


def sweep_database(random: Random, folder: Path) -> None:
    """Read, compare and go on with a mutated database of a sweep."""
    path = folder / "sweep.db"
    data = (_examples() / "sweep.db").read_bytes()
    if random.random() < 0.3:
        path.write_bytes(mutate_bytes(data, random))
    else:
        path.write_bytes(data)
        _change_database(path, random)
    shutil.copy(_examples() / "sweep.db", folder / "right.db")
    store = Store.read(path)
    results = list(store.results().values())
    for result in results:
        require_tame(f"{result.reason} {result.failing} {result.cause}")
        json.dumps(store.report(result.model))
    write_json(store, results, Origin(), folder / "r.json")
    write_junit(store, results, Origin(), folder / "r.xml")
    compare_sweeps(Store.read(folder / "right.db"), store)
    with Store.write(path, store.options, store.versions) as writer:
        writer.add(_result("new.py", HOLDS))


def _change_database(path: Path, random: Random) -> None:
    connection = sqlite3.connect(path)
    for _ in range(random.randint(1, 3)):
        table, column = random.choice(
            [
                ("about", "value"),
                *(("results", name) for name in ("model", "outcome", "code", "seconds", "failing", "report")),
            ]
        )
        value: Any = random.choice([None, b"\x00\xff", 1e300, *NUMBERS, *NAMES, "{}", "[]", '{"a": ' * 50])
        try:
            if random.random() < 0.4:
                connection.execute(random.choice(STATEMENTS))
            else:
                connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except (sqlite3.Error, OverflowError):
            continue
    connection.commit()
    connection.close()


@functools.cache
def _examples() -> Path:
    """Return a folder with a recording, a lock and a database of a sweep; it lives as long as the process."""
    folder = Path(tempfile.mkdtemp(prefix="cellbridge-fuzz-"))
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh())
    x = torch.randn(5, 3)
    record(module, (x,), folder / "ref.rec")
    snapshot = take_snapshot(module, (x,), {}, Options(model="network"))
    write_lock(Lock({"torch": torch.__version__}, [snapshot]), folder / "parity.lock")
    with Store.write(folder / "sweep.db", RunOptions(["--train"]), {"torch": "2.13"}) as store:
        store.add(_result("a.py", HOLDS))
        store.add(_result("b.py", FAILS))
    return folder


def _result(model: str, outcome: Any) -> Result:
    return Result(model, outcome, "a reason", 0 if outcome == HOLDS else 1, 1.5, 10**6, "1 of 2", "a cause")
