"""The first sum with a state that begins as zeros is what is added to it, which is no sum in the next layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH = 5


class Mix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x)) * x


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix, self.norm = Mix(), nn.LayerNorm(WIDTH)

    def forward(self, state: Tensor, x: Tensor) -> Tensor:
        return self.norm(state + self.mix(state + x))  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for layer in self.layers:
            state = layer(state, x)
        return self.head(state)  # type: ignore[no-any-return]


class Port(nn.Module):
    """With another activation, and nothing of its own for it."""

    def __init__(self, of: Network) -> None:
        super().__init__()
        self.mixes = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in of.layers)
        self.norms, self.out = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in of.layers), nn.Linear(WIDTH, 2)
        self.out.load_state_dict(of.head.state_dict())
        for mix, norm, layer in zip(self.mixes, self.norms, of.layers, strict=True):
            mix.load_state_dict(layer.mix.linear.state_dict())  # type: ignore[union-attr]
            norm.load_state_dict(layer.norm.state_dict())  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for mix, norm in zip(self.mixes, self.norms, strict=True):
            given = state + x
            state = norm(state + torch.sigmoid(mix(given)) * given)
        return self.out(state)  # type: ignore[no-any-return]


def test_the_same_part_of_each_layer_is_named() -> None:
    torch.manual_seed(0)
    reference = Network()
    report = parity.compare(reference, Port(reference), torch.randn(3, WIDTH), probe=False, diagnose_seconds=0)
    assert report.failing == ["layers.0.mix", "layers.1.mix"], str(report)
