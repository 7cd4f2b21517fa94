"""The work of a recurrent layer grows with its steps, so that probes of long sequences are bounded."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch
from cellbridge.parity.judging.probing.work import _of_program


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.every(2)
def test_the_work_of_a_layer_is_that_of_its_steps(kind: type[nn.Module]) -> None:
    few, many = (_of_program(from_torch(kind(8, 8), (torch.zeros(steps, 1, 8),))) for steps in (10, 100))
    assert many > 5 * few
