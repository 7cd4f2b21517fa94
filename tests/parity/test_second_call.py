"""A second call reveals state that the other side doesn't have."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.runtime import UsageError

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
KEPT: list[torch.Tensor] = []


class Counts(nn.Module):
    def __init__(self, step=1) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.calls, self.step = 0, step

    def forward(self, x):
        self.calls += self.step
        return self.linear(x) * (1 + self.calls)


def calls() -> int:
    KEPT.append(torch.zeros(()))
    return len(KEPT)


class UsesAGlobal(nn.Module):
    def forward(self, x):
        return x * calls()


class Statistics(nn.Module):
    """A mean that moves, in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        y = x - self.mean
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return y


def test_hidden_state_fails():
    report = parity.check(Counts(), (X,))
    assert report.failing == [""]
    assert {c.feeding for c in report.cells[""].failures} == {"second call"}
    (explanation,) = report.cells[""].explanations
    assert "register_buffer" in explanation
    assert explanation[:40] in " ".join(str(report).split())


def test_what_changes_from_run_to_run_is_told():
    """There would be no truth to judge by: it passed, by the rounding error that the differences were taken for."""
    with pytest.raises(UsageError, match="returns another output result when it is run again"):
        parity.check(UsesAGlobal(), (X,))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(2)
def test_state_in_buffers_is_carried_over(train):
    module = nn.Sequential(Statistics(), nn.BatchNorm1d(3), nn.Dropout(0.5))
    report = parity.check(module, (X,), train=train)
    assert report.ok, str(report)
    assert any(c.feeding == "second call" and c.kind == "output" for c in report.cells[""].comparisons)


def test_a_counter_that_changes_nothing_passes():
    assert parity.check(Counts(step=0), (X,)).ok


def test_both_sides_may_keep_the_same():
    reference = Counts()
    candidate = Counts()
    candidate.load_state_dict(reference.state_dict())
    assert parity.compare(reference, candidate, (X,)).ok
    candidate.step = 2
    candidate.calls = -1
    assert not parity.compare(reference, candidate, (X,)).ok


def test_a_program_that_does_not_write_its_buffer_is_found():
    """Planted: its first call is right."""
    module = Statistics()
    program = from_torch(module, (X,))
    frozen = program.replace(buffers={})
    constant = program.buffers["mean"]
    from cellbridge.runtime.ir.types import Constant

    frozen = frozen.replace(constants=(*program.constants, Constant(constant.value, np.zeros(3, np.float32))))
    assert not parity.compare(module, frozen, (X,)).ok


def test_inputs_that_allow_no_other_numbers_are_taken_again():
    class Positive(nn.Module):
        def forward(self, x):
            return torch.linalg.cholesky(x)

    x = torch.eye(3) + 0.9 * (1 - torch.eye(3)) + torch.eye(3) * 0.01
    assert parity.check(Positive(), (x,), grads=False).ok


def test_export_writes_nothing(tmp_path: Path):
    from click.testing import CliRunner

    from cellbridge.parity.cli import main

    model = tmp_path / "counts.py"
    model.write_text(
        "import torch\n"
        "class Counts(torch.nn.Module):\n"
        "    calls = 0\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.calls = 0\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        return x * self.calls\n"
        "model = Counts\n"
        "inputs = (torch.ones(2, 3),)\n"
    )
    result = CliRunner().invoke(main, ["export", str(model), "-o", str(tmp_path / "counts.onnx")])
    assert result.exit_code == 1
    assert not (tmp_path / "counts.onnx").exists()


def test_the_cell_that_keeps_state_is_named():
    class Two(nn.Module):
        def __init__(self, step) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), Counts(step)

        def forward(self, x):
            return self.second(self.first(x)).sum(-1)

    reference, candidate = Two(0), Two(0)
    candidate.load_state_dict(reference.state_dict())
    candidate.second.register_forward_hook(lambda module, _, __: setattr(module, "step", 1))
    report = parity.compare(reference, candidate, (X,))
    assert report.failing == ["second"]
    assert {c.probe for c in report.cells["second"].failures} == {"another call before"}


class Centered(nn.Module):
    """A module that keeps a moving mean of its inputs in eval mode too, and subtracts it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        return x - self.mean


def test_gradients_of_later_calls_are_those_of_the_buffers_that_earlier_ones_leave() -> None:
    module = nn.Sequential(nn.Linear(4, 4), Centered(), nn.Linear(4, 2))
    for report in (
        parity.check(module, (torch.randn(5, 4),), probe=True),
        parity.compare(module, from_torch(module, (torch.randn(5, 4),)), (torch.randn(5, 4),), probe=True),
    ):
        assert report.ok, str(report)
        assert "other calls before" in report.probes
