"""Stacks of matrices that one side joins: those of a spectrum's lowest and highest frequencies."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE, COUNT, ROWS, COLUMNS = 3, 2, 7, 4


class Ends(nn.Module):
    """Matrices [in, out, row, column] for the first rows, and for the last ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = (nn.Parameter(torch.zeros(SIZE, SIZE, COUNT, COLUMNS)) for _ in range(2))
        self.out = nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        first = torch.einsum("brci,iorc->brco", x[:, :COUNT], self.first)
        last = torch.einsum("brci,iorc->brco", x[:, -COUNT:], self.last)
        result: Tensor = self.out(torch.cat([first, last], 1).sin())
        return result


class Joined(nn.Module):
    """All matrices [row, column, in, out] at once."""

    def __init__(self) -> None:
        super().__init__()
        self.ends, self.out = nn.Parameter(torch.zeros(2 * COUNT, COLUMNS, SIZE, SIZE)), nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.cat([torch.arange(COUNT), torch.arange(ROWS - COUNT, ROWS)])
        result: Tensor = self.out(torch.einsum("brci,rcio->brco", x[:, rows], self.ends).sin())
        return result


def test_a_stack_is_found_whichever_side_has_it_whole() -> None:
    x = torch.randn(2, ROWS, COLUMNS, SIZE)
    parts, whole = drawn(Ends(), 0), drawn(Joined(), 1)
    joined = torch.cat([parts.first, parts.last], 2).permute(2, 3, 0, 1)
    arrays = load_by_structure(parts, ModulePort(whole), (x,), {}).arrays
    assert torch.equal(torch.as_tensor(arrays["ends"]), joined)
    first, last = whole.ends.permute(2, 3, 0, 1).chunk(2, 2)
    arrays = load_by_structure(whole, ModulePort(parts), (x,), {}).arrays
    assert torch.equal(torch.as_tensor(arrays["first"]), first)
    assert torch.equal(torch.as_tensor(arrays["last"]), last)
