"""Parts that a file joins to a tensor which is known: each is the place of what the module joins."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

SIZE, OUT, HEADS = 5, 4, 3


class Head(nn.Module):
    """One head of attention over the rows of a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(SIZE, OUT))

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        return torch.softmax(y @ y.T + x[:, :1], dim=1) @ y


class Heads(nn.Module):
    """Several heads, joined and mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head() for _ in range(HEADS))
        self.mix = nn.Linear(HEADS * OUT, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(torch.cat([head(x) for head in self.heads], dim=1))


class AtOnce(nn.Module):
    """The same with all heads at once, but for the axis of the softmax."""

    def __init__(self, reference: Heads, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.weight = nn.Parameter(torch.stack([head.weight.detach() for head in reference.heads], 1))
        self.mix = nn.Linear(HEADS * OUT, 3)
        self.mix.load_state_dict(reference.mix.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("ni,iho->hno", x, self.weight)
        weights = torch.softmax(y @ y.mT + x[None, :, :1], dim=self.axis)
        return self.mix((weights @ y).transpose(0, 1).flatten(1))


def test_each_head_of_several_is_accused_of_what_all_do_wrong() -> None:
    """Behind the fault no head agrees, but what they are joined to has a place."""
    torch.manual_seed(0)
    reference = Heads()
    report = parity.compare(reference, AtOnce(reference, axis=1), (torch.randn(6, SIZE),), probe=False)
    assert report.failing == [f"heads.{number}" for number in range(HEADS)], report
