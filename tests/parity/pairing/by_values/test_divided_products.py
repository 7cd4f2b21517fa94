"""Products of which a module computes the parts one by one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge.converter import from_torch
from cellbridge.parity.pairing.by_values.divided_products import divide_products
from cellbridge.parity.pairing.by_values.flat import without_boundaries


class Queries(nn.Module):
    """Returns queries, the same in heads, as a norm is given them, and keys."""

    def __init__(self) -> None:
        super().__init__()
        self.qk = nn.Linear(8, 9)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k = self.qk(x).split([6, 3], dim=-1)
        return q, q.unflatten(-1, (2, 3)).transpose(1, 2), k


def test_what_is_read_from_a_part_is_no_other_part() -> None:
    program = without_boundaries(from_torch(Queries(), (torch.randn(2, 5, 8),)))
    divided = divide_products(program, program.outputs)
    widths = [node.outputs[0].shape[-1] for node in divided.nodes if node.op == "linear"]
    assert sorted(widths) == [3, 6]
    x = torch.randn(2, 5, 8)
    for own, expected in zip(divided(x), program(x), strict=True):
        torch.testing.assert_close(torch.as_tensor(own), torch.as_tensor(expected))
