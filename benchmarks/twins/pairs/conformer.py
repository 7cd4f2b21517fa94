"""A Conformer as torchaudio writes it, against one with channels last, other attention and a mask of what is valid."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, DEPTH, FEED, KERNEL, FRAMES = 16, 2, 2, 28, 5, 9


class _ConvolutionModule(nn.Module):
    def __init__(self, input_dim, num_channels, depthwise_kernel_size, dropout=0.0, bias=False):
        super().__init__()
        self.layer_norm = nn.LayerNorm(input_dim)
        self.sequential = nn.Sequential(
            nn.Conv1d(input_dim, 2 * num_channels, 1, stride=1, padding=0, bias=bias),
            nn.GLU(dim=1),
            nn.Conv1d(
                num_channels,
                num_channels,
                depthwise_kernel_size,
                stride=1,
                padding=(depthwise_kernel_size - 1) // 2,
                groups=num_channels,
                bias=bias,
            ),
            nn.BatchNorm1d(num_channels),
            nn.SiLU(),
            nn.Conv1d(num_channels, input_dim, kernel_size=1, stride=1, padding=0, bias=bias),
            nn.Dropout(dropout),
        )

    def forward(self, input):
        x = self.layer_norm(input)
        x = x.transpose(1, 2)
        x = self.sequential(x)
        return x.transpose(1, 2)


class _FeedForwardModule(nn.Module):
    def __init__(self, input_dim, hidden_dim, dropout=0.0):
        super().__init__()
        self.sequential = nn.Sequential(
            nn.LayerNorm(input_dim),
            nn.Linear(input_dim, hidden_dim, bias=True),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_dim, input_dim, bias=True),
            nn.Dropout(dropout),
        )

    def forward(self, input):
        return self.sequential(input)


class ConformerLayer(nn.Module):
    def __init__(self, input_dim, ffn_dim, num_attention_heads, depthwise_conv_kernel_size, dropout=0.0):
        super().__init__()
        self.ffn1 = _FeedForwardModule(input_dim, ffn_dim, dropout=dropout)
        self.self_attn_layer_norm = nn.LayerNorm(input_dim)
        self.self_attn = nn.MultiheadAttention(input_dim, num_attention_heads, dropout=dropout)
        self.self_attn_dropout = nn.Dropout(dropout)
        self.conv_module = _ConvolutionModule(input_dim, input_dim, depthwise_conv_kernel_size, dropout, bias=True)
        self.ffn2 = _FeedForwardModule(input_dim, ffn_dim, dropout=dropout)
        self.final_layer_norm = nn.LayerNorm(input_dim)

    def _apply_convolution(self, input):
        residual = input
        input = input.transpose(0, 1)
        input = self.conv_module(input)
        input = input.transpose(0, 1)
        return residual + input

    def forward(self, input, key_padding_mask):
        residual = input
        x = self.ffn1(input)
        x = x * 0.5 + residual
        residual = x
        x = self.self_attn_layer_norm(x)
        x, _ = self.self_attn(query=x, key=x, value=x, key_padding_mask=key_padding_mask, need_weights=False)
        x = self.self_attn_dropout(x)
        x = x + residual
        x = self._apply_convolution(x)
        residual = x
        x = self.ffn2(x)
        x = x * 0.5 + residual
        return self.final_layer_norm(x)


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conformer_layers = nn.ModuleList(
            [ConformerLayer(WIDTH, FEED, HEADS, KERNEL, dropout=0.1) for _ in range(DEPTH)]
        )

    def forward(self, input, lengths):
        batch, max_length = lengths.shape[0], input.shape[1]
        encoder_padding_mask = torch.arange(max_length, dtype=lengths.dtype).expand(batch, -1) >= lengths.unsqueeze(1)
        x = input.transpose(0, 1)
        for layer in self.conformer_layers:
            x = layer(x, encoder_padding_mask)
        return x.transpose(0, 1), lengths


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(2, FRAMES, WIDTH), torch.tensor([FRAMES, FRAMES - 3])


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.w_1, self.w_2 = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, FEED), nn.Linear(FEED, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.w_1(self.norm(x))
        return self.w_2(h * torch.sigmoid(h))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        for name in ("linear_q", "linear_k", "linear_v", "linear_out"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH))

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        b, t, d = x.shape
        x = self.norm(x)
        q = self.linear_q(x).view(b, t, HEADS, -1)
        k = self.linear_k(x).view(b, t, HEADS, -1)
        v = self.linear_v(x).view(b, t, HEADS, -1)
        scores = torch.einsum("bthd,bshd->bhts", q, k) * (d // HEADS) ** -0.5
        hidden = valid[:, None, None, :] == 0
        scores = scores.masked_fill(hidden, torch.finfo(x.dtype).min).softmax(dim=-1).masked_fill(hidden, 0.0)
        return self.linear_out(torch.einsum("bhts,bshd->bthd", scores, v).reshape(b, t, d))


class Convolution(nn.Module):
    """On [batch, frames, channels]; the norm is inside the depthwise kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.kernel = nn.Parameter(torch.zeros(KERNEL, WIDTH))
        self.offset = nn.Parameter(torch.zeros(WIDTH))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        x = self.value(x) * torch.sigmoid(self.gate(x))
        windows = F.pad(x, (0, 0, KERNEL // 2, KERNEL // 2)).unfold(1, KERNEL, 1)
        x = torch.einsum("btck,kc->btc", windows, self.kernel) + self.offset
        return self.out(x * torch.sigmoid(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ff_in, self.attn, self.conv, self.ff_out = FeedForward(), Attention(), Convolution(), FeedForward()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        x = x + 0.5 * self.ff_in(x)
        x = x + self.attn(x, valid)
        x = x + self.conv(x)
        x = x + 0.5 * self.ff_out(x)
        return self.norm(x)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))

    def forward(self, speech: Tensor, lengths: Tensor) -> Tensor:
        valid = torch.arange(speech.shape[1])[None] < lengths[:, None]
        for block in self.blocks:
            speech = block(speech, valid)
        return speech


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {}
    for i in range(DEPTH):
        source, target = f"conformer_layers.{i}", f"blocks.{i}"
        names = {"norm": "final_layer_norm", "attn.norm": "self_attn_layer_norm", "conv.norm": "conv_module.layer_norm"}
        names["attn.linear_out"] = "self_attn.out_proj"
        for to, of in (("ff_in", "ffn1"), ("ff_out", "ffn2")):
            names |= {f"{to}.{a}": f"{of}.sequential.{b}" for a, b in (("norm", 0), ("w_1", 1), ("w_2", 4))}
        for part in ("weight", "bias"):
            state |= {f"{target}.{to}.{part}": w[f"{source}.{of}.{part}"] for to, of in names.items()}
            rows = w[f"{source}.self_attn.in_proj_{part}"].chunk(3)
            state |= {f"{target}.attn.linear_{n}.{part}": r for n, r in zip("qkv", rows, strict=True)}
        conv = f"{source}.conv_module.sequential"
        value, gate = w[f"{conv}.0.weight"].squeeze(-1).chunk(2)
        value_bias, gate_bias = w[f"{conv}.0.bias"].chunk(2)
        gain = w[f"{conv}.3.weight"] / torch.sqrt(w[f"{conv}.3.running_var"] + 1e-5)
        state |= {
            f"{target}.conv.value.weight": value,
            f"{target}.conv.value.bias": value_bias,
            f"{target}.conv.gate.weight": gate,
            f"{target}.conv.gate.bias": gate_bias,
            f"{target}.conv.kernel": (w[f"{conv}.2.weight"][:, 0] * gain[:, None]).T,
            f"{target}.conv.offset": (w[f"{conv}.2.bias"] - w[f"{conv}.3.running_mean"]) * gain + w[f"{conv}.3.bias"],
            f"{target}.conv.out.weight": w[f"{conv}.5.weight"].squeeze(-1),
            f"{target}.conv.out.bias": w[f"{conv}.5.bias"],
        }
    module = Encoder()
    module.load_state_dict(state)
    return module


TWINS = [Twin("conformer/folded", Conformer, port, inputs)]
