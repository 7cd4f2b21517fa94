"""Parameters that a network passes to each of its layers, as the biases of Transformer-XL's queries."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH, HEADS = 6, 2


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k = (layer(x).unflatten(-1, (HEADS, -1)) for layer in (self.q, self.k))
        scores = torch.einsum("bihd,bjhd->bhij", q + bias, k).softmax(-1)
        return self.out(torch.einsum("bhij,bjhd->bihd", scores, k).flatten(2))  # type: ignore[no-any-return]


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(HEADS, WIDTH // HEADS))
        self.layers = nn.ModuleList(Mixer() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x, self.bias)
        return x


class Layer(nn.Module):
    def __init__(self, mixer: Mixer, fault: str) -> None:
        super().__init__()
        self.query, self.key, self.proj, self.fault = mixer.q, mixer.k, mixer.out, fault

    def forward(self, x: Tensor, u: Tensor) -> Tensor:
        q, k = (layer(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for layer in (self.query, self.key))
        u = u.detach() if self.fault == "detached" else u
        scores = ((q + u[:, None]) @ k.mT).softmax(-1)
        return x + self.proj((scores @ k).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Port(nn.Module):
    """Each layer brings the bias into the layout of its own queries."""

    def __init__(self, reference: Reference, faults: tuple[str, str] = ("", "")) -> None:
        super().__init__()
        self.content = nn.Parameter(reference.bias.detach().clone())
        self.stack = nn.ModuleList(Layer(*pair) for pair in zip(reference.layers, faults, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.stack:
            x = layer(x, self.content)
        return x


def compared(*faults: str) -> parity.Report:
    torch.manual_seed(0)
    reference = Reference()
    return parity.compare(reference, Port(reference, faults or ("", "")), (torch.randn(2, 5, WIDTH),), probe=False)  # type: ignore[arg-type]


def test_each_layer_has_its_part_of_the_gradient() -> None:
    report = compared()
    assert report.ok
    kinds = {(path, c.kind) for path, cell in report.cells.items() for c in cell.comparisons if c.tensor == "bias"}
    assert kinds >= {("layers.0", "input gradient"), ("layers.1", "input gradient"), ("", "parameter gradient")}


@pytest.mark.parametrize("layer", [0, 1])
def test_the_layer_without_a_gradient_is_named(layer: int) -> None:
    report = compared(*("detached" if number == layer else "" for number in range(2)))
    assert report.failing == [f"layers.{layer}"]
