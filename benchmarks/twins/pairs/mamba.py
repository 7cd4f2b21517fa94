"""Mamba of transformers, against the short kind: one file, einsum, and a loop over time."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, STATE, RANK, DEPTH, WORDS, KERNEL = 10, 4, 3, 2, 20, 4
INNER = 2 * WIDTH


def build() -> nn.Module:
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(
        MambaConfig(
            vocab_size=WORDS, hidden_size=WIDTH, state_size=STATE, num_hidden_layers=DEPTH, expand=2,
            conv_kernel=KERNEL, time_step_rank=RANK, use_cache=False, residual_in_fp32=False,
        )
    )  # fmt: skip


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 6)),)


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class ResidualBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()
        self.to_x = nn.Linear(WIDTH, INNER, bias=False)
        self.to_z = nn.Linear(WIDTH, INNER, bias=False)
        self.conv = nn.Conv1d(INNER, INNER, KERNEL, groups=INNER, padding=KERNEL - 1)
        self.to_dbc = nn.Linear(INNER, RANK + 2 * STATE, bias=False)
        self.dt = nn.Linear(RANK, INNER)
        self.a_log = nn.Parameter(torch.zeros(INNER, STATE))
        self.d = nn.Parameter(torch.ones(INNER))
        self.out = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        u, z = self.to_x(y), self.to_z(y)
        u = F.silu(self.conv(u.transpose(1, 2))[:, :, : u.shape[1]].transpose(1, 2))
        return x + self.out(self.scan(u) * F.silu(z))

    def scan(self, u: Tensor) -> Tensor:
        delta, b, c = self.to_dbc(u).split([RANK, STATE, STATE], dim=-1)
        delta = F.softplus(self.dt(delta))
        a = torch.exp(torch.einsum("bld,dn->bldn", delta, -torch.exp(self.a_log)))
        bu = torch.einsum("bld,bln,bld->bldn", delta, b, u)
        state = torch.zeros_like(a[:, 0])
        results = []
        for t in range(u.shape[1]):
            state = a[:, t] * state + bu[:, t]
            results.append(torch.einsum("bdn,bn->bd", state, c[:, t]))
        return torch.stack(results, dim=1) + u * self.d


class ShortMamba(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(ResidualBlock() for _ in range(DEPTH))
        self.norm_f = Norm()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm_f(x) @ self.embedding.weight.T


NAMES = {
    "norm.weight": "norm.weight", "conv.weight": "mixer.conv1d.weight", "conv.bias": "mixer.conv1d.bias",
    "to_dbc.weight": "mixer.x_proj.weight", "dt.weight": "mixer.dt_proj.weight", "dt.bias": "mixer.dt_proj.bias",
    "a_log": "mixer.A_log", "d": "mixer.D", "out.weight": "mixer.out_proj.weight",
}  # fmt: skip


def port(reference: nn.Module) -> nn.Module:
    w = {name.removeprefix("backbone."): value for name, value in reference.state_dict().items()}
    state = {"embedding.weight": w["embeddings.weight"], "norm_f.weight": w["norm_f.weight"]}
    for i in range(DEPTH):
        state |= {f"layers.{i}.{target}": w[f"layers.{i}.{source}"] for target, source in NAMES.items()}
        x, z = w[f"layers.{i}.mixer.in_proj.weight"].chunk(2)
        state |= {f"layers.{i}.to_x.weight": x, f"layers.{i}.to_z.weight": z}
    module = ShortMamba()
    module.load_state_dict(state)
    return module


TWINS = [Twin("mamba/short", build, port, inputs)]
