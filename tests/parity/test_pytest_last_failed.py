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
    second_run = pytester.runpytest_inprocess("--lf")
    second_run.assert_outcomes(failed=2)
    second_run.stdout.fnmatch_lines(["*2 failures*"])


def test_a_cell_that_was_mended_leaves_the_last_failures(pytester: pytest.Pytester) -> None:
    write(pytester.path, "linear", 1.5)
    (pytester.path / "test_other.py").write_text("def test_other(): assert False\n")
    pytester.runpytest_inprocess()
    write(pytester.path, "linear", 1.0)
    pytester.runpytest_inprocess("--lf").assert_outcomes(passed=1, failed=1)
    pytester.runpytest_inprocess("--lf").assert_outcomes(failed=1)


def failing_beside_passing(folder: Path, name: str) -> None:
    """Write a model file whose Cell fails, and test files before and after it that pass, or fail."""
    write(folder, name, 1.5)
    (folder / "parity_a.py").write_text(MODEL.format(name="linear").replace('recording = "other.rec"', ""))
    (folder / "test_other.py").write_text("def test_good(): pass\ndef test_other(): assert False\n")


def outcomes(result: pytest.RunResult) -> list[tuple[str, bool]]:
    """Return the files of the tests that ran, in order, and whether each passed."""
    lines = [line.split() for line in result.outlines if "::" in line and (" PASSED" in line or " FAILED" in line)]
    return [(line[0].partition("::")[0], "PASSED" in line) for line in lines if not line[0].startswith("FAILED")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every(3)
def test_failed_first(pytester: pytest.Pytester, name: str) -> None:
    failing_beside_passing(pytester.path, name)
    first = outcomes(pytester.runpytest_inprocess("-v"))
    second_outcomes = outcomes(pytester.runpytest_inprocess("-v", "--ff"))
    assert second_outcomes[:2] == [("parity_net.py", False), ("test_other.py", False)]
    assert sorted(second_outcomes) == sorted(first)
    assert len(second_outcomes) > 4


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every(3)
def test_new_first(pytester: pytest.Pytester, name: str) -> None:
    """Nothing is new in a second run; a model file that is written after it is."""
    failing_beside_passing(pytester.path, name)
    first = pytester.runpytest_inprocess("-v", "--nf")
    (pytester.path / "parity_z.py").write_text((pytester.path / "parity_a.py").read_text())
    second_outcomes = outcomes(pytester.runpytest_inprocess("-v", "--nf"))
    assert second_outcomes[0] == ("parity_z.py", True)
    assert sorted(outcome for outcome in second_outcomes if outcome[0] != "parity_z.py") == sorted(outcomes(first))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every(3)
def test_stepwise(pytester: pytest.Pytester, name: str) -> None:
    """Each run stops at the failing Cell until it is mended, and then at the next failure."""
    failing_beside_passing(pytester.path, name)
    assert outcomes(pytester.runpytest_inprocess("-v", "--sw"))[-1] == ("parity_net.py", False)
    assert outcomes(pytester.runpytest_inprocess("-v", "--sw")) == [("parity_net.py", False)]
    write(pytester.path, name, 1.0)
    second_outcomes = outcomes(pytester.runpytest_inprocess("-v", "--sw"))
    assert second_outcomes[0] == ("parity_net.py", True)
    assert second_outcomes[-1] == ("test_other.py", False)
    assert outcomes(pytester.runpytest_inprocess("-v", "--sw")) == [("test_other.py", False)]
