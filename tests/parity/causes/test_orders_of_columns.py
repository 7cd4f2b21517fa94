"""Features and the columns that they meet in different orders: no rearranging is named that nobody wrote."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

pytestmark = pytest.mark.causes

ORDER = [0, 2, 1, 4, 3]


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.other, self.last = nn.Linear(3, 8), nn.Linear(3, 5), nn.Linear(11, 2)

    def forward(self, x: Tensor) -> Tensor:
        pairs = self.first(x).view(-1, 4, 2)
        rows = torch.tensor([i for i in range(4) for j in range(i)])
        columns = torch.tensor([j for i in range(4) for j in range(i)])
        products = torch.bmm(pairs, pairs.mT)[:, rows, columns]
        return self.last(torch.cat([self.other(x).tanh(), products], -1)).sigmoid()  # type: ignore[no-any-return]


class Port(nn.Module):
    """Joins them the other way round, as the columns have them.

    Args:
        reference: the reference.
        above: whether the products are in the order of those above the diagonal, of which the columns know nothing.
        takes: whether the others are taken in another order.
    """

    def __init__(self, reference: Joined, *, above: bool = False, takes: bool = False) -> None:
        super().__init__()
        self.above, self.takes = above, takes
        self.one, self.two, self.three = nn.Linear(3, 8), nn.Linear(3, 5), nn.Linear(11, 2)
        for own, other in ((self.one, "first"), (self.two, "other"), (self.three, "last")):
            own.load_state_dict(getattr(reference, other).state_dict())
        self.three.weight.data = torch.cat([self.three.weight[:, 5:], self.three.weight[:, :5]], 1).detach()

    def forward(self, x: Tensor) -> Tensor:
        pairs = self.one(x).view(-1, 4, 2)
        i, j = torch.triu_indices(4, 4, 1) if self.above else torch.tril_indices(4, 4, -1)
        products = torch.einsum("bif,bjf->bij", pairs, pairs)[:, i, j]
        others = self.two(x).tanh()
        return self.three(torch.cat([products, others[:, ORDER] if self.takes else others], -1)).sigmoid()  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", ["above", "takes"])
def test_columns_in_another_order_than_the_features(way: str) -> None:
    torch.manual_seed(0)
    reference = Joined()
    port = Port(reference, **{way: True})
    report = parity.compare(reference, port, torch.randn(6, 3), probe=False)
    assert report.failing == ["last"]
    (cause,) = report.cells["last"].causes
    assert (cause.kind, cause.attribute) == ("weight", "last.weight")
    order = {"above": "0, 1, 2, 3, 4, 5, 6, 8, ...", "takes": "0, 2, 1, 4, 3, 5, 6, 7, ..."}[way]
    assert cause.summary == (
        f"last.weight is in another order along axis 1 ({order}) in the candidate, relative to its input"
    )


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.other, self.last = nn.Linear(3, 5), nn.Linear(3, 4), nn.Linear(9, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([self.other(x).tanh(), self.first(x).relu()], -1)).sigmoid()  # type: ignore[no-any-return]


class PlainPort(nn.Module):
    """Joins the rectified features first, as the columns are if they are turned; takes them in another order or not."""

    def __init__(self, reference: Plain, *, takes: bool, turned: bool) -> None:
        super().__init__()
        self.order = ORDER if takes else sorted(ORDER)
        self.one, self.two, self.three = nn.Linear(3, 5), nn.Linear(3, 4), nn.Linear(9, 2)
        for own, other in ((self.one, "first"), (self.two, "other"), (self.three, "last")):
            own.load_state_dict(getattr(reference, other).state_dict())
        if turned:
            self.three.weight.data = torch.cat([self.three.weight[:, 4:], self.three.weight[:, :4]], 1).detach()

    def forward(self, x: Tensor) -> Tensor:
        return self.three(torch.cat([self.one(x).relu()[:, self.order], self.two(x).tanh()], -1)).sigmoid()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("takes", "turned", "words"),
    [
        (True, True, "take is computed in the candidate in addition"),
        (False, False, "xs[0] and xs[1] of concat are exchanged in the candidate"),
    ],
)
def test_what_a_port_joins_in_another_order(takes: bool, turned: bool, words: str) -> None:
    torch.manual_seed(0)
    reference = Plain()
    port = PlainPort(reference, takes=takes, turned=turned)
    (cause,) = parity.compare(reference, port, torch.randn(6, 3), probe=False).cells[""].causes
    assert cause.summary == words


class Encoded(nn.Module):
    """Joins what it encodes with what it made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(11, 2)

    def forward(self, x: Tensor) -> Tensor:
        encoded = torch.cat([part for axis in x.unbind(-1) for part in (axis.sin()[:, None], axis.cos()[:, None])], -1)
        return self.last(torch.cat([encoded, self.first(encoded).relu()], -1)).sigmoid()  # type: ignore[no-any-return]


class Added(nn.Module):
    """Has all sines first, and adds two products; the columns of the second are in the reference's order."""

    def __init__(self, reference: Encoded) -> None:
        super().__init__()
        self.one, self.two, self.again = nn.Linear(6, 5), nn.Linear(5, 2), nn.Linear(6, 2, bias=False)
        self.one.weight.data = reference.first.weight[:, [0, 2, 4, 1, 3, 5]].detach()
        self.one.bias.data = reference.first.bias.detach().clone()
        self.two.weight.data, self.again.weight.data = (
            part.detach().clone() for part in reversed(reference.last.weight.split([6, 5], 1))
        )
        self.two.bias.data = reference.last.bias.detach().clone()

    def forward(self, x: Tensor) -> Tensor:
        encoded = torch.cat([x.sin(), x.cos()], -1)
        return (self.two(self.one(encoded).relu()) + self.again(encoded)).sigmoid()  # type: ignore[no-any-return]


def test_features_of_one_product_of_several_in_another_order() -> None:
    torch.manual_seed(0)
    reference = Encoded()
    report = parity.compare(reference, Added(reference), torch.randn(6, 3), probe=False)
    assert report.failing == ["last"]
    (cause,) = report.cells["last"].causes
    assert cause.summary == "the candidate has elements 0:6 along axis 1 of the input input in another layout"
