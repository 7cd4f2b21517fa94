"""Layers that are called once with joined data, where a port calls them for each part."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE = 5


class Joined(nn.Module):
    """Stacks what two blocks return, and has a head for both."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh()) for _ in range(2))
        self.head = nn.Sequential(nn.Linear(SIZE, SIZE), nn.ReLU(), nn.Linear(SIZE, SIZE), nn.ReLU())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        stages = []
        for block in self.blocks:
            x = block(x)
            stages.append(x)
        results = self.head(torch.stack(stages).transpose(1, 2)).sigmoid()
        return results[-1], results[0]


class Apart(Joined):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        stages = []
        for block in self.blocks:
            x = block(x)
            stages.append(torch.sigmoid(self.head(x.transpose(0, 1))))
        return stages[1], stages[0]


class Together(Joined):
    """A sum over both blocks: the parts aren't apart, and stay joined."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = self.blocks[0](x)
        results = self.head(torch.stack([first, self.blocks[1](first)])).softmax(0)
        return results[1], results[0]


def assert_loaded(reference: nn.Module, candidate: nn.Module) -> None:
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(3, 2, SIZE),), {})
    for name, weight in reference.state_dict().items():
        assert torch.equal(torch.as_tensor(loading.arrays[name]), weight), name


def test_a_head_that_is_called_once_for_all_blocks_is_one_that_is_called_for_each() -> None:
    assert_loaded(drawn(Joined(), 0), drawn(Apart(), 1))
    assert_loaded(drawn(Apart(), 0), drawn(Joined(), 1))


def test_what_computes_across_joined_parts_stays_as_it_is() -> None:
    assert_loaded(drawn(Together(), 0), drawn(Together(), 1))
