"""The command: its arguments, output files and error messages."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from onnx import helper

from cellbridge.parity.cli import main
from cellbridge.parity.report.report import Report
from cellbridge.runtime.compiled import session
from cellbridge.runtime.errors import ConversionError
from tests.parity.reports import CONVNET, cell, failing, report

GOOD = """
import torch
model = torch.nn.Linear(3, 2)
inputs = (torch.randn(4, 3),)
"""
ONNX = helper.make_model(helper.make_graph([], "empty", [], [])).SerializeToString()
PASSING = report(CONVNET)
FAILING = report(CONVNET, cell("head", "Linear", failing()))


def parity(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model file in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)
    return tmp_path


class Engine:
    """Replaces the engine, and returns the report or raises the error that a test needs."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.result: Report | BaseException = PASSING

    def check(self, module: Any, args: Any, kwargs: Any, *, save_onnx: Path | None = None, **options: Any) -> Report:
        self.given = {"module": module, "args": args, "kwargs": kwargs, **options}
        options["progress"].stage("capture", None)
        options["progress"].stage("compare", 3)
        options["progress"].advance()
        sys.stderr.write("noise of a library\n")
        logging.getLogger("library").error("log of a library")
        if save_onnx is not None:
            save_onnx.write_bytes(ONNX)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    fake = Engine()
    monkeypatch.setitem(sys.modules, "cellbridge.parity.checking.engine", SimpleNamespace(check=fake.check))  # type: ignore[arg-type]
    return fake


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- run -----------------------------------------------------------------------------------------------------------


def test_parity_holds(engine: Engine) -> None:
    result = parity("run", "net.py")
    assert result.exit_code == 0
    assert "✓ Parity holds" in result.stdout
    assert result.stderr == ""


def test_parity_fails(engine: Engine) -> None:
    engine.result = FAILING
    result = parity("run", "net.py")
    assert result.exit_code == 1
    assert "✗ Parity fails in 1 Cell: head" in result.stdout
    assert result.stderr == ""


def test_the_defaults(engine: Engine) -> None:
    parity("run", "net.py")
    given = engine.given
    assert type(given.pop("module")).__name__ == "Linear"
    assert [tuple(argument.shape) for argument in given.pop("args")] == [(4, 3)]
    del given["progress"]
    assert list(given.pop("more_inputs")) == []
    assert given == {
        "kwargs": {},
        "loss": None,
        "dynamic_shapes": None,
        "cell": None,
        "cells": None,
        "weights": None,
        "model": "net.py",
        "seed": 0,
        "grads": True,
        "train": None,
        "dtype": "float32",
        "rtol": None,
        "atol": None,
        "only": (),
        "skip": (),
        "fail_fast": False,
        "diagnose_seconds": None,
        "strict": False,
        "provider": "cpu",
        "round_trip": False,
    }


@pytest.mark.parametrize(
    ("arguments", "option", "value"),
    [
        (["--no-grad"], "grads", False),
        (["--train"], "train", True),
        (["--dtype", "bfloat16"], "dtype", "bfloat16"),
        (["--rtol", "1e-3"], "rtol", 1e-3),
        (["--atol", "0"], "atol", 0.0),
        (["--only", "layer1.*", "--only", "fc"], "only", ("layer1.*", "fc")),
        (["--skip", "*.bn?"], "skip", ("*.bn?",)),
        (["--fail-fast"], "fail_fast", True),
        (["--diagnose-seconds", "0"], "diagnose_seconds", 0.0),
        (["--strict"], "strict", True),
        (["--probe"], "probe", True),
        (["--provider", "cuda"], "provider", "cuda"),
        (["--round-trip"], "round_trip", True),
        (["--seed", "7"], "seed", 7),
    ],
)
def test_each_option_reaches_the_engine(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, arguments: list[str], option: str, value: object
) -> None:
    monkeypatch.setattr(session, "choose_provider", lambda name: name)
    assert parity("run", "net.py", *arguments).exit_code == 0
    assert engine.given[option] == value


def test_what_the_file_defines_reaches_the_engine(engine: Engine, folder: Path) -> None:
    (folder / "net.py").write_text(
        GOOD.replace("(torch.randn(4, 3),)", "{'input': torch.ones(1, 3)}")
        + "\ndef loss(out): return out.sum()\ndynamic_shapes = {'input': None}\nother = torch.nn.Linear(3, 9)\n"
    )
    assert parity("run", "net.py:other").exit_code == 0
    assert engine.given["module"].out_features == 9
    assert (engine.given["args"], list(engine.given["kwargs"])) == ((), ["input"])
    assert callable(engine.given["loss"])
    assert engine.given["dynamic_shapes"] == {"input": None}
    assert engine.given["model"] == "net.py:other"


@pytest.mark.parametrize("report", [PASSING, FAILING])
def test_the_files_are_written_whatever_the_verdict(engine: Engine, folder: Path, report: Report) -> None:
    engine.result = report
    parity("run", "net.py", "--json", "r.json", "--junit", "r.xml", "--save-onnx", "m.onnx")
    assert json.loads((folder / "r.json").read_text()) == report.to_dict()
    assert ElementTree.parse(folder / "r.xml").getroot().tag == "testsuites"
    assert (folder / "m.onnx").read_bytes() == ONNX
    assert names(folder) == ["m.onnx", "net.py", "r.json", "r.xml"]


def test_verbose_shows_more(engine: Engine) -> None:
    engine.result = FAILING
    assert "  └─ act" not in parity("run", "net.py").stdout
    result = parity("run", "net.py", "-v")
    assert "  └─ act" in result.stdout
    assert "noise of a library" in result.stderr
    assert not logging.root.manager.disable


# --- what is wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "missing argument 'MODEL...'"),
        (["run", "absent.py"], "error: no such file: absent.py"),
        (["run", "net"], "did you mean net.py?"),
        (["run", "net.py:other"], "error: net.py defines no `other`"),
        (["run", "net.py", "--dtype", "int8"], "'int8' is not one of 'float32', 'float64', 'float16', 'bfloat16'"),
        (["run", "net.py", "--provider", "tpu"], "unknown provider 'tpu': the installed ONNX Runtime"),
        (["run", "net.py", "--rtol", "-1"], "needed at least 0, given -1.0"),
        (["run", "net.py", "--json", "absent/r.json"], "error: can't write absent/r.json: there is no folder absent"),
        (["run", "net.py", "--junit", "."], "error: can't write .: it is a folder"),
        (["run", "net.py", "--save-onnx", "absent/m.onnx"], "error: can't write absent/m.onnx"),
        (["export", "net.py"], "error: parity export needs -o FILE or --bundle FOLDER"),
        (["export", "net.py", "-o", "absent/m.onnx"], "error: can't write absent/m.onnx"),
        (["export", "absent.py", "-o", "m.onnx"], "error: no such file: absent.py"),
        (["inspect", "absent.py"], "error: no such file: absent.py"),
        (["unknown"], "no such command 'unknown'"),
    ],
)
def test_a_wrong_command_line(engine: Engine, folder: Path, arguments: list[str], message: str) -> None:
    result = parity(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert engine.given == {}
    assert names(folder) == ["net.py"]


def test_paths_are_tried_before_the_model_is_loaded(engine: Engine, folder: Path) -> None:
    (folder / "net.py").write_text("open('loaded', 'w')")
    parity("run", "net.py", "--json", "absent/r.json")
    assert names(folder) == ["net.py"]


def test_a_model_file_that_raises(engine: Engine, folder: Path) -> None:
    (folder / "net.py").write_text("import torch\ntorch.load('absent.pt')\n")
    result = parity("run", "net.py", "--json", "r.json")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error: net.py raised FileNotFoundError while it was loaded:\n  net.py:2: torch.load"
    )
    assert "Traceback" not in result.stderr
    assert "Traceback" in parity("run", "net.py", "-v").stderr
    assert names(folder) == ["net.py"]


def test_a_model_that_cannot_be_converted(engine: Engine, folder: Path) -> None:
    engine.result = ConversionError("2 operators have no mapping: ...")
    result = parity("run", "net.py", "--json", "r.json", "--save-onnx", "m.onnx")
    assert result.exit_code == 3
    assert result.stderr == "error: 2 operators have no mapping: ...\n"
    assert names(folder) == ["net.py"]


def test_a_fault_of_our_own(engine: Engine, folder: Path) -> None:
    engine.result = ZeroDivisionError("division by zero")
    result = parity("run", "net.py", "--json", "r.json", "--save-onnx", "m.onnx")
    assert result.exit_code == 70
    assert "a bug in parity, not in your model: ZeroDivisionError: division by zero" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in parity("run", "net.py", "-v").stderr
    assert names(folder) == ["net.py"]


def test_a_model_that_ends_python(engine: Engine, folder: Path) -> None:
    engine.result = SystemExit(0)
    result = parity("run", "net.py", "--json", "r.json")
    assert result.exit_code == 2
    assert "the model ended Python (sys.exit) while it ran" in result.stderr
    assert names(folder) == ["net.py"]


def test_ctrl_c(engine: Engine, folder: Path) -> None:
    engine.result = KeyboardInterrupt()
    result = parity("run", "net.py", "--json", "r.json", "--save-onnx", "m.onnx")
    assert result.exit_code == 130
    assert result.stderr == "interrupted; no file was left half-written\n"
    assert names(folder) == ["net.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_in_a_running_process(folder: Path) -> None:
    (folder / "net.py").write_text("import time\nopen('loaded', 'w')\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "cellbridge.parity", "export", "net.py", "-o", "m.onnx"]

    def interruptible() -> (
        None
    ):  # a shell that starts this in the background has SIGINT ignored, and children inherit it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=interruptible) as process:
        deadline = time.monotonic() + 60
        while not (folder / "loaded").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == "interrupted; no file was left half-written"  # a slow machine says what it does
    assert "Traceback" not in stderr
    assert names(folder) == ["loaded", "net.py"]


# --- export and inspect --------------------------------------------------------------------------------------------


def test_export_writes_what_was_checked(engine: Engine, folder: Path) -> None:
    result = parity("export", "net.py", "-o", "m.onnx")
    assert result.exit_code == 0
    assert result.stdout.startswith("✓ Parity holds: interpreter (outputs and gradients)")
    assert result.stdout.endswith("\nwrote m.onnx\n")
    assert engine.given["grads"] is True
    assert (folder / "m.onnx").read_bytes() == ONNX


def test_export_writes_nothing_where_parity_fails(engine: Engine, folder: Path) -> None:
    engine.result = FAILING
    (folder / "m.onnx").write_bytes(b"old")
    result = parity("export", "net.py", "-o", "m.onnx")
    assert result.exit_code == 1
    assert "✗ Parity fails in 1 Cell: head" in result.stdout
    assert result.stderr.startswith("error: m.onnx was not written, since parity fails")
    assert (folder / "m.onnx").read_bytes() == b"old"
    assert names(folder) == ["m.onnx", "net.py"]


def test_export_without_gradients(engine: Engine) -> None:
    assert parity("export", "net.py", "-o", "m.onnx", "--no-grad").exit_code == 0
    assert engine.given["grads"] is False


def test_export_unchecked(engine: Engine, folder: Path) -> None:
    result = parity("export", "net.py", "-o", "m.onnx", "--no-check")
    assert (result.exit_code, result.stdout) == (
        0,
        "the ONNX model is of opset 17, the lowest that is written\nwrote m.onnx, unchecked\n",
    )
    assert engine.given == {}
    import onnx

    onnx.checker.check_model(folder / "m.onnx")


def test_inspect(folder: Path) -> None:
    (folder / "net.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Twice(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.inner, self.last = nn.Linear(3, 3), nn.Linear(3, 2, bias=False)\n"
        "        self.last.weight.requires_grad = False\n"
        "    def forward(self, x): return self.last(self.inner(self.inner(x).relu()))\n"
        "model = Twice()\n"
        "inputs = (torch.randn(4, 3),)\n"
    )
    lines = [" ".join(line.split()) for line in parity("inspect", "net.py").stdout.splitlines()]
    assert lines == [
        "Cell class parameters ops",
        "(root) Twice 18 4",
        "├─ inner Linear ×2 12 2",
        "└─ last Linear 6 1",
        "",
        "parameters: 18 elements in 3 parameters, 1 of them frozen",
        "buffers: 0",
        "ops: 4: linear 3, relu 1",
    ]


def test_inspect_shows_an_onnx_file() -> None:
    assert parity("export", "net.py", "-o", "net.onnx", "--no-check").exit_code == 0
    shown = parity("inspect", "net.onnx").stdout
    assert "parameters: 8 elements in 2 parameters\n" in shown
    assert "= linear(" in parity("inspect", "net.onnx", "--ir").stdout


def test_inspect_prints_the_program() -> None:
    text = parity("inspect", "net.py", "--ir").stdout
    assert text.startswith("program Linear(")
    assert "linear(" in text


# --- help ----------------------------------------------------------------------------------------------------------


def test_help_has_the_exit_codes() -> None:
    text = parity("--help").stdout
    for line in (
        "0    parity holds",
        "1    parity fails",
        "2    the command line",
        "3    the model can't be converted",
    ):
        assert f"\n    {line}" in text
    assert "Exit codes: 0 parity holds" in parity("run", "--help").stdout


def test_version() -> None:
    assert parity("--version").stdout.startswith("parity, version ")


def test_a_reader_that_goes_away_is_no_fault(folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "cellbridge.parity", "inspect", "net.py", "--ir"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert "bug in parity" not in done.stderr
    assert "Traceback" not in done.stderr
