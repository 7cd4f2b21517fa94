"""A Mamba: causal depthwise convolution, input-dependent state space with a scan over time, gated output."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SelectiveScan(nn.Module):
    """A linear recurrence whose step size, input and output maps depend on the input."""

    def __init__(self, inner: int, states: int, rank: int) -> None:
        super().__init__()
        self.states, self.rank = states, rank
        self.x_proj = nn.Linear(inner, rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.log_a = nn.Parameter(torch.arange(1.0, states + 1).repeat(inner, 1).log())
        self.d = nn.Parameter(torch.ones(inner))

    def forward(self, x: Tensor) -> Tensor:
        dt, b, c = self.x_proj(x).split([self.rank, self.states, self.states], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        a = -torch.exp(self.log_a)
        decay = torch.exp(dt[..., None] * a)
        drive = dt[..., None] * b[:, :, None, :] * x[..., None]
        state = torch.zeros_like(drive[:, 0])
        outputs = []
        for t in range(x.shape[1]):
            state = decay[:, t] * state + drive[:, t]
            outputs.append((state * c[:, t, None, :]).sum(-1))
        return torch.stack(outputs, dim=1) + self.d * x


class Mixer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 2 * width
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.scan = SelectiveScan(inner, 4, 2)
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x, z = self.in_proj(x).chunk(2, dim=-1)
        length = x.shape[1]
        x = self.conv(x.transpose(1, 2))[..., :length].transpose(1, 2)
        y = self.scan(F.silu(x))
        return self.out_proj(y * F.silu(z))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.mixer = Mixer(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mixer(self.norm(x))


class Mamba(nn.Module):
    """ids [batch, length] to scores [batch, length, words]."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(2))
        self.norm_f = nn.RMSNorm(width, eps=1e-5)
        self.lm_head = nn.Linear(width, 20, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm_f(x))


def build() -> nn.Module:
    return Mamba()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, 20, (2, 7)),)
