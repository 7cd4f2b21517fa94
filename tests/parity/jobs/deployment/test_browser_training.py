"""The page of fixtures/browser trains LeNet in a headless Chromium, and parity judges its steps by torch's.

CELLBRIDGE_NODE_MODULES names a folder with onnxruntime-web; without it, or without Chromium, these tests are skipped.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main
from tests.parity.html.browser import COMMAND, browser, served

PAGE = Path(__file__).parents[4] / "fixtures" / "browser"
NODE = os.environ.get("CELLBRIDGE_NODE_MODULES")
TRAINING = ("--optimizer", "momentum", "--lr", "0.05")
FINISHED = """new Promise(done => { const timer = setInterval(() => {
    if (document.title !== 'Training ...') { clearInterval(timer); done(document.title) }
}, 50) })"""
BYTES = """(() => { let text = ''
    for (let i = 0; i < training.bytes.length; i += 32768)
        text += String.fromCharCode(...training.bytes.subarray(i, i + 32768))
    return btoa(text) })()"""

pytestmark = pytest.mark.skipif(NODE is None or COMMAND is None, reason="no onnxruntime-web or no Chromium")


def parity(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with its step and batches, and torch's recording of 20 steps."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(PAGE, folder, dirs_exist_ok=True)
    model = folder / "lenet.py"
    step = parity("export", model, "--training-step", "--separate-state", *TRAINING, "-o", folder / "step.onnx")
    assert step.exit_code == 0, step.output
    assert step.output.rstrip().endswith("step.safetensors")
    subprocess.run([sys.executable, str(model)], cwd=folder, check=True)
    recorded = parity("record", model, "--steps", "20", *TRAINING, "-o", folder / "torch.rec")
    assert recorded.exit_code == 0, recorded.output
    return folder


@pytest.fixture
def page(exported: Path, tmp_path: Path) -> Path:
    shutil.copytree(exported, tmp_path / "page", ignore=shutil.ignore_patterns("torch.rec"))
    (tmp_path / "page" / "node_modules").symlink_to(str(NODE))
    return tmp_path / "page"


def train(page: Path) -> Path:
    """Open the page, wait until it has trained, and return the folder of its recording."""
    with served(page) as address, browser() as chromium:
        chromium.open(f"{address}/train.html")
        title = chromium.run(FINISHED)
        assert title == "Trained", chromium.run("document.getElementById('status').textContent")
        assert len(chromium.run("training.losses")) == 20
        assert chromium.run("document.getElementById('curve').getAttribute('points').split(' ').length") == 20
        assert chromium.run("[...document.querySelectorAll('#files a')].map(a => a.download)") == [
            "recording.json", "steps.safetensors",
        ]  # fmt: skip
        text, data = chromium.run("training.text"), chromium.run(BYTES)
        assert chromium.complaints == []
        assert all(url.startswith(("http://localhost:", "data:", "blob:")) for url in chromium.requests)
    folder = page / "browser.rec"
    folder.mkdir()
    (folder / "recording.json").write_text(text)
    (folder / "steps.safetensors").write_bytes(base64.b64decode(data))
    return folder


def test_twenty_steps_are_those_of_torch(exported: Path, page: Path) -> None:
    result = parity("judge", exported / "torch.rec", train(page))
    assert result.exit_code == 0, result.output
    assert "6 pass" in result.output


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("train.html", lambda text: text.replace("LEARNING_RATE = 0.05", "LEARNING_RATE = 0.0501")),
        ("train.mjs", lambda text: text.replace("batches.get(name), step,", "batches.get(name), 0,")),
    ],
)
def test_another_training_is_not(exported: Path, page: Path, file: str, change: Callable[[str], str]) -> None:
    text = (page / file).read_text()
    changed = change(text)
    assert changed != text
    (page / file).write_text(changed)
    result = parity("judge", exported / "torch.rec", train(page))
    assert result.exit_code == 1, result.output
