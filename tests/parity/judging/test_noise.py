"""The reference's own rounding error: measured, never smaller with more runs, and reproducible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cellbridge.parity import check, compare
from cellbridge.parity.judging.measured_errors import MAX_SAMPLES
from cellbridge.parity.judging.noise import Noise
from cellbridge.parity.sides.records import OUTPUT, Key
from cellbridge.parity.sides.run import ReferenceRun, Run
from cellbridge.parity.sides.torch_modes import JitteredOperators
from cellbridge.parity.sides.torch_side import TorchSide
from tests.parity.networks import mixed

ROOT = Key("", 0, OUTPUT, "result")


def _noise(dtype: str = "float32", *, isolated: bool = False) -> Noise:
    module, args = mixed()
    side = TorchSide("torch", module, args, {}, working_dtype="float32")
    truth = side.run(Run("float64"))
    run = Run(dtype, reference=ReferenceRun.of(truth, truth.gradients.cotangents))
    return Noise(side, truth, replace(run, feed=truth) if isolated else run)


def test_noise_is_of_the_size_of_the_dtype() -> None:
    assert 0 < _noise("float32").error(ROOT) < 1e-5
    assert 1e-5 < _noise("float16").error(ROOT) < 1e-1
    assert _noise("float64").error(ROOT) == 0.0


def test_more_runs_never_lower_it_and_come_to_an_end() -> None:
    noise = _noise()
    errors = [noise.error(ROOT)]
    while noise.sample():
        errors.append(noise.error(ROOT))
    assert errors == sorted(errors)
    assert errors[-1] > errors[0]
    assert noise.samples["rounding"] == MAX_SAMPLES == len(errors)


def test_the_jitter_is_a_rounding_error_and_reproducible() -> None:
    first, second = _noise(isolated=True), _noise(isolated=True)
    for noise in (first, second):
        while noise.sample():
            pass
    assert first.error(ROOT) == second.error(ROOT) < 1e-5


@pytest.mark.parametrize("isolated", [False, True])
def test_a_number_without_dimensions_is_jittered_too(isolated: bool) -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.loss = nn.Linear(5, 5), nn.MSELoss()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.loss(self.first(x), x) * 3

    side = TorchSide("torch", Mean(), (torch.randn(7, 5),), {})
    truth = side.run(Run("float64"))
    settled = ReferenceRun.of(truth, truth.gradients.cotangents)
    run = Run("float32", reference=settled, feed=truth if isolated else None)
    noise = Noise(side, truth, run)
    while noise.sample():
        pass
    assert noise.samples["rounding"] == MAX_SAMPLES
    assert 0 < noise.error(ROOT) < 1e-5


def test_what_nobody_recorded_has_none() -> None:
    assert _noise().error(Key("nowhere", 0, OUTPUT, "result")) == 0.0


def test_parameters_and_updates_have_noise_too() -> None:
    module, args = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5)), (torch.randn(7, 5),)
    side = TorchSide("torch", module, args, {}, train=True)
    truth = side.run(Run("float64"))
    noise = Noise(side, truth, Run("float32", reference=ReferenceRun.of(truth, truth.gradients.cotangents)))
    assert 0 < noise.error(("parameter", "0.weight")) < 1e-4
    assert 0 < noise.error(("update", "1.running_mean")) < 1e-6


class Wild(nn.Module):
    """Layers that multiply every error by about ten: after nine of them, float32 has no digits left, float64 few."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(9))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.sin(30 * layer(x))
        return x


def test_where_errors_grow_to_the_size_of_the_values_double_precision_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    assert check(Wild(), (x,)).ok
    monkeypatch.setattr("cellbridge.parity.judging.measured_errors.MAX_FLOAT64_SAMPLES", 0)
    report = check(Wild(), (x,))
    failed = [c for cell in report.cells.values() for c in cell.comparisons if c.status == "fail"]
    assert failed
    assert {(c.feeding, c.check) for c in failed} == {("end to end", "meaning")}


def test_the_jitter_of_double_precision_is_a_rounding_error() -> None:
    noise = _noise()
    before = noise.error(ROOT, "meaning")
    assert noise.sample("meaning")
    assert noise.error(ROOT) == before <= noise.error(ROOT, "meaning") < 10 * before
    assert noise.sample("meaning")
    assert not noise.sample("meaning")


class NormOfLittle(nn.Module):
    """Its norm subtracts the mean from numbers that differ only in their last digits."""

    def __init__(self, offset: float, spread: float, eps: float) -> None:
        super().__init__()
        self.offset, self.spread, self.norm = offset, spread, nn.LayerNorm(6, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x * self.spread + self.offset)


@pytest.mark.parametrize(
    ("dtype", "offset", "spread"), [("float16", 1e2, 1e-4), ("bfloat16", 1e2, 1e-4), ("float32", 1e6, 1e-5)]
)
@pytest.mark.every(3)
def test_a_cell_that_loses_its_digits_in_the_working_dtype_is_judged_by_those_of_float64(
    dtype: str, offset: float, spread: float
) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 6)
    report = check(NormOfLittle(offset, spread, 1e-5), (x,), dtype=dtype)
    assert report.ok, str(report)
    wrong = compare(NormOfLittle(offset, spread, 1e-5), NormOfLittle(offset, spread, 1.001e-5), (x,), dtype=dtype)
    assert wrong.failing == ["norm"]


class Rounded(nn.Module):
    """`function` of a linear layer's output."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.function = nn.Linear(6, 6), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


ALIKE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "a tensor for a number": (lambda x: 0.7 * x, lambda x: torch.tensor(0.7) * x),
    "hardsigmoid": (functional.hardsigmoid, lambda x: (x + 3).clamp(0, 6) / 6),
    "celu": (lambda x: functional.celu(x, 0.7), lambda x: torch.where(x > 0, x, 0.7 * torch.expm1(x / 0.7))),
}
OTHERS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "a tensor for a number": (lambda x: 0.7 * x, lambda x: torch.tensor(0.700001) * x),
    "hardsigmoid": (functional.hardsigmoid, lambda x: (x + 3).clamp(0, 6) * 0.1666665),
    "celu": (lambda x: functional.celu(x, 0.7), lambda x: torch.where(x > 0, x, 0.7 * torch.expm1(x / 0.700001))),
}


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.every(6)
def test_what_two_modules_round_to_float32_is_no_fault_and_hides_none(name: str, swapped: bool) -> None:
    x = (torch.randn(5, 6),)
    for pairs, passes in ((ALIKE, True), (OTHERS, False)):
        reference, candidate = map(Rounded, reversed(pairs[name]) if swapped else pairs[name])
        assert compare(reference, candidate, x).ok is passes


def test_inner_values_are_moved_where_the_inputs_are_integers() -> None:
    """No boundary has a number to jitter, so that a near tie for the maximum depends on a single run."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(32, 16))
            self.weight = nn.Parameter(torch.randn(16, 16))

        def forward(self, tokens: Tensor) -> Tensor:
            h = self.table[tokens]
            return torch.tanh(h @ self.weight).sum(1)

    torch.manual_seed(0)
    side = TorchSide("torch", Tokens(), (torch.randint(0, 32, (4, 9)),), {}, working_dtype="float32")
    truth = side.run(Run("float64"))
    noise = Noise(side, truth, Run("float32", reference=ReferenceRun.of(truth, truth.gradients.cotangents)))
    first = noise.error(("parameter", "weight"))
    for _ in range(4):
        noise.sample()
    assert first < noise.error(("parameter", "weight")) < 1e-3


def test_what_is_chosen_from_other_numbers_is_not_jittered() -> None:
    x = torch.randn(4, 9, requires_grad=True)
    with JitteredOperators(0, 0.5):
        largest = x.amax(1)
        (gradient,) = torch.autograd.grad(largest.sum(), x)
        assert not torch.equal(x * 1.5, (x.double() * 1.5).float())
    assert torch.equal(gradient.sum(1), torch.ones(4))
