"""Networks with a norm in each branch, and ports that have one norm for the joined branches."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE, BRANCH = 3, 4


class Apart(nn.Module):
    """Two branches, of which one looks at the whole image, each with its norm."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.near_norm = nn.Conv2d(SIZE, BRANCH, 3, padding=1, bias=False), nn.BatchNorm2d(BRANCH)
        self.whole, self.whole_norm = nn.Conv2d(SIZE, BRANCH, 1, bias=False), nn.BatchNorm2d(BRANCH)
        self.merge = nn.Conv2d(2 * BRANCH, SIZE, 1)

    def forward(self, x: Tensor) -> Tensor:
        near = torch.relu(self.near_norm(self.near(x)))
        whole = torch.relu(self.whole_norm(self.whole(F.adaptive_avg_pool2d(x, 1))))
        whole = F.interpolate(whole, size=x.shape[2:], mode="bilinear", align_corners=False)
        result: Tensor = self.merge(torch.cat([near, whole], 1))
        return result


class Joined(nn.Module):
    """The other branch first, repeated before one norm for both."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.point = nn.Linear(SIZE, BRANCH, bias=False), nn.Conv2d(SIZE, BRANCH, 3, padding=1, bias=False)
        self.norm, self.merge = nn.BatchNorm2d(2 * BRANCH), nn.Conv2d(2 * BRANCH, SIZE, 1)

    def forward(self, x: Tensor) -> Tensor:
        whole = self.image(x.mean((2, 3)))[:, :, None, None].expand(-1, -1, *x.shape[2:])
        result: Tensor = self.merge(torch.relu(self.norm(torch.cat([whole, self.point(x)], 1))))
        return result


def test_a_norm_of_joined_branches_gets_the_norms_of_all_of_them() -> None:
    reference, candidate = drawn(Apart(), 0), drawn(Joined(), 1)
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, SIZE, 5, 4),), {})
    weights = reference.state_dict()
    for name in ("weight", "bias", "running_mean", "running_var"):
        expected = torch.cat([weights[f"whole_norm.{name}"], weights[f"near_norm.{name}"]])
        assert torch.equal(torch.as_tensor(loading.arrays[f"norm.{name}"]), expected), name
    merge = weights["merge.weight"]
    assert torch.equal(torch.as_tensor(loading.arrays["merge.weight"]), merge.roll(BRANCH, 1))
