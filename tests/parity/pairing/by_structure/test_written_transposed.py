"""Transposed convolutions that a port writes as zeros between elements and a convolution, and the other way round."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(2, 3, 1)
        self.up = nn.ConvTranspose1d(3, 2, 4, stride=3, padding=1, output_padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.enter(x).relu())


class Spread(nn.Module):
    """Implicit padding is the convolution's; without it, the zeros are added before."""

    def __init__(self, implicit: bool) -> None:
        super().__init__()
        self.enter = nn.Conv1d(2, 3, 1)
        self.kernel, self.bias = nn.Parameter(torch.zeros(4, 3, 2)), nn.Parameter(torch.zeros(2))
        self.implicit = implicit

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x).relu()
        wide = torch.zeros(*y.shape, 3, dtype=y.dtype)
        wide[..., 0] = y
        wide = F.pad(wide.flatten(2)[..., :-2], (0, 1) if self.implicit else (2, 3))
        return F.conv1d(wide, self.kernel.permute(2, 1, 0), self.bias, padding=2 if self.implicit else 0)


@pytest.mark.parametrize("implicit", [False, True])
def test_a_kernel_is_turned_around_for_the_convolution(implicit: bool) -> None:
    reference, candidate = drawn(Transposed(), 1), drawn(Spread(implicit), 2)
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, 2, 5),), {})
    kernel = reference.up.weight.permute(2, 0, 1).flip(0).detach()  # type: ignore[union-attr, operator]
    assert torch.equal(torch.from_numpy(loading.arrays["kernel"]), kernel)


def test_the_other_way_round() -> None:
    reference, candidate = drawn(Spread(False), 1), drawn(Transposed(), 2)
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, 2, 5),), {})
    weight = reference.kernel.permute(1, 2, 0).flip(2).detach()  # type: ignore[operator]
    assert torch.equal(torch.from_numpy(loading.arrays["up.weight"]), weight)
