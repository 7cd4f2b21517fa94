"""Recurrent cells written by hand: exchanged gates are named, and what is only another program is no cause."""

from __future__ import annotations

import copy
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from cellbridge import parity
from cellbridge.parity.causes.array_relations import relation
from cellbridge.parity.causes.diagnose import Diagnosis
from cellbridge.parity.report import repro
from cellbridge.parity.results.cause import Cause
from cellbridge.parity.results.cell_report import NOT_FOUND
from tests.parity.causes.reproduction.scripts import run_here

pytestmark = pytest.mark.causes

X = torch.linspace(-2, 2, 2 * 3 * 6).reshape(2, 3, 6)
NAMES = "rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0 and rnn.bias_hh_l0"


class Layer(nn.Module):
    def __init__(self, kind: type[nn.RNNBase] = nn.LSTM) -> None:
        super().__init__()
        self.rnn = kind(6, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.rnn(x)[0][:, -1]
        return result


class ByHand(Layer):
    """The LSTM with its gates in any order; `i, f, g, o` is the right one."""

    def __init__(self, gates: str) -> None:
        super().__init__()
        self._gates = gates

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w, u, b, c = self.rnn._flat_weights
        h = s = x.new_zeros(x.shape[0], 8)
        for step in x.unbind(1):
            named = dict(
                zip(self._gates, (functional.linear(step, w, b) + functional.linear(h, u, c)).chunk(4, 1), strict=True)
            )
            s = torch.sigmoid(named["f"]) * s + torch.sigmoid(named["i"]) * torch.tanh(named["g"])
            h = torch.sigmoid(named["o"]) * torch.tanh(s)
        return h


class InOneLoop(nn.Module):
    """The same in one Cell on both sides, of which the candidate reads two gates in each other's place."""

    def __init__(self, gates: str) -> None:
        super().__init__()
        self.ih, self.hh, self._gates = nn.Linear(6, 32), nn.Linear(8, 32), gates

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = s = x.new_zeros(x.shape[0], 8)
        for step in x.unbind(1):
            named = dict(zip(self._gates, (self.ih(step) + self.hh(h)).chunk(4, 1), strict=True))
            s = torch.sigmoid(named["f"]) * s + torch.sigmoid(named["i"]) * torch.tanh(named["g"])
            h = torch.sigmoid(named["o"]) * torch.tanh(s)
        return h


def seeded(make: type[nn.Module], *args: str) -> nn.Module:
    torch.manual_seed(0)
    return make(*args)


def shown(report: parity.Report) -> str:
    return " ".join(str(report).split())


@pytest.mark.slow
@pytest.mark.parametrize("gates", ["figo", "ifog", "oigf"])
@pytest.mark.every(3)
def test_exchanged_gates_are_named(gates: str) -> None:
    report = parity.compare(seeded(Layer), seeded(ByHand, gates), (X,))
    (cause,) = report.cells[report.failing[0]].causes
    order = ", ".join(str(gates.index(gate)) for gate in "ifgo")
    assert cause.summary == f"the 4 blocks of rows of {NAMES} are read in the order {order} in the candidate"
    assert cause.gradients
    assert cause.error < 1e-12


def test_the_same_gates_hold() -> None:
    assert parity.compare(seeded(Layer), seeded(ByHand, "ifgo"), (X,)).ok


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.every(2)
def test_weights_with_their_gates_in_another_order_are_named(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    reference = Layer(kind)
    candidate = copy.deepcopy(reference)
    for parameter in candidate.parameters():
        first, second, *rest = parameter.data.split(8)
        parameter.data = torch.cat([second, first, *rest])
    (cause,) = parity.compare(reference, candidate, (X,)).cells["rnn"].causes
    count, order = (4, "1, 0, 2, 3") if kind is nn.LSTM else (3, "1, 0, 2")
    assert cause.summary == f"{NAMES} each has its {count} blocks along axis 0 in the order {order} in the candidate"


@pytest.mark.parametrize("count", [3, 4])
def test_an_order_of_blocks_is_said(count: int) -> None:
    blocks = np.arange(count * 6.0).reshape(count, 3, 2) ** 2
    for order in permutations(range(count)):
        words = relation(blocks.reshape(-1, 2), blocks[list(order)].reshape(-1, 2))
        listed = ", ".join(map(str, order))
        assert (
            order == tuple(range(count)) or "rolled" in words or "halves" in words or words.endswith(f"order {listed}")
        )
    assert "blocks" not in relation(np.arange(6.0), np.arange(6.0)[[0, 2, 1, 3, 5, 4]])


class Polynomial(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x)
        return torch.tanh(y) * x + torch.sigmoid(x) / (1 + y * y)


class Waves(Polynomial):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x)
        return torch.sin(3 * y).cumsum(-1) * torch.cos(x).flip(0) - torch.exp(-y * y) + torch.atan(x * y).abs()


@pytest.mark.slow
def test_another_program_is_no_cause() -> None:
    report = parity.compare(seeded(Polynomial), seeded(Waves), (X,))
    assert report.failing == [""]
    assert report.cells[""].causes == []
    assert NOT_FOUND in report.cells[""].explanations
    assert NOT_FOUND in shown(report)
    assert "proved" not in shown(report)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [(seeded(Layer), seeded(ByHand, "figo")), (seeded(InOneLoop, "ifgo"), seeded(InOneLoop, "figo"))],
    ids=["another program", "another slice"],
)
@pytest.mark.slow
def test_a_reproduction_compares_one_place_of_both_sides(
    reference: nn.Module, candidate: nn.Module, tmp_path: Path
) -> None:
    """Not two initial states, or two tensors of other shapes, that aren't each other's."""
    report = parity.compare(reference, candidate, (X,))
    (folder,) = repro.write(report, tmp_path / "repro").folders.values()
    script = tmp_path / "repro" / folder / "repro.py"
    printed = run_here(script).stdout
    assert "the shapes differ" not in printed
    assert "largest difference" in printed
    text = script.read_text(encoding="utf-8")
    body = text[text.index("def candidate(") : text.index("\n\n\nt = load")]
    assert "sigmoid" in body
    # with the reference in the candidate's place it holds
    (expected,) = re.findall("^expected = (.*)$", text, re.MULTILINE)
    script.write_text(re.sub("(?m)^found = .*$", f"found = {expected}", text), encoding="utf-8")
    assert run_here(script).returncode == 0


class Attention(nn.Module):
    """With a bias for what is read and one for where it is, as in Transformer-XL."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.p, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, p = (layer(x).unflatten(-1, (2, 4)) for layer in (self.q, self.k, self.p))
        content, place = torch.einsum("bihd,bjhd->bijh", q + u, k), torch.einsum("bihd,bjhd->bijh", q + v, p)
        shares = torch.softmax((content + place) / 2, dim=2)
        result: torch.Tensor = self.out(torch.einsum("bijh,bjhd->bihd", shares, k).flatten(2))
        return result


class Exchanged(Attention):
    def forward(self, x: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, p = (layer(x).view(*x.shape[:2], 2, 4).transpose(1, 2) for layer in (self.q, self.k, self.p))
        scores = (q + v[:, None]) @ k.mT + (q + u[:, None]) @ p.mT
        result: torch.Tensor = self.out(((scores * 0.5).softmax(-1) @ k).transpose(1, 2).flatten(2))
        return result


class Layers(nn.Module):
    def __init__(self, kind: type[Attention]) -> None:
        super().__init__()
        self.u, self.v = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.randn(2, 4))
        self.layers = nn.ModuleList(kind() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x, self.u, self.v)
        return x


@pytest.mark.slow
def test_what_explains_a_cell_is_tried_first_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    trials: list[int] = []
    causes_of = Diagnosis.causes

    def counting(self: Diagnosis, path: str, class_name: str) -> list[Cause]:
        before = self.evidence.budget.trials
        causes = causes_of(self, path, class_name)
        trials.append(self.evidence.budget.trials - before)
        return causes

    monkeypatch.setattr(Diagnosis, "causes", counting)
    torch.manual_seed(0)
    reference, candidate = Layers(Attention), Layers(Exchanged)
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (torch.randn(2, 5, 8),), probe=False)
    summaries = [cause.summary for path in report.failing for cause in report.cells[path].causes]
    assert len(summaries) == 3
    assert all(summary.endswith("the input u and the input v are exchanged in the candidate") for summary in summaries)
    assert max(trials[1:]) < trials[0] / 4
