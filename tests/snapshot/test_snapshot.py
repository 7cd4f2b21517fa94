"""The snapshot of what cellbridge says: equal in two runs, and a changed text is found."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.snapshot.__main__ import DIGESTS, differences, file_of, write
from tests.snapshot.case import Case, run_case
from tests.snapshot.catalogue import cases
from tests.snapshot.striking import strike, strike_json


def says(text: str, code: int = 0) -> Callable[[], int]:
    def step() -> int:
        sys.stdout.write(text)
        return code

    return step


def raises() -> int:
    raise ZeroDivisionError("on purpose")


def draws() -> int:
    sys.stdout.write(f"{random.random()} {np.random.rand()} {torch.rand(1).item()}")
    return 0


def writes_a_report() -> int:
    Path("r.json").write_text(json.dumps({"seconds": 3.25, "path": str(Path.cwd()), "ratio": 0.5}))
    return 0


CASES = [
    Case("one", [("a step", says("a text")), ("another", says("that took 0.25 s", 3))]),
    Case("two/it fails", [("a step", raises)]),
    Case("a report", [("a step", writes_a_report)], {"data.txt": "given"}, ["r.json", "absent.json"]),
]


def test_a_snapshot_has_exit_codes_texts_and_documents() -> None:
    assert run_case(CASES[0]) == "== a step\nexit code 0\na text\n== another\nexit code 3\nthat took … s\n"
    assert "exit code 1\nProcess" in run_case(CASES[1])
    assert "ZeroDivisionError: on purpose" in run_case(CASES[1])
    document = run_case(CASES[2]).partition("== r.json\n")[2]
    assert '"path": "{folder}"' in document
    assert '"ratio": 0.5' in document
    assert '"seconds": "…"' in document
    assert document.endswith("== absent.json\nisn't there\n")


def test_global_generators_are_seeded() -> None:
    case = Case("draws", [("a step", draws)])
    assert run_case(case) == run_case(case)


def test_two_snapshots_are_equal_and_a_changed_text_is_found(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write(before, CASES[::2], 2)
    write(after, CASES[::2], 1)
    assert (before / DIGESTS).read_bytes() == (after / DIGESTS).read_bytes()
    assert list(differences(before, after)) == []
    changed = Case("one", [("a step", says("another text")), CASES[0].steps[1]])
    write(after, [changed, CASES[1]], 1)
    (lost, difference, added) = differences(before, after)
    assert lost == f"a report: only in {before}"
    assert difference.splitlines()[0] == "one:"
    assert {"-a text", "+another text"} <= {*difference.splitlines()}
    assert added == f"two/it fails: only in {after}"


@pytest.mark.parametrize(
    ("text", "struck"),
    [
        ("further inputs took 1.3 s; and 12 seconds", "further inputs took … s; and … seconds"),
        ("load (5 s)\ncapture 0 of 2 (10 s)\nreference 1 of 9 (15 s, about 6 s left)\nkept", "kept"),
        ("<object at 0x7f0012345678>", "<object at 0x…>"),
        ('<testcase time="0.1" name="x"/>', '<testcase time="…" name="x"/>'),
        ("error 0.0312, 8e6 times; 5 steps", "error 0.0312, 8e6 times; 5 steps"),
        ("/somewhere/model.py:3", "{folder}/model.py:3"),
        ("2 s of processes, 24.8 MB at most; 3 MB of weights", "… s of processes, … MB at most; 3 MB of weights"),
        (f"{tempfile.gettempdir()}/faults_k3x9_ab/port.py:3", "{temporary}/port.py:3"),
    ],
)
def test_times_and_paths_are_struck_and_numbers_stay(text: str, struck: str) -> None:
    assert strike(text, Path("/somewhere")) == struck


def test_times_in_documents_are_struck_by_their_keys() -> None:
    assert strike_json('{"seconds": 2, "cells": [{"probing_seconds": 1, "n": 4}]}', Path("/x")).count("…") == 2


def test_every_case_has_a_name_and_a_file_of_its_own() -> None:
    names = [case.name for case in cases()]
    assert len(names) == len({*names}) == len({*map(file_of, names)})
    assert {name.partition("/")[0] for name in names} >= {
        "run",
        "export",
        "record",
        "migration",
        "flax",
        "wrong",
        "faults",
    }
    assert sum(name.startswith("wrong/") for name in names) >= 100
    assert all(name.isprintable() for name in names)
