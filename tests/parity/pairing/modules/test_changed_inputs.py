"""An input that one side alone changes in place is a failure."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
N = torch.arange(12).reshape(3, 4)


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Normalizes(nn.Module):
    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.in_place, self.linear = in_place, nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x.sub_(1.0) if self.in_place else x - 1.0
        y: Tensor = self.linear(x)
        return y


def _zero_first(x: Tensor) -> Tensor:
    x[:, 0] = 0.0
    return x


PLAIN: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], Tensor]] = {
    "activation": (torch.relu, torch.relu_, X),
    "integers": (lambda n: n + 1, lambda n: n.add_(1), N),
    "part of the input": (lambda x: x.clone().index_fill_(1, torch.tensor(0), 0.0), _zero_first, X),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_change_by_one_side_fails(name: str) -> None:
    plain, in_place, x = PLAIN[name]
    before = x.clone()
    report = parity.compare(Of(plain), Of(in_place), (x,), grads=False, probe=False)
    (failure,) = report.cells[""].failures
    assert failure.reason == "it changes its input x in place, and the reference doesn't"
    report = parity.compare(Of(in_place), Of(plain), (x,), grads=False, probe=False)
    (failure,) = report.cells[""].failures
    assert failure.reason == "it leaves its input x as it is, and the reference changes it in place"
    for both in (plain, in_place):
        assert parity.compare(Of(both), Of(both), (x,), grads=False, probe=False).ok
    assert torch.equal(x, before)


def test_different_changes_fail() -> None:
    reference, candidate = Of(lambda x: x.mul_(2).sum()), Of(lambda x: (x.mul_(2).sum(), x.add_(1))[0])
    (failure,) = parity.compare(reference, candidate, (X,), grads=False, probe=False).cells[""].failures
    assert failure.reason.startswith("it leaves other numbers in its input x than the reference")


def test_a_copy_first_is_no_change() -> None:
    assert parity.compare(Of(torch.relu), Of(lambda x: torch.relu_(x.clone())), (X,), probe=False).ok


def test_a_change_in_front_of_a_layer_is_found_with_gradients_too() -> None:
    reference, candidate = Normalizes(in_place=False), Normalizes(in_place=True)
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (X,), probe=False)
    assert report.failing == [""]
    assert "it changes its input x in place" in " ".join(str(report).split())
