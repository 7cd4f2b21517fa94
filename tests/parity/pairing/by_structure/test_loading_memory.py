"""Memory that loading takes, beside the two networks."""

from __future__ import annotations

import tracemalloc

import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

WIDTH, DEPTH = 320, 12


class Matrices(nn.Module):
    """The layers of a perceptron without modules."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = nn.ParameterList(torch.zeros(WIDTH, WIDTH) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        for kernel in self.kernels:
            x = torch.tanh(x @ kernel)
        return x


def test_loading_takes_less_than_five_times_the_weights() -> None:
    layers = [layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh())]
    reference, candidate = drawn(nn.Sequential(*layers), 0), drawn(Matrices(), 1)
    x = (torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(0)) / 8,)
    load_by_structure(
        nn.Sequential(nn.Linear(4, 4)), ModulePort(nn.Sequential(nn.Linear(4, 4))), (torch.ones(1, 4),), {}
    )
    tracemalloc.start()
    try:
        loading = load_by_structure(reference, ModulePort(candidate), x, {})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(loading.arrays) == DEPTH
    assert peak < 5 * 4 * DEPTH * WIDTH * WIDTH
