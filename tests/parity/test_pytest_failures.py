"""Errors of ours in pytest's output: the lines of the test, what was wrong, and the cause in the short summary."""

from __future__ import annotations

import pytest
import torch

from cellbridge import parity
from cellbridge.parity.checking import engine

pytest_plugins = ["pytester"]

TEST = """
import torch
from cellbridge import parity

class Block(torch.nn.Module):
    def __init__(self, approximate="none"):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.act = torch.nn.Linear(4, 3), torch.nn.GELU(approximate)
    def forward(self, x):
        return self.act(self.fc(x))

def test_port():
    parity.assert_parity(Block(), Block("tanh"), (torch.ones(2, 4),), probe=False)

def test_size():
    parity.assert_parity(Block(), Block(), (torch.ones(2, 5),))
"""


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported() -> None:
    """What a run of pytester imports is forgotten after it, and torch can't be imported a second time."""
    parity.compare(torch.nn.GELU(), torch.nn.GELU("tanh"), (torch.ones(2),), probe=False)


@pytest.fixture(autouse=True)
def _a_test_in_a_wide_terminal(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    pytester.makepyfile(test_it=TEST)


@pytest.mark.causes
def test_the_short_summary_has_the_cause(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("-k", "port")
    result.stdout.fnmatch_lines(
        ["FAILED test_it.py::test_port - act: approximate is 'tanh' in the candidate, 'none' in the reference"]
    )
    assert max(len(line) for line in result.outlines if line.startswith("E ")) <= 80


def test_an_error_for_users_has_no_frame_of_ours(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("-k", "size")
    result.stdout.fnmatch_lines(
        [
            "*UsageError: the model doesn't run on its inputs (float32[[]2, 5]): RuntimeError: *",
            "*at *test_it.py:*",
            "FAILED test_it.py::test_size - the model doesn't run on its inputs (float32[[]2, 5])*",
        ]
    )
    assert "torch_side" not in str(result.stdout)
    assert "torch_side" in str(pytester.runpytest_inprocess("-k", "size", "--full-trace").stdout)


def test_a_fault_of_ours_keeps_its_frames(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "judge_all_inputs", lambda *arguments: 1 // 0)
    result = pytester.runpytest_inprocess("-k", "size")
    result.stdout.fnmatch_lines(["*engine.py:*", "*ZeroDivisionError*"])
