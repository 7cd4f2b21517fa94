"""`parity sweep`, as people use it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cellbridge.parity.jobs.sweeping.result import OUTCOMES, Outcome, Result
from cellbridge.parity.jobs.sweeping.run_options import RunOptions
from cellbridge.parity.jobs.sweeping.store import Store

HEAD = "import torch\nfrom torch import nn\ndef inputs(): return (torch.ones(2, 4),)\n"
GOOD = HEAD + "def model(): return nn.Linear(4, 3)\n"
BAD = f"""from cellbridge.runtime import nn as ms
{HEAD}
def model(): return nn.Sequential(nn.Linear(4, 3), nn.GELU())
def cell(): return ms.SequentialCell(ms.Dense(4, 3), ms.GELU())
"""


def sweep(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cellbridge.parity", "sweep", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A folder with models of every outcome, and what judging them printed."""
    folder = tmp_path_factory.mktemp("sweep")
    models = {
        "good.py": GOOD,
        "bad.py": BAD,
        "exits.py": "import os\ndef model(): os._exit(0)\ninputs = ()\n",
        "raises.py": "def model(): raise ValueError('no weights here')\ninputs = ()\n",
        "hangs.py": "import os, time\ndef model():\n    os.chdir('/')\n    time.sleep(1000)\ninputs = ()\n",
    }
    (folder / "zoo").mkdir()
    for name, text in models.items():
        (folder / "zoo" / name).write_text(text)
    files = ["--html", "pages", "--json", "s.json", "--junit", "s.xml"]
    return folder, sweep("zoo", "--case-seconds", "20", "--workers", "2", *files, "--", "--no-probe", cwd=folder)


def test_every_model_has_a_result_and_is_not_judged_again(swept: tuple[Path, Any]) -> None:
    folder, done = swept
    assert done.returncode == 1, done.stdout + done.stderr
    outcomes = {name: result.outcome for name, result in Store.read(folder / "sweep.db").results().items()}
    assert outcomes == {
        "zoo/bad.py": "fails", "zoo/exits.py": "not judged", "zoo/good.py": "holds", "zoo/hangs.py": "not judged",
        "zoo/raises.py": "not judged",
    }  # fmt: skip
    assert "? zoo/exits.py: its process ended by itself, with exit code 0 and without a report" in done.stdout
    assert "? zoo/hangs.py: it took more than 20 s, and was stopped" in done.stdout
    assert "no weights here" in done.stdout
    assert "5 models: 1 fails, 3 not judged, 1 holds" in done.stdout
    assert_views(folder)
    assert_nothing_is_judged_again(folder)


def assert_views(folder: Path) -> None:
    document = json.loads((folder / "s.json").read_text())
    assert document["counts"] == {"holds": 1, "unclear": 0, "not judged": 3, "fails": 1}
    assert document["options"] == ["--no-probe"]
    suite = ElementTree.parse(folder / "s.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "1", "3")
    overview = (folder / "pages" / "index.html").read_text()
    pages = [file.name for file in (folder / "pages").iterdir() if file.name != "index.html"]
    assert len(pages) == 2
    assert all(f'href="{name}"' in overview for name in pages)


def assert_nothing_is_judged_again(folder: Path) -> None:
    started = time.monotonic()
    done = sweep("zoo", "--", "--no-probe", cwd=folder)
    assert "5 of 5 models have a result already" in done.stdout
    assert done.returncode == 1
    assert time.monotonic() - started < 15


@pytest.mark.slow
def test_failed_models_are_judged_again_on_request(swept: tuple[Path, Any]) -> None:
    folder, _ = swept
    (folder / "again.db").write_bytes((folder / "sweep.db").read_bytes())
    (folder / "zoo" / "exits.py").write_text(GOOD)
    done = sweep("zoo/exits.py", "zoo/good.py", "-o", "again.db", "--rerun", "failed", "--", "--no-probe", cwd=folder)
    assert "1 of 2 models have a result already" in done.stdout
    assert done.returncode == 0, done.stdout
    compared = sweep("--compare", "sweep.db", "again.db", cwd=folder)
    assert "better: zoo/exits.py: not judged → holds" in compared.stdout
    assert "1 better, 4 as before" in compared.stdout
    assert compared.returncode == 0
    worse = sweep("--compare", "again.db", "sweep.db", cwd=folder)
    assert "worse: zoo/exits.py: holds → not judged (its process ended by itself" in worse.stdout
    assert worse.returncode == 1


@pytest.mark.slow
def test_an_interrupted_sweep_keeps_what_was_done(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    (tmp_path / "b.py").write_text("import time\ntime.sleep(1000)\n")
    command = [sys.executable, "-m", "cellbridge.parity", "sweep", "a.py", "b.py", "--workers", "1"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell ignores in the background
    )  # fmt: skip
    assert process.stdout is not None
    assert "1 of 2  a.py" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted: 1 of 2 were judged; the same command goes on" in errors
    assert list(Store.read(tmp_path / "sweep.db").results()) == ["a.py"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.py", "--", "--no-such-option"], "no such option: --no-such-option"),
        (["a.py", "--", "--html", "x"], "--html is for one model: give it before --"),
        (["a.py", "--", "b.py"], "after -- there are options of parity run, not models: 'b.py'"),
        (["a.py", "--rerun", "all", "--changed-since", "HEAD"], "both say what to judge again"),
        (["a.py", "--ray", "auto", "--workers", "2"], "Ray says how many run at a time"),
        (["a.py", "--ray", "nowhere"], "needed auto, local or HOST:PORT"),
        (["a.py", "--ray", "127.0.0.1:1"], "nothing answers there"),
        (["a.py", "--case-memory", "much"], "needed a size such as"),
        (["a.py", "-o", "none/s.db"], "there is no folder none"),
        (["--compare", "a.db"], "--compare needs two files"),
        (["--compare", "a.db", "b.db"], "no such file: a.db"),
    ],
)
@pytest.mark.every(6)
def test_wrong_command_lines(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    done = sweep(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr


def _result(model: str, outcome: Outcome, reason: str = "", seconds: float = 1.0) -> Result:
    code = next(code for code, meaning in OUTCOMES.items() if meaning == outcome)
    return Result(model, outcome, reason, code, seconds, 10**6)


def test_two_sweeps_compared(tmp_path: Path) -> None:
    before = [
        _result("same", "holds"),
        _result("slow", "holds"),
        _result("other", "fails", "in a"),
        _result("gone", "holds"),
    ]
    after = [
        _result("same", "holds"), _result("slow", "holds", seconds=9.0), _result("other", "fails", "in b"),
        _result("new", "fails"),
    ]  # fmt: skip
    for name, results, version in (("old.db", before, "1"), ("new.db", after, "2")):
        with Store.write(tmp_path / name, RunOptions(), {"torch": version}) as store:
            for result in results:
                store.add(result)
    done = sweep("--compare", "old.db", "new.db", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "torch: 1 → 2",
        "otherwise: other: fails → fails (in b)",
        "slower: slow: 1.0 s → 9.0 s",
        "1 otherwise, 2 as before, 1 new, 1 gone",
    ]
