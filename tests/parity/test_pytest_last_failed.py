"""The options of pytest that remember tests: they know the items of model files again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from cellbridge.recorder import Recorder

pytest_plugins = ["pytester"]

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module({name!r}, torch.nn.Linear(3, 3))
        torch.nn.init.constant_(getattr(self, {name!r}).weight, 0.5)
        torch.nn.init.zeros_(getattr(self, {name!r}).bias)

    def forward(self, x):
        return getattr(self, {name!r})(x).relu()

model = Net()
inputs = (torch.ones(2, 3),)
recording = "other.rec"
"""
NAMES = ["linear", "a[0]", "b::c"]


def write(folder: Path, name: str, factor: float) -> None:
    shutil.rmtree(folder / "other.rec", ignore_errors=True)
    (folder / "parity_net.py").write_text(MODEL.format(name=name))
    space: dict[str, torch.nn.Module] = {}
    exec(MODEL.format(name=name), space)
    getattr(space["model"], name).weight.data *= factor
    with Recorder(folder / "other.rec") as recorder, recorder.torch(space["model"]):
        space["model"](torch.ones(2, 3).requires_grad_()).sum().backward()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every(3)
def test_a_failing_cell_is_run_again_beside_another_failing_test(pytester: pytest.Pytester, name: str) -> None:
    write(pytester.path, name, 1.5)
    (pytester.path / "test_other.py").write_text("def test_other(): assert False\n")
    pytester.runpytest_inprocess().assert_outcomes(passed=1, failed=2)
    again = pytester.runpytest_inprocess("--lf")
    again.assert_outcomes(failed=2)
    again.stdout.fnmatch_lines(["*2 failures*"])


def test_a_cell_that_was_mended_leaves_the_last_failures(pytester: pytest.Pytester) -> None:
    write(pytester.path, "linear", 1.5)
    (pytester.path / "test_other.py").write_text("def test_other(): assert False\n")
    pytester.runpytest_inprocess()
    write(pytester.path, "linear", 1.0)
    pytester.runpytest_inprocess("--lf").assert_outcomes(passed=1, failed=1)
    pytester.runpytest_inprocess("--lf").assert_outcomes(failed=1)
