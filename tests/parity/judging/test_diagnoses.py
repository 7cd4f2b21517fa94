"""Causes in networks that can't be captured as a whole: each failing Cell is read alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from tests.parity.causes.reproduction.scripts import run_here

pytestmark = pytest.mark.causes


class Opaque(nn.Module):
    """A Cell that can't be captured, since it reads its input with NumPy."""

    def forward(self, x: Tensor) -> Tensor:
        return x * float(abs(x.detach().numpy()).max())


class Block(nn.Module):
    """A Cell that is called twice, with an argument that is no tensor."""

    def __init__(self, tied: nn.Parameter) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.tied = tied
        self.scale = 2.0

    def forward(self, x: Tensor, *, shifted: bool) -> Tensor:
        result: Tensor = self.norm(x @ self.tied) * self.scale + (1.0 if shifted else 0.0)
        return result


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.opaque = Opaque()
        self.block = Block(self.first.weight)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.opaque(self.first(x))
        result: Tensor = self.last(self.block(self.block(x, shifted=False), shifted=True))
        return result


def scale(network: Any) -> None:
    network.block.scale = 3.0


def eps(network: Any) -> None:
    network.block.norm.eps = 1e-3


def weight(network: Any) -> None:
    network.last.weight.data[1, 2] += 0.5


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        (scale, "block", "scale is 3.0 in the candidate, 2.0 in the reference"),
        (eps, "block.norm", "eps is 0.001 in the candidate, 1e-05 in the reference"),
        (weight, "last", "last.weight"),
    ],
)
@pytest.mark.every(3)
def test_the_cause_is_found_in_a_cell_that_is_read_alone(change: Callable[[Any], None], path: str, words: str) -> None:
    torch.manual_seed(0)
    reference = Network()
    candidate = copy.deepcopy(reference)
    change(candidate)
    report = parity.compare(reference, candidate, (torch.randn(3, 4),))
    assert report.failing == [path]
    (cause,) = report.cells[path].causes
    assert words in cause.summary
    assert any("can't be read as a program, so each failing Cell was read alone" in note for note in report.notes)


def test_a_cell_that_can_not_be_read_alone_has_no_cause_of_its_program() -> None:
    class Other(Opaque):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 1.25

    reference = nn.Sequential(nn.Linear(4, 4), Opaque())
    candidate = nn.Sequential(reference[0], Other())
    report = parity.compare(reference, candidate, (torch.randn(3, 4),))
    assert report.failing == ["1"]
    assert report.cells["1"].causes == []


class Choice(nn.Module):
    """A Cell with a branch and a loop."""

    def __init__(self) -> None:
        super().__init__()
        self._eps, self._factor = 1e-5, 0.5

    def forward(self, x: Tensor) -> Tensor:
        def norm(x: Tensor) -> Tensor:
            return nn.functional.layer_norm(x, (4,), eps=self._eps)

        def body(step: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return step + 1, y * self._factor + x

        x = torch.cond(x.sum() > 0, norm, torch.neg, (x,))
        start = torch.zeros((), dtype=torch.int64)
        result: Any = torch.while_loop(lambda step, y: step < 3, body, (start, x.clone()))
        return result[1]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("_eps", 1e-3, "in the then branch of cond, eps is 0.001 in the candidate, 1e-05 in the reference"),
        ("_factor", 0.25, "in the body of loop, the number in mul is 0.25 in the candidate, 0.5 in the reference"),
    ],
)
@pytest.mark.every(2)
def test_what_differs_inside_a_branch_or_a_loop_is_named(name: str, value: float, words: str, tmp_path: Path) -> None:
    reference, candidate = Choice(), Choice()
    setattr(candidate, name, value)
    report = parity.compare(reference, candidate, (torch.rand(3, 4),))
    (cause,) = report.cells[""].causes
    assert cause.summary == words
    report.write_repro(tmp_path / "repro")
    (script,) = (tmp_path / "repro").glob("*/repro.py")
    assert run_here(script).returncode == 1
