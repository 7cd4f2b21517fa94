"""A Perceiver, whose latents read the inputs, against one of nn.MultiheadAttention and of a layer for each gate."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

LATENTS, WIDTH, INPUT, HEADS, CLASSES = 5, 16, 10, 2, 4
SIZE = WIDTH // HEADS


class GEGLU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x, gates = x.chunk(2, dim=-1)
        return x * F.gelu(gates)


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), GEGLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, context: int) -> None:
        super().__init__()
        self.scale = SIZE**-0.5
        self.to_q, self.to_kv = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(context, 2 * WIDTH, bias=False)
        self.to_out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        q = self.to_q(x)
        k, v = self.to_kv(x if context is None else context).chunk(2, dim=-1)
        b = x.shape[0]
        q, k, v = (t.view(b, -1, HEADS, SIZE).transpose(1, 2).reshape(b * HEADS, -1, SIZE) for t in (q, k, v))
        attn = (torch.einsum("b i d, b j d -> b i j", q, k) * self.scale).softmax(dim=-1)
        out = torch.einsum("b i j, b j d -> b i d", attn, v)
        return self.to_out(out.view(b, HEADS, -1, SIZE).transpose(1, 2).flatten(2))


class PreNorm(nn.Module):
    def __init__(self, fn: nn.Module, context: int | None = None) -> None:
        super().__init__()
        self.fn, self.norm = fn, nn.LayerNorm(WIDTH)
        self.norm_context = None if context is None else nn.LayerNorm(context)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        x = self.norm(x)
        return self.fn(x) if self.norm_context is None else self.fn(x, self.norm_context(context))


class Perceiver(nn.Module):
    """Reads the input twice."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(LATENTS, WIDTH))
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    PreNorm(Attention(INPUT), INPUT),
                    PreNorm(FeedForward()),
                    PreNorm(Attention(WIDTH)),
                    PreNorm(FeedForward()),
                ]
            )
            for _ in range(2)
        )
        self.to_logits = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))

    def forward(self, data: Tensor) -> Tensor:
        x = self.latents.unsqueeze(0).expand(data.shape[0], -1, -1)
        for cross_attn, cross_ff, self_attn, self_ff in self.layers:
            x = cross_attn(x, context=data) + x
            x = cross_ff(x) + x
            x = self_attn(x) + x
            x = self_ff(x) + x
        return self.to_logits(x.mean(dim=1))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 8, INPUT),)


class Read(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.normal, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(size)
        self.mha = nn.MultiheadAttention(WIDTH, HEADS, kdim=size, vdim=size, batch_first=True)

    def forward(self, x: Tensor, data: Tensor) -> Tensor:
        data = self.other(data)
        y, _ = self.mha(self.normal(x), data, data)
        return x + y


class Think(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.normal = nn.LayerNorm(WIDTH)
        self.mha = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.normal(x)
        return x + self.mha(y, y, y, need_weights=False)[0]


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.normal = nn.LayerNorm(WIDTH)
        self.value, self.gate, self.back = (
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(2 * WIDTH, WIDTH),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.normal(x)
        return x + self.back(F.gelu(self.gate(y)) * self.value(y))


class LatentReader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bank = nn.Embedding(LATENTS, WIDTH)
        self.steps = nn.ModuleList(m for _ in range(2) for m in (Read(INPUT), Gated(), Think(), Gated()))
        self.normal, self.classes = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, data: Tensor) -> dict[str, Tensor]:
        x = self.bank.weight.repeat(data.shape[0], 1, 1)
        for step in self.steps:
            x = step(x, data) if isinstance(step, Read) else step(x)
        return {"logits": self.classes(self.normal(x.mean(1)))}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"bank.weight": w["latents"]}

    def copied(name: str, reference_name: str) -> None:
        state[f"{name}.weight"], state[f"{name}.bias"] = w[f"{reference_name}.weight"], w[f"{reference_name}.bias"]

    copied("normal", "to_logits.0")
    copied("classes", "to_logits.1")
    for i in range(2):
        read, gated, think, last = (f"steps.{4 * i + n}" for n in range(4))
        cross, feed, self_attention, feed2 = (f"layers.{i}.{n}" for n in range(4))
        for name, reference_name in ((read, cross), (gated, feed), (think, self_attention), (last, feed2)):
            copied(f"{name}.normal", f"{reference_name}.norm")
        copied(f"{read}.other", f"{cross}.norm_context")
        k, v = w[f"{cross}.fn.to_kv.weight"].chunk(2)
        state[f"{read}.mha.q_proj_weight"] = w[f"{cross}.fn.to_q.weight"]
        state |= {f"{read}.mha.k_proj_weight": k, f"{read}.mha.v_proj_weight": v}
        q = w[f"{self_attention}.fn.to_q.weight"]
        state[f"{think}.mha.in_proj_weight"] = torch.cat((q, w[f"{self_attention}.fn.to_kv.weight"]))
        for name, reference_name in ((read, cross), (think, self_attention)):
            state[f"{name}.mha.in_proj_bias"] = torch.zeros(3 * WIDTH)
            copied(f"{name}.mha.out_proj", f"{reference_name}.fn.to_out")
        for name, reference_name in ((gated, feed), (last, feed2)):
            for part in ("weight", "bias"):
                first, second = w[f"{reference_name}.fn.net.0.{part}"].chunk(2)
                state |= {f"{name}.value.{part}": first, f"{name}.gate.{part}": second}
            copied(f"{name}.back", f"{reference_name}.fn.net.2")
    reader = LatentReader()
    reader.load_state_dict(state)
    return reader


TWINS = [Twin("perceiver/torch attention", Perceiver, port, inputs)]
