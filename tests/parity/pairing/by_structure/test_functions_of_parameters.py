"""Parameters that one network holds as they are, and the other as their logarithm or before another function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE, TIME = 4, 3
Function = Callable[[Tensor], Tensor]
OnArrays = Callable[[np.ndarray], np.ndarray]


class Loop(nn.Module):
    """A state that fades by a rate at each step."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.up, self.rate, self.down = nn.Linear(SIZE, SIZE), nn.Parameter(torch.zeros(SIZE)), nn.Linear(SIZE, SIZE)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        fading = -self.function(self.rate)
        state, states = x[:, 0], [x[:, 0]]
        for t in range(1, TIME):
            state = torch.logaddexp(state + fading, x[:, t])
            states.append(state)
        result: Tensor = self.down(torch.stack(states, 1))
        return result


class Sum(Loop):
    """A sum over all earlier steps, with a table of how long ago they are."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        t = torch.arange(TIME)
        ages = (t[:, None] - t)[..., None]
        faded = -self.function(self.rate) * ages + x[:, None]
        result: Tensor = self.down(faded.masked_fill(ages < 0, -torch.inf).logsumexp(2))
        return result


def plain(x: Tensor) -> Tensor:
    return x


@pytest.mark.parametrize(
    ("of_reference", "of_port", "expected"),
    [
        (torch.exp, plain, np.exp),
        (F.softplus, plain, lambda x: np.log1p(np.exp(x))),
        (plain, torch.exp, np.log),
    ],
)
def test_a_rate_is_found_whichever_side_computes_it(
    of_reference: Function, of_port: Function, expected: OnArrays
) -> None:
    reference, candidate = drawn(Loop(of_reference), 0), drawn(Sum(of_port), 1)
    arrays = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, TIME, SIZE),), {}).arrays
    weights = reference.state_dict()
    np.testing.assert_allclose(arrays["rate"], expected(weights["rate"].numpy()), rtol=1e-5)
    assert torch.equal(torch.as_tensor(arrays["down.weight"]), weights["down.weight"])
