"""A right Cell that is given another tensor: the one around it is wrong that gives it, in the port's own modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH = 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (self.q(q) @ self.k(k).mT).softmax(-1) @ self.v(v)  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm = Attention(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        q = x + positions
        return self.norm(x + self.attention(q, q, x))  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.block, self.head = nn.Linear(3, WIDTH), Block(), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.head(self.block(self.first(x), positions))  # type: ignore[no-any-return]


class Mix(nn.Module):
    """The port's attention, which adds positions to all that it is given if it is to."""

    def __init__(self, adds: bool) -> None:
        super().__init__()
        self.adds = adds
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        x = x + positions if self.adds else x
        weights = (self.a(x) @ self.b(x).mT).softmax(-1)
        return weights @ self.c(x)  # type: ignore[no-any-return]


class Port(nn.Module):
    """Adds the positions to the values of the attention, too: outside the attention, or inside it."""

    def __init__(self, inside: bool) -> None:
        super().__init__()
        self.inside = inside
        self.enter, self.mix, self.after, self.out = (
            nn.Linear(3, WIDTH), Mix(inside), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2),
        )  # fmt: skip

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        x = self.enter(x)
        mixed = self.mix(x if self.inside else x + positions, positions)
        return self.out(self.after(x + mixed))  # type: ignore[no-any-return]


def failing(inside: bool) -> list[str]:
    torch.manual_seed(0)
    reference, port = Network(), Port(inside)
    port.load_state_dict(dict(zip(port.state_dict(), reference.state_dict().values(), strict=True)))
    arguments = torch.randn(2, 5, 3), torch.randn(2, 5, WIDTH)
    return list(parity.compare(reference, port, arguments, probe=False, diagnose_seconds=0).failing)


def test_the_cell_is_wrong_that_gives_another_tensor() -> None:
    assert failing(inside=False) == ["block"]


def test_what_the_module_adds_itself_is_its_own_fault() -> None:
    assert failing(inside=True) == ["block.attention"]
