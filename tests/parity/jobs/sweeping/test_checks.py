"""Checks of a file in a sweep: each in a process of its own, which holds, fails or can't be run."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.parity.inputs.generated_cases import case_names, run_check
from cellbridge.parity.inputs.user_source import open_source
from cellbridge.parity.jobs.sweeping.changed import files_of
from cellbridge.parity.jobs.sweeping.finding import find_models
from cellbridge.parity.jobs.sweeping.store import Store
from cellbridge.runtime.errors import UsageError

CHECKS = """
import os

def checks():
    yield "right", lambda: print("nothing to say")
    yield "wrong::in two", wrong
    yield "error", lambda: 1 / 0
    yield "ends", lambda: os._exit(0)

def wrong():
    assert 1 == 2, "one is\\nnot two"
"""
OUTCOMES = {"right": "holds", "wrong::in two": "fails", "error": "not judged", "ends": "not judged"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "checked.py").write_text(CHECKS)
    return tmp_path / "checked.py"


def test_checks_are_listed(file: Path) -> None:
    names = [f"{file}::{name}" for name in OUTCOMES]
    assert find_models([str(file)]) == find_models([str(file.parent)]) == names
    assert find_models(names[:1]) == names[:1]
    assert files_of(names[1]) == {file.resolve()}


@pytest.mark.slow
def test_a_file_may_have_cases_too(file: Path) -> None:
    file.write_text(CHECKS + "\ndef cases():\n    yield 'one', lambda: None\n")
    assert find_models([str(file)])[:2] == [f"{file}[one]", f"{file}::right"]


@pytest.mark.slow
def test_each_has_its_own_result(file: Path, tmp_path: Path) -> None:
    database, junit = tmp_path / "sweep.db", tmp_path / "j.xml"
    command = ["sweep", str(file), "-o", str(database), "--junit", str(junit), "--html", str(tmp_path / "pages")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1, done.output
    results = {model.partition("::")[2]: result for model, result in Store.read(database).results().items()}
    assert {name: result.outcome for name, result in results.items()} == OUTCOMES
    assert results["wrong::in two"].reason == "one is not two"
    assert "ZeroDivisionError" in results["error"].reason
    assert results["ends"].reason == "its process ended by itself, with exit code 0 and without a report"
    suite = ET.parse(junit).getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "2")
    assert "one is not two" in (tmp_path / "pages" / "index.html").read_text()
    second_run = CliRunner().invoke(main, ["sweep", str(file), "-o", str(database), "--rerun", "failed"])
    assert "1 of 4 models have a result already" in second_run.output


def test_a_check_that_is_not_there(file: Path) -> None:
    with pytest.raises(UsageError, match="has no check rigth; did you mean right"):
        run_check(open_source(str(file)), str(file), "rigth")
    assert case_names(open_source(str(file)), str(file), "checks") == list(OUTCOMES)
    assert str(run_check(open_source(str(file)), str(file), "wrong::in two")) == "one is\nnot two"


def test_a_model_file_may_use_the_name(file: Path) -> None:
    file.write_text("model = inputs = checks = None\n")
    assert find_models([str(file)]) == find_models([str(file.parent)]) == [str(file)]
