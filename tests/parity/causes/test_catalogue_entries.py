"""Each entry of the catalogue proves its mistake in a candidate that can't be read as a program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cellbridge import parity
from cellbridge.parity.results.cause import Cause

pytestmark = [pytest.mark.causes, pytest.mark.usefixtures("opaque_candidates")]

Step = Callable[["Network", Tensor], Tensor]
X = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))


class Network(nn.Module):
    """Two layers and a step between them, which differs."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self._step = step

    def forward(self, x: Tensor) -> Tensor:
        return self._step(self, x)


def cause_of(reference: Step, candidate: Step) -> Cause:
    networks = Network(reference), Network(candidate)
    networks[1].load_state_dict(networks[0].state_dict())
    report = parity.compare(*networks, (X,))
    assert report.failing == [""]
    (cause,) = report.cells[""].causes
    assert cause.error < 1e-11
    return cause


def looped(activation: Callable[[Tensor], Tensor]) -> Step:
    def step(net: Network, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = activation(x[:, t] + 0.5 * h)
        return net.first(h)  # type: ignore[no-any-return]

    return step


def rotary(first: int, interleaved: bool) -> Step:
    def step(net: Network, x: Tensor) -> Tensor:
        angles = torch.arange(first, first + 4, dtype=x.dtype)[:, None] / torch.tensor([1.0, 10.0, 100.0])
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :3], x[..., 3:])
        parts = [a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()]
        return net.first(torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1))  # type: ignore[no-any-return]

    return step


def heads(order: str) -> Step:
    def step(net: Network, x: Tensor) -> Tensor:
        y = net.first(x)
        split = y.view(2, 4, 2, 3) if order == "heads first" else y.view(2, 4, 3, 2).transpose(2, 3)
        return net.second(split.softmax(-1).flatten(2))  # type: ignore[no-any-return]

    return step


def _halved(x: Tensor) -> Tensor:
    return 0.5 * x + (0.5 * x).detach()


CASES: dict[str, tuple[Step, Step, str]] = {
    "order of Cells": (
        lambda net, x: net.second(net.first(x)), lambda net, x: net.first(net.second(x)), "the value passed to first",
    ),
    "reversed": (
        lambda net, x: net.second(net.first(x)), lambda net, x: net.second(net.first(x).flip(1)),
        "what first returns reversed along axis 1 in the candidate",
    ),
    "rolled": (
        lambda net, x: net.second(net.first(x)), lambda net, x: net.second(net.first(x).roll(1, 1)),
        "what first returns rolled by 1 along axis 1 in the candidate",
    ),
    "one position": (
        lambda net, x: net.second(net.first(x).mean(1)), lambda net, x: net.second(net.first(x)[:, -1]),
        "what first returns as its last element along axis 1 in the candidate",
    ),
    "largest element": (
        lambda net, x: net.second(net.first(x).mean(1)), lambda net, x: net.second(net.first(x).amax(1)),
        "reduce_max is computed in the candidate",
    ),
    "two values": (
        lambda net, x: net.second(net.first(x)), lambda net, x: net.second(net.first(x) + x),
        "add of what first returns and the input x in the candidate",
    ),
    "mean kept": (
        lambda net, x: net.first(functional.layer_norm(x, (6,), eps=1e-3)),
        lambda net, x: net.first(functional.rms_norm(x, (6,), eps=1e-3)), "the mean isn't subtracted in the candidate",
    ),
    "unbiased variance": (
        lambda net, x: net.first(functional.layer_norm(x, (6,), eps=1e-3)),
        lambda net, x: net.first((x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-3).sqrt()),
        "the variance is divided by n - 1 in the candidate (unbiased), by n in the reference",
    ),
    "deviation and eps": (
        lambda net, x: net.first(functional.layer_norm(x, (6,), eps=1e-3)),
        lambda net, x: net.first((x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-3)),
        "by n in the reference, and eps is added to the standard deviation in the candidate",
    ),
    "mean subtracted": (
        lambda net, x: net.first(x * (x.square().mean(-1, keepdim=True) + 1e-3).rsqrt()),
        lambda net, x: net.first(functional.layer_norm(x, (6,), eps=1e-3)), "the mean is subtracted in the candidate",
    ),
    "in a loop": (looped(torch.tanh), looped(torch.sigmoid), "sigmoid is computed in the candidate, tanh"),
    "positions from one": (rotary(0, False), rotary(1, False), "larger by 1 in the candidate"),
    "interleaved": (rotary(0, False), rotary(0, True), "the parts of an axis are interleaved in the candidate"),
    "heads": (heads("heads first"), heads("heads last"), "an axis is split into 3 x 2 in the candidate"),
    "transposed": (
        lambda net, x: net.second(net.first(torch.cat((x, x[:, :2]), 1)).cumsum(1)),
        lambda net, x: net.second(net.first(torch.cat((x, x[:, :2]), 1)).mT.cumsum(1)),
        "what first returns is read transposed in the candidate, with its axes 1 and 2 exchanged",
    ),
    "detached": (
        lambda net, x: net.first(x) + net.second(net.first(x)),
        lambda net, x: net.first(x) + net.second(net.first(x).detach()), "a gradient is stopped (detach)",
    ),
    "mask of another number": (
        lambda net, x: net.first(x.masked_fill(x < x.mean(1, keepdim=True), -torch.inf).softmax(1)),
        lambda net, x: net.first(x.masked_fill(x < x.mean(1, keepdim=True), -3.0).softmax(1)),
        "-3 in the candidate, -inf in the reference",
    ),
    "gradient halved": (
        lambda net, x: net.second(net.first(x).tanh()),
        lambda net, x: net.second(_halved(net.first(x)).tanh()),
        "the gradient of what first returns is multiplied by 0.5 in the candidate",
    ),
    "exchanged": (
        lambda net, x: net.first(x).softmax(-1) @ net.second(x).mT,
        lambda net, x: net.second(x).softmax(-1) @ net.first(x).mT,
        "what first returns and what second returns are exchanged in the candidate",
    ),
    "sign": (lambda net, x: net.first(x) - x, lambda net, x: net.first(x) + x, "add is computed in the candidate, sub"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.every(12)
def test_the_mistake_is_named(name: str) -> None:
    reference, candidate, words = CASES[name]
    assert words in cause_of(reference, candidate).summary


def of_layers(reference: nn.Module, candidate: nn.Module, x: Tensor, *, train: bool = False) -> Cause:
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(nn.Sequential(reference), nn.Sequential(candidate), (x,), train=train)
    (cause,) = report.cells["0"].causes
    return cause


def test_padding_of_another_mode() -> None:
    convolutions = (nn.Conv1d(4, 3, 3, padding=1, padding_mode=mode) for mode in ("zeros", "circular"))
    cause = of_layers(*convolutions, X)
    assert (cause.attribute, cause.candidate_value) == ("padding_mode", "circular")


def test_another_pooling() -> None:
    summary = of_layers(nn.MaxPool1d(2), nn.AvgPool1d(2), X).summary
    assert "avg_pool is computed in the candidate, max_pool in the reference" in summary


class BothDirections(nn.GRU):
    def __init__(self) -> None:
        super().__init__(6, 3, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        result: Tensor = super().forward(x)[0]
        return result


class NotBroughtBack(BothDirections):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        y = super().forward(x)
        return torch.cat((y[..., :3], y[..., 3:].flip(0)), -1)


class ReadForwards(BothDirections):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return torch.cat((super().forward(x)[..., :3], super().forward(x.flip(0))[..., 3:]), -1)


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (NotBroughtBack, "of the backward direction aren't brought back into the order of the sequence"),
        (ReadForwards, "of the backward direction are those of the sequence read forwards, in reversed order"),
    ],
)
def test_a_backward_direction_in_the_other_order(candidate: type[BothDirections], words: str) -> None:
    assert words in of_layers(BothDirections(), candidate(), X).summary


class Frozen(nn.BatchNorm1d):
    """A norm that stays in eval mode."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.1, self.eps
        )


class Unfrozen(nn.BatchNorm1d):
    """A norm that is always in training mode, without updates."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, None, None, self.weight, self.bias, True, 0.1, self.eps)


def test_statistics_of_the_batch() -> None:
    cause = of_layers(nn.BatchNorm1d(4).eval(), Unfrozen(4), X)
    assert cause.kind == "state"
    assert "the statistics of the batch in the candidate (training)" in cause.summary


def test_moving_statistics() -> None:
    cause = of_layers(nn.BatchNorm1d(4), Frozen(4), X, train=True)
    assert cause.kind == "state"
    assert "the moving statistics in the candidate (eval)" in cause.summary


def test_a_buffer() -> None:
    reference, candidate = nn.BatchNorm1d(4).eval(), nn.BatchNorm1d(4).eval()
    reference.running_mean = torch.arange(4.0)
    report = parity.compare(nn.Sequential(reference), nn.Sequential(candidate), (X,))
    (cause,) = report.cells["0"].causes
    assert cause.summary == "0.running_mean is all zeros in the candidate"


def test_a_frozen_parameter() -> None:
    reference, candidate = nn.Linear(6, 6), nn.Linear(6, 6)
    candidate.bias.requires_grad_(False)
    assert of_layers(reference, candidate, X).summary == "0.bias is frozen in the candidate only"
