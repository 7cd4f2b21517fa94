"""A tensor that a candidate detaches: the Cell that does it is at fault, and no Cell that the tensor enters."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.value = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        value = self.value(memory)
        return torch.softmax(self.query(x) @ value.mT, -1) @ value


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend, self.norm = Attend(), nn.LayerNorm(4)
        self.detaches = False

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return x + self.attend(self.norm(x), memory.detach() if self.detaches else memory)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encode, self.layers = nn.Linear(4, 4), nn.ModuleList(Layer() for _ in range(2))
        self.detaches = False

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        memory = self.encode(memory)
        memory = memory.detach() if self.detaches else memory
        for layer in self.layers:
            x = layer(x, memory)
        return x


def detach_in(path: str) -> Any:
    candidate = Network()
    candidate.get_submodule(path).detaches = True  # type: ignore[assignment]
    return candidate


@pytest.mark.parametrize("path", ["", "layers.0", "layers.1"])
@pytest.mark.every(3)
def test_only_the_cell_that_detaches_is_at_fault(path: str) -> None:
    args = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    assert parity.compare(Network(), detach_in(path), args).failing == [path]


def test_what_both_detach_is_no_fault() -> None:
    reference = detach_in("layers.0")
    assert parity.compare(reference, copy.deepcopy(reference), (torch.randn(2, 3, 4), torch.randn(2, 5, 4))).ok


def test_a_gradient_that_only_the_candidate_has_is_its_fault() -> None:
    report = parity.compare(detach_in("layers.1"), Network(), (torch.randn(2, 3, 4), torch.randn(2, 5, 4)))
    assert report.failing == ["layers.1"]
