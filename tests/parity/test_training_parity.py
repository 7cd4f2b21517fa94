"""Two training runs compared step by step: they agree, and every planted fault is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.parity import assert_training_parity, compare_training
from cellbridge.parity.jobs.training.explanations import explanations
from cellbridge.parity.jobs.training.quantities import Quantity, TrainingRecord
from cellbridge.parity.results.comparison import FAIL, Comparison
from cellbridge.runtime import Tensor, nn
from cellbridge.runtime.errors import ParityError, UsageError


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(8, 1)
        self.register_buffer("limits", torch.tensor([-1.0, 1.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.dropout(torch.tanh(self.norm(self.first(x)))))


class CellNet(nn.Cell):
    def __init__(self, momentum: float = 0.9) -> None:
        super().__init__()
        self.first = nn.Dense(6, 8)
        self.norm = nn.BatchNorm1d(8, momentum=momentum)
        self.dropout = nn.Dropout(p=0.5)
        self.last = nn.Dense(8, 1)

    def construct(self, x: Tensor) -> Tensor:
        return self.last(self.dropout(self.norm(self.first(x)).tanh()))


def data(count: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=(5, 6)).astype(np.float32), rng.normal(size=(5, 1)).astype(np.float32)) for _ in range(count)
    ]


def train_module(network: Any, batches: list[Any]) -> Iterator[float]:
    network.train()
    network.last.weight.requires_grad = False
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9)
    for x, y in batches:
        optimizer.zero_grad()
        loss = (network(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


def train_cells(
    network: Any,
    batches: list[Any],
    *,
    rate: Any = 0.1,
    momentum: float = 0.9,
    decay: float = 0.0,
    scale: float = 1.0,
    frozen: str = "last.weight",
    optimized: str = "",
    reported: Callable[[float], Any] = float,
    after: Callable[[Any], None] = lambda network: None,
) -> Iterator[float]:
    network.set_train()
    for parameter in network.get_parameters():
        if parameter.name == frozen:
            parameter.requires_grad = False
    chosen = [p for p in network.trainable_params() if p.name != optimized]
    optimizer = nn.Momentum(chosen, rate, momentum, weight_decay=decay)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return scale * (network(x) - y).square().mean()

    gradients_of = ms.value_and_grad(loss_of, None, optimizer.parameters)
    for x, y in batches:
        loss, gradients = gradients_of(x, y)
        optimizer(gradients)
        after(network)
        yield reported(float(loss) / scale)


def compare(cell: Any = None, batches: Any = None, **faults: Any) -> Any:
    options = {name: faults.pop(name) for name in ("dtype", "seed") if name in faults}
    torch.manual_seed(0)
    batches = data() if batches is None else batches
    return compare_training(
        Net(), cell or CellNet(), train_module, lambda net, b: train_cells(net, b, **faults), batches, **options
    )


def test_what_is_the_same_agrees_after_every_step() -> None:
    report = compare()
    assert report.ok, str(report)
    assert {c.call for c in report.comparisons} == {1, 2, 3, 4}
    assert {(c.kind, c.tensor) for c in report.comparisons} == {
        *(("parameter", f"{layer}.{name}") for layer in ("first", "norm", "last") for name in ("weight", "bias")),
        ("buffer", "norm.running_mean"),
        ("buffer", "norm.running_var"),
        ("loss", "the loss"),
    }
    assert {c.check for c in report.comparisons} == {"meaning", "rounding"}
    assert report.notes == ["not compared, since the port has no counterpart: limits"]
    assert "6 parameters, 2 buffers and the loss agree with torch" in str(report).replace("\n  ", " ")
    assert report.to_dict()["ok"]


def test_in_float64_only_meaning_is_judged() -> None:
    report = compare(dtype="float64")
    assert report.ok
    assert {c.check for c in report.comparisons} == {"meaning"}


@pytest.mark.parametrize(("off", "passes"), [(0.0, True), (1e-5, False)])
@pytest.mark.parametrize("count", [0, 4])
@pytest.mark.every(2)
def test_rates_may_be_rounded(count: int, off: float, passes: bool) -> None:
    rates = np.full((count,) if count else (), 0.1 * (1 + off), np.float32)
    report = compare(rate=Tensor(rates))
    assert report.ok is passes
    if not passes:
        (cause,) = report.causes
        assert cause.candidate_value == pytest.approx(0.100001, rel=1e-7)


def test_rounding_that_is_larger_than_that_of_torch_is_found() -> None:
    report = compare(CellNet().to_float(ms.float16))
    assert not report.ok
    assert {c.check for c in report.failures} == {"rounding"}
    assert "less precise than the reference" in str(report)


@pytest.mark.parametrize(
    ("faults", "step", "words"),
    [
        ({"rate": 0.05}, 1, "proved: the learning rate lr is 0.05 in the candidate, 0.1 in the reference"),
        ({"rate": 0.1 * (1 + 1e-6)}, 1, "lr is 0.1000001 in the candidate"),
        ({"scale": 1024.0}, 1, "gradients are 1024 times those of the reference: a loss scale"),
        ({"momentum": 0.8}, 2, "proved: momentum is 0.8 in the candidate, 0.9 in the reference"),
        ({"decay": 0.01}, 1, "first.weight, first.bias, last.bias: weight decay is 0.01 in the candidate, 0 in"),
        ({"reported": lambda loss: 3 * loss}, 1, "the loss: 3 times that of torch"),
        ({"optimized": "norm.gamma"}, 1, "norm.weight: not updated in the candidate (frozen, or not"),
        (
            {"after": lambda net: net.last.weight.set_data(net.last.weight + 1)},
            1,
            "last.weight: moves in the candidate,",
        ),
        (
            {"after": lambda net: net.last.weight.set_data(net.last.weight * 0.5)},
            1,
            "last.weight: frozen in the reference; in the",
        ),
        ({"after": lambda net: net.first.weight.set_data(net.first.weight.sin())}, 1, "parameter first.weight, after"),
    ],
)
@pytest.mark.every(6)
def test_a_fault_is_found_in_the_first_step_where_it_shows(faults: Any, step: int, words: str) -> None:
    report = compare(**faults)
    assert report.differing == step
    assert words in str(report).replace("\n    ", " "), str(report)
    assert "rounding in float32 was not judged" in str(report)


def test_a_moving_statistic_that_moves_too_far_is_found() -> None:
    report = compare(CellNet(momentum=0.1))
    assert {c.tensor for c in report.failures} == {"norm.running_mean", "norm.running_var"}
    assert "norm: momentum is 0.1 in the candidate, where it is the weight of the old statistic" in " ".join(
        str(report).split()
    )


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ({"frozen": ""}, "last.weight: trained in the port, frozen in torch"),
        ({"frozen": "first.bias"}, "first.bias: frozen in the port, trained in torch"),
        ({"reported": lambda loss: None}, "only torch yielded a loss"),
    ],
)
@pytest.mark.every(3)
def test_what_differs_in_more_than_numbers_is_found(faults: Any, problem: str) -> None:
    report = compare(**faults)
    assert not report.ok
    assert problem in report.problems


def test_a_script_that_stops_early_is_found() -> None:
    report = compare_training(Net(), CellNet(), train_module, lambda net, b: train_cells(net, b[:-1]), data())
    assert not report.ok
    assert "the port made 3 steps, torch 4" in report.problems
    assert "the port drew random numbers 3 times, torch 4" in report.problems


def test_a_parameter_without_counterpart_is_found() -> None:
    cell = CellNet()
    cell.more = ms.Parameter(np.zeros(3, np.float32))
    report = compare(cell)
    assert not report.ok
    assert any("more" in problem for problem in report.problems)


def test_dropout_without_replay_would_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    from cellbridge.parity.sides.eager import Eager

    monkeypatch.setattr(Eager, "replays", False)
    report = compare()
    assert not report.ok


def test_both_networks_are_left_as_they_were() -> None:
    module, cell = Net(), CellNet()
    before = [
        {n: p.detach().clone() for n, p in module.state_dict().items()},
        [p.asnumpy() for p in cell.get_parameters()],
    ]
    flags = [p.requires_grad for p in cell.get_parameters()]
    compare_training(module, cell, train_module, train_cells, data())
    assert all(torch.equal(value, before[0][name]) for name, value in module.state_dict().items())
    assert all(np.array_equal(p.asnumpy(), b) for p, b in zip(cell.get_parameters(), before[1], strict=True))
    assert [p.requires_grad for p in cell.get_parameters()] == flags
    assert not cell.training
    assert module.last.weight.requires_grad


def test_an_exception_in_a_script_is_the_users_to_see() -> None:
    def broken(network: Any, batches: Any) -> Iterator[None]:
        raise RuntimeError("no such file")
        yield

    with pytest.raises(RuntimeError, match="no such file"):
        compare_training(Net(), CellNet(), train_module, broken, data())


def test_the_assertion_fails_with_the_report() -> None:
    with pytest.raises(ParityError, match=r"✗ The trainings differ from step 1 on, in 4 of 9 tensors"):
        assert_training_parity(Net(), CellNet(), train_module, lambda net, b: train_cells(net, b, rate=0.2), data())
    assert assert_training_parity(Net(), CellNet(), train_module, train_cells, data()).ok


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UsageError, match="given function"):
        compare_training(Net(), train_cells, train_module, train_cells, data())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="yielded nothing"):
        compare_training(Net(), CellNet(), train_module, train_cells, [])
    with pytest.raises(UsageError, match="dtype must be one of"):
        compare_training(Net(), CellNet(), train_module, train_cells, data(), dtype="int8")


def explanations_of(reference: np.ndarray, candidate: np.ndarray, kind: str = "parameter") -> list[str]:
    """What is told of one tensor of zeros that moves so far in the first step."""
    held = Quantity(kind, "w")
    truth, run = (
        ({held: np.zeros_like(reference)}, [{held: reference}]),
        ({held: np.zeros_like(candidate)}, [{held: candidate}]),
    )
    failed = Comparison("cell", "meaning", "end to end", kind, "w", 1, FAIL)
    return explanations(TrainingRecord(*truth), TrainingRecord(*run), [failed])


PERTURBATION = np.array([0.1, -0.2, 0.3])


def test_a_factor_is_told_where_it_explains_the_difference_and_not_where_the_difference_is_small() -> None:
    """Adam's first step doesn't depend on the gradient's magnitude, except for eps, so there is no factor."""
    assert "moves 1 + 1e-08 times" in explanations_of(PERTURBATION, PERTURBATION * (1 + 1e-8))[0]
    assert explanations_of(PERTURBATION, PERTURBATION + np.array([1e-8, 3e-8, 2e-8])) == []


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (0 * PERTURBATION, "eval mode in the candidate"),
        (9 * PERTURBATION, "the momentum of a statistic"),
        (PERTURBATION**2, ""),
    ],
)
def test_a_buffer_is_given_to_no_optimizer(candidate: np.ndarray, words: str) -> None:
    assert words in " ".join(explanations_of(PERTURBATION, candidate, "buffer"))
    assert "eval mode in the reference" in explanations_of(0 * PERTURBATION, PERTURBATION, "buffer")[0]
