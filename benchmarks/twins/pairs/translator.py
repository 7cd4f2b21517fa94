"""An encoder-decoder of torch's own layers, against attention written out as in the annotated transformer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..twin import Twin

WIDTH, HEADS, INNER, DEPTH, WORDS, LENGTH = 16, 2, 24, 2, 25, 12


def waves() -> Tensor:
    """Sines and cosines of positions, one beside the other."""
    positions = torch.arange(LENGTH)[:, None]
    rate = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
    table = torch.zeros(LENGTH, WIDTH)
    table[:, 0::2], table[:, 1::2] = torch.sin(positions * rate), torch.cos(positions * rate)
    return table


class PositionalEncoding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("pe", waves())

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[: x.shape[1]])


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.src_embed = nn.Embedding(WORDS, WIDTH)
        self.tgt_embed = nn.Embedding(WORDS, WIDTH)
        self.positions = PositionalEncoding()
        self.transformer = nn.Transformer(WIDTH, HEADS, DEPTH, DEPTH, INNER, batch_first=True, norm_first=True)
        self.generator = nn.Linear(WIDTH, WORDS)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=self.generator.weight.dtype)
        scale = math.sqrt(WIDTH)
        src = self.positions(self.src_embed(source) * scale)
        tgt = self.positions(self.tgt_embed(target) * scale)
        return self.generator(self.transformer(src, tgt, tgt_mask=mask))


def inputs() -> tuple[Tensor, ...]:
    return torch.randint(0, WORDS, (2, 7)), torch.randint(0, WORDS, (2, 5))


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return torch.matmul(scores.softmax(dim=-1), value)


class MultiHeadedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            linear(x).view(x.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2)
            for linear, x in zip(self.linears, (query, memory, memory), strict=False)
        )
        x = attention(q, k, v, mask).transpose(1, 2).contiguous().view(query.shape)
        return self.linears[-1](x)


class SublayerConnection(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, sublayer: nn.Module, *more: Tensor | None) -> Tensor:
        y = self.norm(x)
        return x + (sublayer(y, *more) if more else sublayer(y))


class PositionwiseFeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w_1 = nn.Linear(WIDTH, INNER)
        self.w_2 = nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.w_1(x).relu())


class EncoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = MultiHeadedAttention()
        self.feed_forward = PositionwiseFeedForward()
        self.sublayer = nn.ModuleList(SublayerConnection() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.sublayer[0].norm(x)
        x = x + self.self_attn(y, y)
        return self.sublayer[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = MultiHeadedAttention()
        self.src_attn = MultiHeadedAttention()
        self.feed_forward = PositionwiseFeedForward()
        self.sublayer = nn.ModuleList(SublayerConnection() for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        y = self.sublayer[0].norm(x)
        x = x + self.self_attn(y, y, mask)
        x = self.sublayer[1](x, self.src_attn, memory)
        return self.sublayer[2](x, self.feed_forward)


class AnnotatedTransformer(nn.Module):
    """The scale of the embeddings is in their tables."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(WORDS, WIDTH)
        self.target = nn.Embedding(WORDS, WIDTH)
        self.register_buffer("waves", waves(), persistent=False)
        self.encoder = nn.ModuleList(EncoderLayer() for _ in range(DEPTH))
        self.encoder_norm = nn.LayerNorm(WIDTH)
        self.decoder = nn.ModuleList(DecoderLayer() for _ in range(DEPTH))
        self.decoder_norm = nn.LayerNorm(WIDTH)
        self.proj = nn.Linear(WIDTH, WORDS)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory = self.source(src) + self.waves[: src.shape[1]]
        for layer in self.encoder:
            memory = layer(memory)
        memory = self.encoder_norm(memory)
        x = self.target(tgt) + self.waves[: tgt.shape[1]]
        mask = torch.tril(torch.ones(tgt.shape[1], tgt.shape[1]))
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return self.proj(self.decoder_norm(x))


def port(reference: nn.Module) -> nn.Module:
    w = {name.removeprefix("transformer."): value for name, value in reference.state_dict().items()}
    scale = math.sqrt(WIDTH)
    state = {"source.weight": w["src_embed.weight"] * scale, "target.weight": w["tgt_embed.weight"] * scale}
    for part in ("weight", "bias"):
        state[f"proj.{part}"] = w[f"generator.{part}"]
        for side, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "multihead_attn"])):
            state[f"{side}_norm.{part}"] = w[f"{side}.norm.{part}"]
            for i in range(DEPTH):
                target, source = f"{side}.{i}", f"{side}.layers.{i}"
                for number in range(len(attentions) + 1):
                    state[f"{target}.sublayer.{number}.norm.{part}"] = w[f"{source}.norm{number + 1}.{part}"]
                for number in (1, 2):
                    state[f"{target}.feed_forward.w_{number}.{part}"] = w[f"{source}.linear{number}.{part}"]
                for name in attentions:
                    module = f"{target}.{'src_attn' if name == 'multihead_attn' else name}.linears"
                    parts = w[f"{source}.{name}.in_proj_{part}"].chunk(3)
                    state |= {f"{module}.{number}.{part}": value for number, value in enumerate(parts)}
                    state[f"{module}.3.{part}"] = w[f"{source}.{name}.out_proj.{part}"]
    module = AnnotatedTransformer()
    module.load_state_dict(state)
    return module


TWINS = [Twin("translator/annotated", Translator, port, inputs)]
