"""Options of pyproject.toml in a sweep: they reach each process as what they are, and no others do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.parity.jobs.sweeping.limits import Limits
from cellbridge.parity.jobs.sweeping.result import Result, judge_model
from cellbridge.parity.jobs.sweeping.run_options import PROJECT_OPTIONS, RunOptions
from cellbridge.parity.jobs.sweeping.store import Store

MODEL = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
def inputs(): return (torch.randn(4, 3),)
"""
LIMITS = Limits(seconds=120.0, memory=2**34, threads=1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "net.py").write_text(MODEL)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def sweep(*arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Sweep, and return what was printed and the report on the only model."""
    done = subprocess.run(
        [sys.executable, "-m", "cellbridge.parity", "sweep", *arguments], capture_output=True, text=True, check=False
    )
    store = Store.read(Path("sweep.db"))
    (model,) = store.results()
    return done, store.report(model)


def test_they_are_judged_with_and_kept() -> None:
    Path("pyproject.toml").write_text('[tool.parity]\nseed = 5\nno-grad = true\n[tool.parity.run]\nskip = ["1"]\n')
    done, report = sweep("../zoo/net.py", "--json", "s.json", "--", "--no-probe", "--seed", "6")
    assert done.stderr.startswith("from pyproject.toml: --no-grad --skip=1\n")
    assert (report["seed"], report["grads"]) == (6, False)
    document = json.loads(Path("s.json").read_text())
    assert document["options"] == ["--no-probe", "--seed", "6"]
    assert document["project_options"] == {"seed": 5, "no-grad": True, "skip": ["1"]}
    assert {cell["path"]: cell["status"] for cell in report["cells"]}["1"] == "skipped"
    assert all("(from pyproject.toml)" in condition for condition in report["conditions"]["in_words"])
    Path("pyproject.toml").write_text("[tool.parity]\nseed = 5\n")
    done, _ = sweep("../zoo/net.py", "--", "--no-probe", "--seed", "6")
    assert done.returncode == 2
    assert "was made with other options of parity run" in done.stderr


@pytest.mark.slow
def test_they_give_way_to_what_a_model_excludes(folder: Path) -> None:
    """As in `parity run`: words of a command line would be refused, since an ONNX file has no mode."""
    CliRunner().invoke(main, ["export", str(folder / "zoo" / "net.py"), "-o", "net.onnx", "--no-check"])
    Path("pyproject.toml").write_text("[tool.parity.run]\ntrain = true\nno-probe = true\n")
    done, report = sweep("net.onnx")
    assert done.returncode == 0, done.stdout
    assert report["ok"]


@pytest.mark.slow
def test_a_path_is_one_from_the_folder_of_the_file(folder: Path) -> None:
    CliRunner().invoke(main, ["export", str(folder / "zoo" / "net.py"), "-o", "net.onnx", "--no-check"])
    np.savez("x\u00e9\u200b.npz", input=np.full((4, 3), 0.5, np.float32))
    Path("pyproject.toml").write_text('[tool.parity.run]\ninputs = "x\u00e9\\u200b.npz"\nno-probe = true\n', "utf-8")
    done, _ = sweep("net.onnx")
    assert done.returncode == 0, done.stdout


def judge(options: RunOptions) -> dict[str, Any]:
    result = judge_model("net.py", options, LIMITS, page=False)
    return _report(result)


def _report(result: Result) -> dict[str, Any]:
    with Store.write(Path("r.db"), RunOptions(), {}) as store:
        store.add(result)
    report = Store.read(Path("r.db")).report(result.model)
    assert report, result.output
    return report


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(RunOptions(["--no-probe"]), marks=pytest.mark.slow),
        RunOptions(["--no-probe"], {"seed": 5}, "/own/p.toml"),
    ],
)
def test_no_file_beside_the_model_says_anything(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: RunOptions
) -> None:
    """It may be on another machine, or have been written since the sweep began."""
    (folder / "zoo" / "pyproject.toml").write_text("[tool.parity]\nseed = 7\natol = 1e9\n")
    monkeypatch.chdir(folder / "zoo")
    report = judge(options)
    assert report["seed"] == options.project.get("seed", 0)
    assert not report["conditions"]["in_words"]


def test_a_process_that_a_model_starts_has_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import os, pathlib\npathlib.Path('of_model').write_text(os.environ.get('CELLBRIDGE_PROJECT_OPTIONS', 'none'))"
    )
    (folder / "zoo" / "net.py").write_text(f"{text}\n{MODEL}")
    monkeypatch.chdir(folder / "zoo")
    judge(RunOptions(["--no-probe"]))
    assert Path("of_model").read_text() == "none"


@pytest.mark.parametrize("content", [None, "{}", "[]", "{", '{"file": 3, "run": {}}', '{"file": "x"}', "\udcff"])
def test_something_else_is_one_message(monkeypatch: pytest.MonkeyPatch, content: str | None) -> None:
    if content is not None:
        Path("options.json").write_bytes(content.encode(errors="surrogateescape"))
    monkeypatch.setenv(PROJECT_OPTIONS, os.path.abspath("options.json"))
    result = CliRunner().invoke(main, ["run", "../zoo/net.py"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: CELLBRIDGE_PROJECT_OPTIONS doesn't name a file of options")


def test_what_a_project_may_not_set_is_refused_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("options.json").write_text('{"file": "pyproject.toml", "run": {"json": "victim.json"}}')
    monkeypatch.setenv(PROJECT_OPTIONS, os.path.abspath("options.json"))
    result = CliRunner().invoke(main, ["run", "../zoo/net.py"])
    assert result.exit_code == 2
    assert "sets json, which a project can't" in result.stderr
