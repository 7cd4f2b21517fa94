"""Tables of several fields that a port has in one table, with offsets, as networks of recommendation do."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import QUICKLY, drawn

ROWS, SIZE = (5, 9, 4), 6


class Fields(nn.Module):
    """A table for each field."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleDict({f"field{i}": nn.Embedding(n, SIZE) for i, n in enumerate(ROWS)})
        self.head = nn.Linear(len(ROWS) * SIZE, 2)

    def forward(self, ids: Tensor) -> Tensor:
        rows = [table(ids[:, i]) for i, table in enumerate(self.tables.values())]
        result: Tensor = self.head(torch.cat(rows, -1).tanh())
        return result


class Joined(nn.Module):
    """One table, in which the last field comes first."""

    offsets = (4, 9, 0)

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(sum(ROWS), SIZE), nn.Linear(len(ROWS) * SIZE, 2)

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = self.head(self.table(ids + torch.tensor(self.offsets)).flatten(1).tanh())
        return result


class Overlapping(Joined):
    """A fault: two fields share rows."""

    offsets = (4, 8, 0)


def ids() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return (torch.stack([torch.randint(0, n, (12,), generator=generator) for n in ROWS], 1),)


def test_each_field_is_found_in_the_joined_table() -> None:
    reference, candidate = drawn(Fields(), 0), drawn(Joined(), 1)
    loading = load_by_structure(reference, ModulePort(candidate), ids(), {})
    tables = [reference.state_dict()[f"tables.field{i}.weight"] for i in (2, 0, 1)]
    assert torch.equal(torch.as_tensor(loading.arrays["table.weight"]), torch.cat(tables))
    assert loading.assemblies["table.weight"].names == tuple(f"tables.field{i}.weight" for i in (2, 0, 1))
    assert parity.compare(reference, candidate, ids(), load_weights=True, **QUICKLY).ok


def test_offsets_that_overlap_are_not_taken_for_joined_tables() -> None:
    assert parity.compare(drawn(Fields(), 0), drawn(Overlapping(), 1), ids(), load_weights=True, **QUICKLY).failed
