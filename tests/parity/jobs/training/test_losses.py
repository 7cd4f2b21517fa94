"""Faults of the loss and of accumulation, in scripts as people write them, are named and proved."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cellbridge.parity import compare_training
from cellbridge.runtime import Tensor, ops, optim, value_and_grad
from cellbridge.runtime import nn as cells

CLASSES, LENGTH, PAD = 13, 7, 0
partial = functools.partial
Loss = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(CLASSES, 8)
        self.hidden = nn.Linear(8, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.hidden(self.embed(x))))


def _tokens(generator: torch.Generator) -> torch.Tensor:
    x = torch.randint(1, CLASSES, (4, LENGTH), generator=generator)
    for row, length in enumerate(torch.randint(2, LENGTH, (4,), generator=generator).tolist()):
        x[row, length:] = PAD
    return x


GENERATOR = torch.Generator().manual_seed(0)
DATA = [_tokens(GENERATOR) for _ in range(3)]


def _shifted(network: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return network(x)[:, :-1].reshape(-1, CLASSES), x[:, 1:].reshape(-1)


def right(network: nn.Module, x: torch.Tensor, **settings: Any) -> torch.Tensor:
    return F.cross_entropy(*_shifted(network, x), ignore_index=PAD, **settings)


def unshifted(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(network(x).reshape(-1, CLASSES), x.reshape(-1), ignore_index=PAD)


def shifted_twice(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(network(x)[:, :-2].reshape(-1, CLASSES), x[:, 2:].reshape(-1), ignore_index=PAD)


def padding_counted(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(*_shifted(network, x))


def mean_over_padding(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return right(network, x, reduction="none").mean()


def smoothed_over_others(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    logits, target = _shifted(network, x)
    logits, target = logits[target != PAD], target[target != PAD]
    smoothed = torch.full_like(logits, 0.1 / (CLASSES - 1)).scatter(1, target[:, None], 0.9)
    return -(smoothed * logits.log_softmax(-1)).sum(-1).mean()


def by_hand(network: nn.Module, x: torch.Tensor, *, masked: bool = True) -> torch.Tensor:
    logits, target = _shifted(network, x)
    nll = -logits.log_softmax(-1).gather(-1, target[:, None])[:, 0]
    mask = (target != PAD).to(nll.dtype)
    return (nll * mask).sum() / mask.sum() if masked else nll.mean()


def train(network: nn.Module, batches: Iterable[Any], loss: Loss = right) -> Iterator[torch.Tensor]:
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for x in batches:
        optimizer.zero_grad()
        value = loss(network, x)
        value.backward()
        optimizer.step()
        yield value


def train_in_parts(
    network: nn.Module, batches: Iterable[Any], means: bool = False, zeroed: bool = False, clip: str = ""
) -> Iterator[torch.Tensor]:
    """Train with two micro-batches for each step, of other numbers of elements that aren't padding."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for x in batches:
        optimizer.zero_grad()
        total = torch.zeros(())
        for part in x.chunk(2):
            if zeroed:
                optimizer.zero_grad()
            loss = (
                right(network, part) / 2 if means else right(network, part, reduction="sum") / (x[:, 1:] != PAD).sum()
            )
            loss.backward()
            total = total + loss.detach()
            if clip == "part":
                nn.utils.clip_grad_norm_(network.parameters(), 0.05)
        if clip == "step":
            nn.utils.clip_grad_norm_(network.parameters(), 0.05)
        optimizer.step()
        yield total


def train_with_stale_gradients(network: nn.Module, batches: Iterable[Any]) -> Iterator[torch.Tensor]:
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for number, x in enumerate(batches):
        loss = right(network, x)
        loss.backward()
        optimizer.step()
        if number > 0:
            optimizer.zero_grad()
        yield loss


def _compare(reference: Any, candidate: Any) -> Any:
    torch.manual_seed(0)
    # the candidate's own weights are others: each training starts from the reference's
    return compare_training(LanguageModel(), LanguageModel(), reference, candidate, DATA)


SMOOTHED = partial(train, loss=partial(right, label_smoothing=0.1))
UNMASKED = partial(by_hand, masked=False)
OF_MEANS, ZEROED = partial(train_in_parts, means=True), partial(train_in_parts, zeroed=True)
MEANS = ("accumulation", "mean of all", "mean of means")
MEANS_IN_REFERENCE = ("accumulation", "mean of means", "mean of all")
LAST = ("accumulation", "sum", "last")
FAULTS = {
    "labels not shifted": (train, partial(train, loss=unshifted), ("offset", 1, 0)),
    "labels shifted twice": (train, partial(train, loss=shifted_twice), ("offset", 1, 2)),
    "reference not shifted": (partial(train, loss=unshifted), train, ("offset", 0, 1)),
    "padding counted": (train, partial(train, loss=padding_counted), ("ignore_index", PAD, -100)),
    "padding ignored": (partial(train, loss=padding_counted), train, ("ignore_index", -100, PAD)),
    "padding counted, by hand": (train, partial(train, loss=UNMASKED), ("ignore_index", PAD, -100)),
    "padding counted, reference by hand": (
        partial(train, loss=by_hand), partial(train, loss=padding_counted), ("ignore_index", PAD, -100),
    ),
    "sum": (train, partial(train, loss=partial(right, reduction="sum")), ("reduction", "mean", "sum")),
    "mean over padding": (train, partial(train, loss=mean_over_padding), ("mean", "kept", "all")),
    "no label smoothing": (SMOOTHED, train, ("label_smoothing", 0.1, 0.0)),
    "label smoothing": (train, SMOOTHED, ("label_smoothing", 0.0, 0.1)),
    "smoothed over the other classes": (
        SMOOTHED, partial(train, loss=smoothed_over_others), ("label_smoothing", 0.1, 0.1 * CLASSES / (CLASSES - 1)),
    ),
    "mean of means": (train_in_parts, OF_MEANS, MEANS),
    "mean of means, whole batches": (
        train, OF_MEANS, MEANS,
    ),
    "mean of all": (OF_MEANS, train_in_parts, MEANS_IN_REFERENCE),
    "zeroed in micro-batches": (train_in_parts, ZEROED, LAST),
    "zeroed in micro-batches, whole batches": (train, ZEROED, LAST),
    "clipped in micro-batches": (
        partial(train_in_parts, clip="step"), partial(train_in_parts, clip="part"), ("accumulation", "sum", "clipped"),
    ),
    "stale gradients in one step": (train, train_with_stale_gradients, ("zero_grad", True, False)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.every(6)
def test_a_fault_is_named(name: str) -> None:
    reference, candidate, (attribute, right_value, wrong_value) = FAULTS[name]
    report = _compare(reference, candidate)
    assert not report.ok
    (cause,) = report.causes
    assert (cause.attribute, cause.reference_value) == (attribute, right_value)
    assert cause.candidate_value == pytest.approx(wrong_value)
    assert cause.steps == len(DATA)
    assert cause.error < 1e-9
    assert cause.fix
    assert not report.explanations
    assert "the loss of step" in str(report)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (train, partial(train, loss=by_hand)),
        (train, train_in_parts),
        (partial(train_in_parts, clip="step"), partial(train_in_parts, clip="step")),
    ],
)
@pytest.mark.every(3)
def test_other_forms_of_one_loss_agree(reference: Any, candidate: Any) -> None:
    _compare(reference, candidate).raise_if_failed()


def test_two_losses_written_by_hand_part_at_a_line() -> None:
    report = _compare(partial(train, loss=by_hand), partial(train, loss=partial(by_hand, masked=False)))
    assert not report.causes
    text = " ".join(report.explanations)
    assert "the networks agree Cell by Cell" in text
    assert "test_losses.py" in text
    assert "mask.sum()" in text
    assert "other values" not in text  # the candidate's own weights aren't used


def test_regression_losses_are_exchanged() -> None:
    generator = torch.Generator().manual_seed(1)
    data = [(torch.randn(5, 4, generator=generator), torch.randn(5, 2, generator=generator)) for _ in range(3)]

    def script(network: nn.Module, batches: Iterable[Any], loss: Any) -> Iterator[torch.Tensor]:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for x, y in batches:
            optimizer.zero_grad()
            value = loss(network(x), y)
            value.backward()
            optimizer.step()
            yield value

    def huber(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where((x - y).abs() < 1, 0.5 * (x - y) ** 2, (x - y).abs() - 0.5).mean()

    for smooth in (nn.SmoothL1Loss(), huber):  # of beta=1, the smooth L1 loss and Huber's are the same
        pair = partial(script, loss=nn.MSELoss()), partial(script, loss=smooth)
        (cause,) = compare_training(nn.Linear(4, 2), nn.Linear(4, 2), *pair, data).causes
        assert (cause.kind, cause.attribute, cause.reference_value) == ("loss", "function", "mse_loss")
        assert cause.candidate_value in ("smooth_l1_loss", "huber_loss")


def test_the_loss_of_a_port_is_named() -> None:
    class Port(cells.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.embed = cells.Embedding(CLASSES, 8)
            self.hidden = cells.Dense(8, 8)
            self.head = cells.Dense(8, CLASSES)

        def construct(self, x: Tensor) -> Tensor:
            return self.head(ops.tanh(self.hidden(self.embed(x))))

    def script(network: Any, batches: Iterable[Any]) -> Iterator[Tensor]:
        optimizer = optim.AdamW(network.trainable_params(), lr=0.01)

        def loss(x: Tensor) -> Tensor:  # labels aren't shifted
            return ops.cross_entropy(network(x).reshape(-1, CLASSES), x.reshape(-1), ignore_index=PAD)

        step = value_and_grad(loss, None, optimizer.parameters)
        for x in batches:
            value, gradients = step(x)
            optimizer(gradients)
            yield value

    data = [x.numpy().astype(np.int32) for x in DATA]

    def reference(network: nn.Module, batches: Iterable[Any]) -> Iterator[torch.Tensor]:
        return train(network, (x.long() for x in batches))

    report = compare_training(LanguageModel(), Port(), reference, script, data)
    assert [(cause.attribute, cause.candidate_value) for cause in report.causes] == [("offset", 0)], report


def test_momentum_is_advised_as_the_candidate_counts_it() -> None:
    """In torch, momentum is the weight of the new statistic; in a Cell, of the old one."""

    class Normed(nn.Module):
        def __init__(self, momentum: float) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4, momentum=momentum)
            self.fc = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.norm(x))

    def script(network: nn.Module, batches: Iterable[Any]) -> Iterator[torch.Tensor]:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for x in batches:
            optimizer.zero_grad()
            loss = network(x).square().mean()
            loss.backward()
            optimizer.step()
            yield loss

    data = [torch.randn(6, 4) for _ in range(3)]
    (cause,) = compare_training(Normed(0.01), Normed(0.99), script, script, data).causes
    assert (cause.reference_value, cause.candidate_value) == (0.01, 0.99)
    assert cause.fix == "write momentum=0.01"
    assert "of the old one" in cause.summary
