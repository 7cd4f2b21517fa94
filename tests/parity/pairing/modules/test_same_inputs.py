"""Inputs of a Cell that are one tensor are one input, whose gradient is the sum of the parts that reach it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.terminal import failure_text
from cellbridge.runtime import nn as cells
from cellbridge.runtime import ops

Call = Callable[[Any, Tensor], Tensor]


def residual(f: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(f(a)) + b


def other_roles(f: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(f(b)) + a


def detached(f: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(f(a)) + b.detach()


def added_twice(f: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(f(a)) + a + b


class Twice(nn.Module):
    """A block of two inputs."""

    def __init__(self, compute: Callable[..., Tensor]) -> None:
        super().__init__()
        self.fc, self.compute = nn.Linear(4, 4), compute

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.compute(self.fc, a, b)


class Once(Twice):
    """The same with one input."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.compute(self.fc, x, x)


class Network(nn.Module):
    def __init__(self, block: nn.Module, call: Call) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head, self.block, self.tail, self.call = nn.Linear(4, 4), block, nn.Linear(4, 2), call

    def forward(self, x: Tensor) -> Tensor:
        return self.tail(self.call(self.block, self.head(x)))


CALLS: dict[str, tuple[type[Twice], Call]] = {
    "once": (Once, lambda block, x: block(x)),
    "twice": (Twice, lambda block, x: block(x, x)),
    "by name": (Twice, lambda block, x: block(b=x, a=x)),
    "a copy": (Twice, lambda block, x: block(x, x.clone())),
    "a view": (Twice, lambda block, x: block(x, x.view_as(x))),
}
PAIRS = [("twice", "twice"), ("twice", "once"), ("once", "twice"), ("by name", "once"), ("a copy", "twice")]
PAIRS += [("twice", "a copy"), ("once", "a view"), ("a view", "once")]


def network(how: str, compute: Callable[..., Tensor]) -> nn.Module:
    block, call = CALLS[how]
    return Network(block(compute), call)


@pytest.mark.every(2)
@pytest.mark.parametrize(("reference", "candidate"), PAIRS)
@pytest.mark.every(2)
def test_how_often_a_tensor_is_taken_is_no_difference(reference: str, candidate: str) -> None:
    x = torch.linspace(-1, 1, 12).sin().reshape(3, 4)
    module = network(reference, residual)
    for compute, is_right in ((other_roles, True), (detached, False), (added_twice, False)):
        port = network(candidate, compute)
        port.load_state_dict(module.state_dict())
        report = parity.compare(module, port, (x,), probe=False, diagnose_seconds=0)
        assert report.ok == is_right, failure_text(report)
        if not is_right and "a view" not in (reference, candidate):
            assert report.failing == ["block"]  # it is judged by itself


def test_the_roots_inputs_are_independent() -> None:
    x = torch.linspace(-1, 1, 12).sin().reshape(3, 4)
    reference, candidate = Twice(residual), Twice(other_roles)
    candidate.load_state_dict(reference.state_dict())
    assert not parity.compare(reference, candidate, (x, x), probe=False, diagnose_seconds=0).ok


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.fc = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.attention(x, x, x, need_weights=False)[0])


class PortedHeads(cells.Cell):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.in_proj, self.out_proj, self.scale = cells.Dense(8, 24), cells.Dense(8, 8), scale

    def construct(self, x: Any) -> Any:
        q, k, v = ops.chunk(self.in_proj(x).reshape(2, 3, 6, 4).transpose(0, 2, 1, 3), 3, axis=1)
        scores = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * self.scale, axis=-1)
        return self.out_proj(ops.matmul(scores, v).transpose(0, 2, 1, 3).reshape(2, 3, 8))


class PortedAttention(cells.Cell):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.attention, self.fc = PortedHeads(scale), cells.Dense(8, 3)

    def construct(self, x: Any) -> Any:
        return self.fc(self.attention(x))


@pytest.mark.parametrize("scale", [0.5, 0.6])
def test_a_cell_takes_once_what_an_attention_takes_three_times(scale: float) -> None:
    torch.manual_seed(0)
    weights = {f"attention.in_proj.{name}": f"attention.in_proj_{name}" for name in ("weight", "bias")}
    x = torch.randn(2, 3, 8)
    report = parity.compare(Attention(), PortedAttention(scale), (x,), weights=weights, probe=False, diagnose_seconds=0)
    assert report.failing == ([] if scale == 0.5 else ["attention"]), failure_text(report)
    assert any(c.kind == "input gradient" for c in report.cells["attention"].comparisons)
