"""Causes of faults in copies of a torch module: each is named, proved, and the only one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.cause import Cause

pytestmark = pytest.mark.causes


class Block(nn.Module):
    """A residual block whose forward can be wrong in several ways."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.fc1 = nn.Linear(width, width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(width, width)
        self._fault = ""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._fault == "Cell left out":
            return x + self.fc2(self.fc1(self.norm(x))) * 0.5
        y = self.fc2(self.act(self.fc1(self.norm(x))))
        match self._fault:
            case "number":
                return x + y * 0.25
            case "residual":
                return y * 0.5
            case "detached":
                return x + y.detach() * 0.5
            case "sign":
                return x - y * 0.5
            case "activation too many":
                return functional.relu(x) + y * 0.5
            case "spelled differently":
                return torch.add(torch.multiply(y, 0.5), x)
        return x + y * 0.5


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = Block(6), Block(6)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.second(self.first(x)) * mask, mask + 1


def report_on(*changes: Callable[[Network], None], **options: Any) -> Report:
    reference = Network()
    candidate = copy.deepcopy(reference)
    for change in changes:
        change(candidate)
    torch.manual_seed(1)
    return parity.compare(reference, candidate, (torch.randn(3, 6), torch.randn(3, 6)), **options)


def eps(network: Network) -> None:
    network.first.norm.eps = 1e-5


def fault(name: str) -> Callable[[Network], None]:
    def change(network: Network) -> None:
        network.second._fault = name

    return change


def weight(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Network], None]:
    def of_network(network: Network) -> None:
        network.first.fc1.weight.data = change(network.first.fc1.weight.data).contiguous()

    return of_network


def one_element(w: torch.Tensor) -> torch.Tensor:
    w = w.clone()
    w[2, 3] += 1
    return w


def other_gelu(network: Network) -> None:
    network.first.act = nn.GELU("tanh")


def relu(network: Network) -> None:
    network.first.act = nn.ReLU()


def no_bias(network: Network) -> None:
    network.first.fc1.bias = None


def frozen(network: Network) -> None:
    network.first.fc1.weight.requires_grad_(False)


def exchanged(network: Network) -> None:
    network.first.fc1.weight.data = network.second.fc1.weight.data.clone()


CAUSES = {
    "eps": (eps, "first.norm", "attribute", "eps is 1e-05 in the candidate, 1e-06 in the reference"),
    "gelu": (other_gelu, "first.act", "attribute", "approximate is 'tanh' in the candidate, 'none' in the reference"),
    "relu": (relu, "first.act", "structure", "the Cell is of class ReLU in the candidate, GELU in the reference"),
    "bias": (no_bias, "first.fc1", "structure", "bias of linear is absent in the candidate, first.fc1.bias in the"),
    "frozen": (frozen, "first.fc1", "gradient", "first.fc1.weight is frozen in the candidate only"),
    "transposed": (weight(torch.t), "first.fc1", "weight", "first.fc1.weight is transposed in the candidate"),
    "negated": (weight(torch.neg), "first.fc1", "weight", "first.fc1.weight is negated in the candidate"),
    "scaled": (weight(lambda w: w * 1.5), "first.fc1", "weight", "is multiplied by 1.5 in the candidate"),
    "reversed": (weight(lambda w: w.flip(0)), "first.fc1", "weight", "is reversed along axis 0 in the candidate"),
    "element": (weight(one_element), "first.fc1", "weight", "differs in 1 element, [2, 3], which is"),
    "exchanged": (exchanged, "first.fc1", "weight", "first.fc1.weight has the values of second.fc1.weight in"),
    "number": (fault("number"), "second", "attribute", "the number in mul is 0.25 in the candidate, 0.5 in the"),
    "residual": (fault("residual"), "second", "structure", "the residual, the input x, isn't added in the candidate"),
    "detached": (fault("detached"), "second", "gradient", "a gradient is stopped (detach) in the candidate only"),
    "sign": (fault("sign"), "second", "structure", "sub is computed in the candidate, add in the reference"),
    "activation": (
        fault("activation too many"),
        "second",
        "structure",
        "relu is computed in the candidate in addition",
    ),
    "Cell": (fault("Cell left out"), "second", "structure", "second.act is left out of the candidate"),
}


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.every(18)
def test_the_cause_is_named(name: str) -> None:
    change, path, kind, summary = CAUSES[name]
    report = report_on(change)
    (cause,) = report.cells[path].causes
    assert cause.kind == kind
    assert summary in cause.summary
    assert cause.error < 1e-14
    assert cause.gradients
    assert {p for p, cell in report.cells.items() if cell.causes} == {path}


def test_where_it_is_and_what_to_do() -> None:
    (cause,) = report_on(eps).cells["first.norm"].causes
    assert (cause.op, cause.attribute, cause.reference_value, cause.candidate_value) == (
        "layer_norm",
        "eps",
        1e-6,
        1e-5,
    )
    assert cause.fix == "LayerNorm(..., eps=1e-06)"
    assert "test_torch_copies.py" in cause.source
    assert cause.proof.startswith("with that, the reference's Cell agrees ")


@pytest.mark.parametrize(
    ("reference", "candidate", "train", "words"),
    [
        (nn.BatchNorm1d(4), nn.BatchNorm1d(4, momentum=0.9), True, "momentum is 0.9 in the candidate, 0.1 in the"),
        (nn.BatchNorm1d(4, eps=1e-3), nn.BatchNorm1d(4), True, "eps is 1e-05 in the candidate, 0.001 in the"),
        (nn.Dropout(0.5), nn.Dropout(0.25), True, "p is 0.25 in the candidate, 0.5 in the reference"),
        (nn.Softplus(beta=2), nn.Softplus(), False, "beta is 1 in the candidate, 2 in the reference"),
        (nn.CELU(), nn.ELU(alpha=0.7), False, ""),
    ],
)
@pytest.mark.every(6)
def test_the_attribute_of_a_module_is_named(
    reference: nn.Module, candidate: nn.Module, train: bool, words: str
) -> None:
    report = parity.compare(reference, candidate, torch.linspace(-3, 3, 20).reshape(5, 4), train=train)
    causes = report.cells[""].causes
    assert [words in cause.summary for cause in causes] == [True]


def test_causes_of_two_cells_are_both_named() -> None:
    report = report_on(eps, fault("number"))
    assert [len(report.cells[path].causes) for path in ("first.norm", "second")] == [1, 1]


@pytest.mark.slow
def test_causes_in_one_cell_are_proved_together() -> None:
    def both(network: Network) -> None:
        eps(network)
        network.first.norm.weight.data[0] = 2.0

    causes = report_on(both).cells["first.norm"].causes
    assert {cause.kind for cause in causes} == {"attribute", "weight"}
    assert [cause.together for cause in causes] == [2, 2]


class Difference(nn.Module):
    def __init__(self, *, exchanged: bool) -> None:
        super().__init__()
        self._exchanged = exchanged

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y.exp() - x if self._exchanged else x - y.exp()


def test_exchanged_operands_are_one_cause() -> None:
    args = torch.randn(3, 4), torch.randn(3, 4)
    report = parity.compare(Difference(exchanged=False), Difference(exchanged=True), args)
    (cause,) = report.cells[""].causes
    assert (cause.summary, cause.together) == ("a and b of sub are exchanged in the candidate", 1)


@pytest.mark.slow
def test_another_spelling_is_no_cause() -> None:
    def respelled(network: Network) -> None:
        network.first._fault = network.second._fault = "spelled differently"

    def scaled(network: Network) -> None:
        network.second.fc1.weight.data *= 1.5

    report = report_on(respelled, scaled)
    assert [cause.summary for cell in report.cells.values() for cause in cell.causes] == [
        "second.fc1.weight is multiplied by 1.5 in the candidate"
    ]


@pytest.mark.slow
def test_without_gradients_outputs_prove_a_cause() -> None:
    (cause,) = report_on(eps, grads=False).cells["first.norm"].causes
    assert not cause.gradients
    assert cause.proof.endswith(" in outputs")


class Counting(Block):
    """A block that a capture sees in another state than a run: what it computes can't be proved."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            x = x * 1.25
        return super().forward(x)


def test_what_is_not_proved_is_not_named() -> None:
    def replaced(network: Network) -> None:
        block = Counting(6)
        block.load_state_dict(network.first.state_dict())
        block.norm.eps = 1e-5
        network.first = block

    report = report_on(replaced)
    assert "first" in report.failing
    assert not report.cells["first"].causes
    assert [cause.attribute for cause in report.cells["first.norm"].causes] == ["eps"]


def test_a_passing_run_has_no_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("looked for causes of nothing")

    monkeypatch.setattr("cellbridge.parity.judging.cause_search.add_causes", never)
    assert report_on().ok


@pytest.mark.slow
def test_the_search_ends_in_time() -> None:
    report = report_on(eps, diagnose_seconds=1e-9)
    assert report.failing == ["first.norm"]
    assert not report.cells["first.norm"].causes


def test_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("looked for causes")

    monkeypatch.setattr("cellbridge.parity.judging.cause_search.add_causes", never)
    assert not report_on(eps, diagnose_seconds=0).ok


def test_the_terminal_shows_cause_proof_place_and_fix() -> None:
    text = str(report_on(eps))
    joined = " ".join(text.split())
    assert "cause, proved: eps is 1e-05 in the candidate, 1e-06 in the reference; with that" in joined
    assert "to fix: LayerNorm(..., eps=1e-06)" in joined
    assert all(len(line) <= 80 for line in text.splitlines())


def test_causes_are_data() -> None:
    (cause,) = report_on(eps).to_dict()["cells"][2]["causes"]
    assert cause["summary"].startswith("eps is 1e-05")
    assert cause["together"] == 1
    assert Cause(kind="attribute", summary="x").to_dict()["proof"].startswith("with that")


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._exchanges = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale, shift = x.chunk(2, dim=-1)
        if self._exchanges:
            return x[:, :3] * (1 + shift) + scale
        return x[:, :3] * (1 + scale) + shift


def test_results_of_one_op_are_told_apart() -> None:
    reference, candidate = Halves(), Halves()
    candidate._exchanges = True
    report = parity.compare(reference, candidate, (torch.randn(3, 6),))
    (cause,) = report.cells[""].causes
    assert cause.summary == (
        "the first chunk of `x.chunk(2, dim=-1)` and the second chunk of `x.chunk(2, dim=-1)` are exchanged in the "
        "candidate, as a of add and b of add"
    )


class Recurrent(nn.Module):
    def __init__(self, gates: tuple[int, int, int], first: int = 0) -> None:
        super().__init__()
        self.linear, self._gates, self._first = nn.Linear(8, 12), gates, first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[0], 4)
        for step in range(5):
            parts = self.linear(torch.cat([x[:, (self._first + step) % 5], h], dim=-1)).chunk(3, dim=-1)
            i, o, g = (parts[number] for number in self._gates)
            h = i.sigmoid() * g.tanh() + o.sigmoid() * h
        return h


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gates", "first", "summary"),
    [
        ((2, 1, 0), 0, "are exchanged in the candidate, as x of sigmoid and x of tanh (and in 4 more places)"),
        ((0, 1, 2), 1, "the candidate takes element 1 along axis 1 where the reference takes element 0 along axis 1"),
    ],
)
@pytest.mark.every(2)
def test_what_differs_in_each_step_is_one_cause(gates: tuple[int, int, int], first: int, summary: str) -> None:
    reference, candidate = Recurrent((0, 1, 2)), Recurrent(gates, first)
    candidate.load_state_dict(reference.state_dict())
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    (cause,) = parity.compare(reference, candidate, (x,)).cells[""].causes
    assert summary in cause.summary


class Twice(nn.Module):
    def __init__(self, times: int) -> None:
        super().__init__()
        self.block, self._times = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self._times):
            x = self.block(x)
        return x * 2


def test_a_cell_that_is_called_once_more_is_named() -> None:
    reference, candidate = Twice(1), Twice(2)
    candidate.load_state_dict(reference.state_dict())
    (cause,) = parity.compare(reference, candidate, (torch.randn(3, 4),)).cells[""].causes
    assert cause.summary == "block is called once more in the candidate"


class Ordered(nn.Module):
    def __init__(self, last: bool) -> None:
        super().__init__()
        self.norm, self._last = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self._last else self.norm(x)
        x = torch.exp(x * 0.5)
        return self.norm(x) if self._last else x


def test_a_cell_that_is_called_at_another_place_is_named() -> None:
    reference, candidate = Ordered(False), Ordered(True)
    candidate.load_state_dict(reference.state_dict())
    (cause,) = parity.compare(reference, candidate, (torch.randn(3, 4),)).cells[""].causes
    assert cause.summary == "norm is called at another place in the candidate"


class Stacked(nn.Module):
    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__()
        self.blocks, self.head, self._order = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 2), order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in self._order:
            x = self.blocks[number](x).tanh()
        return self.head(x)  # type: ignore[no-any-return]


def test_cells_that_are_called_in_another_order_are_named() -> None:
    reference, candidate = Stacked((0, 1, 2)), Stacked((0, 2, 1))
    candidate.load_state_dict(reference.state_dict())
    (cause,) = parity.compare(reference, candidate, (torch.randn(3, 4),)).cells[""].causes
    assert cause.summary == "blocks.1 and blocks.2 are called in another order in the candidate"
