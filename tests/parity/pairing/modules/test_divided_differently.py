"""Cells that hold other Cells, or return other tensors, than the reference's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import PASS, UNPAIRED
from cellbridge.parity.results.structure import CALLED_DIFFERENTLY, OTHER_RESULT

X = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
Forward = Callable[..., Any]


class Attention(nn.Module):
    """Returns what its forward function returns."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.query, self.out, self.drop = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout()
        self.function = forward

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


class Block(nn.Module):
    """Calls an attention in its forward function."""

    def __init__(self, forward: Forward, attention: Forward) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(4), Attention(attention)
        self.function = forward

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def plain(self: Any, x: Tensor) -> Tensor:
    return self.drop(self.out(self.query(x).tanh()))


def add(self: Any, x: Tensor) -> Tensor:
    return x + self.attention(self.norm(x))


def without_layer(self: Any, x: Tensor) -> Tensor:
    return self.query(x).tanh()


def add_with_layer(self: Any, x: Tensor) -> Tensor:
    return x + self.attention.drop(self.attention.out(self.attention(self.norm(x))))


def without_dropout(self: Any, x: Tensor) -> Tensor:
    return self.out(self.query(x).tanh())


def add_with_dropout(self: Any, x: Tensor) -> Tensor:
    return x + self.attention.drop(self.attention(self.norm(x)))


def transposed(self: Any, x: Tensor) -> Tensor:
    return plain(self, x).transpose(1, 2)


def add_transposed(self: Any, x: Tensor) -> Tensor:
    return x + self.attention(self.norm(x)).transpose(1, 2)


def rows(self: Any, x: Tensor) -> Tensor:
    return plain(self, x).reshape(-1, 4)


def add_rows(self: Any, x: Tensor) -> Tensor:
    return x + self.attention(self.norm(x)).reshape(x.shape)


def first_row(self: Any, x: Tensor) -> Tensor:
    return plain(self, x)[:, :1]


def with_hidden(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    hidden = self.query(x).tanh()
    return self.drop(self.out(hidden)), hidden


def add_first(self: Any, x: Tensor) -> Tensor:
    return x + self.attention(self.norm(x))[0]


def add_both(self: Any, x: Tensor) -> Tensor:
    result, hidden = self.attention(self.norm(x))
    return x + result + hidden


def add_own_hidden(self: Any, x: Tensor) -> Tensor:
    y = self.norm(x)
    return x + self.attention(y) + self.attention.query(y).tanh()


Forwards = tuple[Forward, Forward]
Change = Callable[[Any], object] | None


def compared(reference: Forwards, candidate: Forwards, change: Change = None) -> Report:
    torch.manual_seed(0)
    reference_network, candidate_network = (
        nn.Sequential(Block(*forwards), nn.Linear(4, 3)) for forwards in (reference, candidate)
    )
    candidate_network.load_state_dict(reference_network.state_dict())
    if change is not None:
        change(candidate_network[0])
    return parity.compare(reference_network, candidate_network, (X,))


def coarser(block: Any) -> None:
    block.norm.eps = 1e-2


@pytest.mark.parametrize("change", [None, coarser], ids=["sound", "fault"])
@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        ((add_with_layer, without_layer), "divided differently: 0.attention.out is inside it in the reference alone"),
        (
            (add_transposed, transposed),
            "returning result of shape [2, 4, 5] in the candidate",
        ),
        ((add_rows, rows), "returning result of shape [10, 4] in the candidate"),
    ],
    ids=["layer", "transposed", "rows"],
)
@pytest.mark.every(2)
def test_a_cell_that_ends_elsewhere_is_judged_in_the_cell_around_it(
    candidate: Forwards, reason: str, change: Change
) -> None:
    report = compared((add, plain), candidate, change)
    assert report.failing == ([] if change is None else ["0.norm"])
    (difference,) = report.structure
    assert (difference.kind, difference.name, difference.around) == (CALLED_DIFFERENTLY, "0.attention", "0")
    assert difference.text.startswith(f"0.attention is {reason}")
    assert difference.text.endswith("; it was judged in 0")
    assert report.cells["0.attention"].status == UNPAIRED
    inside = [report.cells[f"0.attention.{name}"] for name in ("query", "out")]
    assert all(any(c.kind == "parameter gradient" for c in cell.comparisons) for cell in inside)
    assert change is not None or {cell.status for cell in inside} == {PASS}


def test_what_only_passes_its_input_on_is_set_apart_itself() -> None:
    report = compared((add, plain), (add_with_dropout, without_dropout))
    assert report.ok
    assert [difference.name for difference in report.structure] == ["0.attention.drop"]
    assert report.cells["0.attention"].status == PASS


@pytest.mark.parametrize("change", [None, coarser], ids=["sound", "fault"])
def test_the_results_that_both_return_are_compared(change: Change) -> None:
    report = compared((add_first, with_hidden), (add, plain), change)
    assert report.failing == ([] if change is None else ["0.norm"])
    (difference,) = report.structure
    assert (difference.kind, difference.name) == (OTHER_RESULT, "0.attention")
    assert difference.text == "0.attention returns [1] in the reference alone; the rest is compared"
    compared_outputs = [c.tensor for c in report.cells["0.attention"].comparisons if c.kind == "output"]
    assert set(compared_outputs) == {"[0]"}


def test_a_wrong_result_beside_one_of_the_reference_alone_fails() -> None:
    def wrong(self: Any, x: Tensor) -> Tensor:
        return plain(self, x) * 1.01

    assert compared((add_first, with_hidden), (add, wrong)).failing == ["0.attention"]


def test_a_cell_of_which_a_result_is_used_in_the_reference_alone_is_set_apart() -> None:
    report = compared((add_both, with_hidden), (add_own_hidden, plain))
    assert report.ok, str(report)
    texts = {difference.name: difference.text for difference in report.structure}
    assert "returning [1] in the reference alone, which is used there" in texts["0.attention"]


def test_a_result_of_a_wrong_shape_is_a_fault_of_its_cell() -> None:
    report = compared((add, plain), (add, first_row))
    assert report.failing == ["0.attention"]
    assert "shape [2, 1, 4], needed [2, 5, 4]" in str(report)


def test_every_cell_that_is_set_apart_has_its_reason() -> None:
    def query_twice(self: Any, x: Tensor) -> Tensor:
        return self.out(self.query(x) / 2 + self.query(x) / 2).tanh()

    def add_outside(self: Any, x: Tensor) -> Tensor:
        return x + self.attention.out(self.attention(self.norm(x)))

    report = compared((add, query_twice), (add_outside, without_layer))
    assert report.failed
    names = {difference.name for difference in report.structure}
    assert names == {path for path, cell in report.cells.items() if cell.status == UNPAIRED}
    assert {"0.attention", "0.attention.query"} <= names
