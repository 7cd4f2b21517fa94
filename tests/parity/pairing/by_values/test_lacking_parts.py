"""Parts of a joined tensor that a file computes wrongly, where it never joins them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

SEEN, STATE = 4, 3


class Steps(nn.Module):
    """A step of a gated recurrence and the two layers of the next one, of what is seen beside the state."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.new, self.left, self.right = (nn.Linear(STATE + SEEN, STATE) for _ in range(4))

    def forward(self, state: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([state, seen], -1)
        state = torch.sigmoid(self.gate(both)) * torch.tanh(self.new(both))
        both = torch.cat([state, seen], -1)
        return self.left(both), self.right(both)


class Apart(nn.Module):
    """The same with products of the state by themselves, of which some have the wrong sign."""

    def __init__(self, reference: Steps) -> None:
        super().__init__()
        layers = reference.gate, reference.new, reference.left, reference.right
        self.of_seen = nn.Parameter(torch.stack([layer.weight.detach()[:, STATE:] for layer in layers]))
        signs = (-1, 1, -1, -1)
        of_state = [sign * layer.weight.detach()[:, :STATE] for sign, layer in zip(signs, layers, strict=True)]
        self.of_state = nn.Parameter(torch.stack(of_state))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers]))

    def forward(self, state: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        gate, new, left, right = (
            nn.functional.linear(seen, weight, bias) for weight, bias in zip(self.of_seen, self.bias, strict=True)
        )
        for_gate, for_new, for_left, for_right = self.of_state
        state = torch.sigmoid(gate + state @ for_gate.T) * torch.tanh(new + state @ for_new.T)
        return left + state @ for_left.T, right + state @ for_right.T


def test_a_part_that_follows_shows_the_place_of_a_wrong_result() -> None:
    """With the right gate, nothing agrees but the state, which the file has beside what is seen, never joined."""
    torch.manual_seed(0)
    reference = Steps()
    inputs = torch.randn(5, STATE), torch.randn(5, SEEN)
    report = parity.compare(reference, Apart(reference), inputs, probe=False)
    assert report.failing == ["gate", "left", "right"], str(report)
