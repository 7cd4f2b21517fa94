"""A part of a program is run alone, though another part determines sizes that it uses."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from cellbridge.converter import from_torch
from cellbridge.parity.pairing.by_values.file_values import FileValues
from cellbridge.parity.pairing.by_values.flat import FlatProgram


class Rows(nn.Module):
    """Repeats a row for each row with a positive sum."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        (rows,) = torch.where(x.sum(-1) > 0)
        return torch.tanh(y).expand(rows.shape[0], 2).cumsum(0)


def test_a_part_is_given_its_sizes() -> None:
    x, y = torch.tensor([[1.0], [-1.0], [2.0]]), torch.tensor([0.5, 0.2])
    flat = FlatProgram(from_torch(Rows(), (x, y)))
    file = FileValues(flat, [[x.numpy(), y.numpy()]])
    (tanh,) = (node for node in flat.program.nodes if node.op == "tanh")
    changed = file.trial(tanh.outputs[0], [np.array([1.0, 2.0])])
    assert np.array_equal(changed[flat.program.outputs[0]][0], [[1.0, 2.0], [2.0, 4.0]])
