"""Ports that have features in another order, with the weights to it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

WIDTH, NEW, SIZE = 6, 4, 6
NEWEST_FIRST = torch.arange(WIDTH + NEW).roll(NEW)


class Join(nn.Module):
    def forward(self, x: Tensor, new: Tensor) -> Tensor:
        return torch.cat((x, new), -1)


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.join = nn.Linear(WIDTH, NEW), nn.Tanh(), Join()
        self.norm, self.second = nn.LayerNorm(WIDTH + NEW), nn.Linear(WIDTH + NEW, WIDTH + NEW)
        self.head = nn.Linear(2 * (WIDTH + NEW), 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.join(x, self.act(self.first(x)))
        return self.head(torch.cat((x, self.second(self.norm(x))), -1))  # type: ignore[no-any-return]


class NewestFirst(nn.Module):
    """Has what a layer adds before what it was given."""

    def __init__(self, like: Dense, fault: str) -> None:
        super().__init__()
        self.a, self.b, self.n = nn.Linear(WIDTH, NEW), nn.Linear(WIDTH + NEW, WIDTH + NEW), nn.LayerNorm(WIDTH + NEW)
        self.c = nn.Linear(2 * (WIDTH + NEW), 3)
        order = slice(None) if fault == "joined in the other order" else NEWEST_FIRST
        of_norm = slice(None) if fault == "norm not turned" else order
        columns = torch.arange(2 * (WIDTH + NEW))
        columns[: WIDTH + NEW] = columns[: WIDTH + NEW][order]
        columns = columns.roll(WIDTH + NEW) if fault != "joined in the other order" else columns
        self.last_first = fault != "joined in the other order"
        self.a.load_state_dict(like.first.state_dict())
        self.b.load_state_dict({"weight": like.second.weight[:, order], "bias": like.second.bias})
        self.n.load_state_dict({"weight": like.norm.weight[of_norm], "bias": like.norm.bias[of_norm]})
        self.c.load_state_dict({"weight": like.head.weight[:, columns], "bias": like.head.bias})

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((torch.tanh(self.a(x)), x), -1)
        parts = (self.b(self.n(x)), x)
        return self.c(torch.cat(parts if self.last_first else parts[::-1], -1))  # type: ignore[no-any-return]


def compared(fault: str = "") -> Report:
    torch.manual_seed(0)
    reference = Dense()
    with torch.no_grad():
        for parameter in reference.norm.parameters():
            parameter += torch.randn_like(parameter)
    return parity.compare(reference, NewestFirst(reference, fault), (torch.randn(2, 5, WIDTH),))


def test_all_cells_are_compared() -> None:
    report = compared()
    assert report.ok
    assert [path for path, cell in report.cells.items() if not cell.comparisons] == []


def test_a_norm_that_kept_the_order() -> None:
    assert compared("norm not turned").failing == ["norm"]


def test_a_wrong_order_is_where_features_are_joined() -> None:
    assert compared("joined in the other order").failing == ["join"]


class Halves(nn.Module):
    """Queries of four heads and keys of two, whose features are multiplied by those of the other half."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.head = nn.Linear(WIDTH, 4 * SIZE), nn.Linear(WIDTH, 2 * SIZE), nn.Linear(3 * SIZE, 2)
        self.q_norm, self.k_norm = nn.LayerNorm(SIZE, bias=False), nn.LayerNorm(SIZE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k = (
            norm(part(x).unflatten(-1, (-1, SIZE))) for part, norm in ((self.q, self.q_norm), (self.k, self.k_norm))
        )
        first, second = torch.cat((q, k), -2).chunk(2, -1)
        return self.head((first * second).flatten(-2))  # type: ignore[no-any-return]


class Pairs(nn.Module):
    """Has the features of both halves in turn, with a product for queries and keys together."""

    def __init__(self, like: Halves) -> None:
        super().__init__()
        self.both, self.out = nn.Linear(WIDTH, 6 * SIZE), nn.Linear(3 * SIZE, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(SIZE, bias=False) for _ in range(2))
        order = torch.arange(SIZE).unflatten(0, (2, -1)).T.flatten()
        for name in ("weight", "bias"):
            rows = torch.cat(
                [getattr(part, name).detach().unflatten(0, (-1, SIZE))[:, order] for part in (like.q, like.k)]
            )
            setattr(self.both, name, nn.Parameter(rows.flatten(0, 1)))
        self.norms[0].load_state_dict(like.q_norm.state_dict())  # a fault: in halves
        self.norms[1].load_state_dict({"weight": like.k_norm.weight[order]})
        self.out.load_state_dict(like.head.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.both(x).unflatten(-1, (-1, SIZE)).split((4, 2), -2)
        x = torch.cat((self.norms[0](q), self.norms[1](k)), -2)
        return self.out((x[..., ::2] * x[..., 1::2]).flatten(-2))  # type: ignore[no-any-return]


def test_a_norm_of_more_heads_than_others_of_that_order() -> None:
    torch.manual_seed(0)
    reference = Halves()
    with torch.no_grad():
        for norm in (reference.q_norm, reference.k_norm):
            norm.weight += torch.randn(SIZE)
    assert parity.compare(reference, Pairs(reference), (torch.randn(2, 5, WIDTH),)).failing == ["q_norm"]
