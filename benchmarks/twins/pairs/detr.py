"""DETR as published, sequence first, against one with the batch first, projections apart and a loop over its layers."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, HIDDEN, ENCODERS, DECODERS, QUERIES, CLASSES = 12, 3, 20, 2, 2, 5, 4
STEM = 8


class PositionEmbeddingSine(nn.Module):
    def __init__(self, num_pos_feats: int, temperature: int = 10000) -> None:
        super().__init__()
        self.num_pos_feats, self.temperature, self.scale = num_pos_feats, temperature, 2 * math.pi

    def forward(self, x: Tensor) -> Tensor:
        not_mask = torch.ones(x.shape[0], x.shape[2], x.shape[3], dtype=torch.bool)
        y_embed, x_embed = not_mask.cumsum(1, dtype=x.dtype), not_mask.cumsum(2, dtype=x.dtype)
        eps = 1e-6
        y_embed = y_embed / (y_embed[:, -1:, :] + eps) * self.scale
        x_embed = x_embed / (x_embed[:, :, -1:] + eps) * self.scale
        dim_t = torch.arange(self.num_pos_feats, dtype=x.dtype)
        dim_t = self.temperature ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / self.num_pos_feats)
        pos_x, pos_y = x_embed[:, :, :, None] / dim_t, y_embed[:, :, :, None] / dim_t
        pos_x = torch.stack((pos_x[:, :, :, 0::2].sin(), pos_x[:, :, :, 1::2].cos()), dim=4).flatten(3)
        pos_y = torch.stack((pos_y[:, :, :, 0::2].sin(), pos_y[:, :, :, 1::2].cos()), dim=4).flatten(3)
        return torch.cat((pos_y, pos_x), dim=3).permute(0, 3, 1, 2)


class TransformerEncoderLayer(nn.Module):
    def __init__(self, d_model: int, nhead: int, dim_feedforward: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.dropout, self.dropout1, self.dropout2 = (nn.Dropout(dropout) for _ in range(3))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, src: Tensor, pos: Tensor) -> Tensor:
        q = k = src + pos
        src2 = self.self_attn(q, k, value=src)[0]
        src = self.norm1(src + self.dropout1(src2))
        src2 = self.linear2(self.dropout(F.relu(self.linear1(src))))
        return self.norm2(src + self.dropout2(src2))


class TransformerDecoderLayer(nn.Module):
    def __init__(self, d_model: int, nhead: int, dim_feedforward: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.multihead_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.dropout, self.dropout1, self.dropout2, self.dropout3 = (nn.Dropout(dropout) for _ in range(4))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, tgt: Tensor, memory: Tensor, pos: Tensor, query_pos: Tensor) -> Tensor:
        q = k = tgt + query_pos
        tgt = self.norm1(tgt + self.dropout1(self.self_attn(q, k, value=tgt)[0]))
        tgt2 = self.multihead_attn(query=tgt + query_pos, key=memory + pos, value=memory)[0]
        tgt = self.norm2(tgt + self.dropout2(tgt2))
        tgt2 = self.linear2(self.dropout(F.relu(self.linear1(tgt))))
        return self.norm3(tgt + self.dropout3(tgt2))


class TransformerEncoder(nn.Module):
    def __init__(self, encoder_layer: nn.Module, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])

    def forward(self, src: Tensor, pos: Tensor) -> Tensor:
        for layer in self.layers:
            src = layer(src, pos)
        return src


class TransformerDecoder(nn.Module):
    def __init__(self, decoder_layer: nn.Module, num_layers: int, norm: nn.Module) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)]), norm

    def forward(self, tgt: Tensor, memory: Tensor, pos: Tensor, query_pos: Tensor) -> Tensor:
        intermediate = []
        for layer in self.layers:
            tgt = layer(tgt, memory, pos, query_pos)
            intermediate.append(self.norm(tgt))
        return torch.stack(intermediate)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = TransformerEncoder(TransformerEncoderLayer(WIDTH, HEADS, HIDDEN), ENCODERS)
        layer = TransformerDecoderLayer(WIDTH, HEADS, HIDDEN)
        self.decoder = TransformerDecoder(layer, DECODERS, nn.LayerNorm(WIDTH))

    def forward(self, src: Tensor, query_embed: Tensor, pos_embed: Tensor) -> Tensor:
        bs = src.shape[0]
        src, pos_embed = src.flatten(2).permute(2, 0, 1), pos_embed.flatten(2).permute(2, 0, 1)
        query_embed = query_embed.unsqueeze(1).repeat(1, bs, 1)
        memory = self.encoder(src, pos_embed)
        hs = self.decoder(torch.zeros_like(query_embed), memory, pos_embed, query_embed)
        return hs.transpose(1, 2)


class MLP(nn.Module):
    def __init__(self, input_dim: int, hidden_dim: int, output_dim: int, num_layers: int) -> None:
        super().__init__()
        h = [hidden_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(nn.Linear(n, k) for n, k in zip([input_dim, *h], [*h, output_dim], strict=True))

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(x)) if i < len(self.layers) - 1 else layer(x)
        return x


class DETR(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, STEM, 4, 4, bias=False), nn.BatchNorm2d(STEM), nn.ReLU())
        self.position_embedding = PositionEmbeddingSine(WIDTH // 2)
        self.input_proj = nn.Conv2d(STEM, WIDTH, 1)
        self.transformer = Transformer()
        self.class_embed, self.bbox_embed = nn.Linear(WIDTH, CLASSES + 1), MLP(WIDTH, WIDTH, 4, 3)
        self.query_embed = nn.Embedding(QUERIES, WIDTH)

    def forward(self, samples: Tensor) -> dict[str, object]:
        src = self.backbone(samples)
        hs = self.transformer(self.input_proj(src), self.query_embed.weight, self.position_embedding(src))
        outputs_class, outputs_coord = self.class_embed(hs), self.bbox_embed(hs).sigmoid()
        aux = [{"pred_logits": a, "pred_boxes": b} for a, b in zip(outputs_class[:-1], outputs_coord[:-1], strict=True)]
        return {"pred_logits": outputs_class[-1], "pred_boxes": outputs_coord[-1], "aux_outputs": aux}


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 16, 12),)


class Attention(nn.Module):
    """Positions are added to queries and keys, not to values."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, x_pos: Tensor, context: Tensor, context_pos: Tensor) -> Tensor:
        q, k, v = self.to_q(x + x_pos), self.to_k(context + context_pos), self.to_v(context)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (q, k, v))
        attended = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(attended.transpose(1, 2).flatten(2))


class FeedForward(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))


class EncoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.attention_norm = Attention(), nn.LayerNorm(WIDTH)
        self.feed_forward, self.feed_forward_norm = FeedForward(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x, where, x, where))
        return self.feed_forward_norm(x + self.feed_forward(x))


class DecoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.attention_norm = Attention(), nn.LayerNorm(WIDTH)
        self.cross, self.cross_norm = Attention(), nn.LayerNorm(WIDTH)
        self.feed_forward, self.feed_forward_norm = FeedForward(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, queries: Tensor, image: Tensor, where: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x, queries, x, queries))
        x = self.cross_norm(x + self.cross(x, queries, image, where))
        return self.feed_forward_norm(x + self.feed_forward(x))


def sine_positions(height: int, width: int, dtype: torch.dtype) -> Tensor:
    """Positions (height * width, WIDTH): half of the features for the row, half for the column."""
    half = WIDTH // 2
    rates = 10000 ** (torch.arange(0, half, 2, dtype=dtype) / half)
    halves = []
    for size in (height, width):
        angles = torch.arange(1, size + 1, dtype=dtype)[:, None] / (size + 1e-6) * 2 * math.pi / rates
        halves.append(torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1))
    rows, columns = halves[0][:, None].expand(-1, width, -1), halves[1].expand(height, -1, -1)
    return torch.cat((rows, columns), dim=2).flatten(0, 1)


class Detector(nn.Module):
    """Returns scores and boxes after each decoder block, the last one first."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.patches_norm = nn.Conv2d(3, STEM, 4, 4, bias=False), nn.BatchNorm2d(STEM)
        self.project = nn.Linear(STEM, WIDTH)
        self.encoder = nn.ModuleList(EncoderBlock() for _ in range(ENCODERS))
        self.decoder = nn.ModuleList(DecoderBlock() for _ in range(DECODERS))
        self.norm, self.queries = nn.LayerNorm(WIDTH), nn.Parameter(torch.zeros(QUERIES, WIDTH))
        self.scores = nn.Linear(WIDTH, CLASSES + 1)
        self.boxes = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4)
        )

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        x = torch.relu(self.patches_norm(self.patches(images)))
        where = sine_positions(x.shape[2], x.shape[3], x.dtype)
        x = self.project(x.flatten(2).mT)
        for block in self.encoder:
            x = block(x, where)
        y = x.new_zeros(x.shape[0], QUERIES, WIDTH)
        results = []
        for block in self.decoder:
            y = block(y, self.queries, x, where)
            normed = self.norm(y)
            results.append((self.scores(normed), torch.sigmoid(self.boxes(normed))))
        return results[::-1]


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {"queries": w["query_embed.weight"]}

    def copy_all(to: str, of: str) -> None:
        state.update({f"{to}.{n.removeprefix(f'{of}.')}": t for n, t in w.items() if n.startswith(f"{of}.")})

    def attention(to: str, of: str) -> None:
        for part in ("weight", "bias"):
            for letter, rows in zip("qkv", w[f"{of}.in_proj_{part}"].chunk(3), strict=True):
                state[f"{to}.to_{letter}.{part}"] = rows
        copy_all(f"{to}.to_out", f"{of}.out_proj")

    copy_all("patches", "backbone.0")
    copy_all("patches_norm", "backbone.1")
    state["project.weight"], state["project.bias"] = w["input_proj.weight"][:, :, 0, 0], w["input_proj.bias"]
    for i in range(ENCODERS):
        to, of = f"encoder.{i}", f"transformer.encoder.layers.{i}"
        attention(f"{to}.attention", f"{of}.self_attn")
        names = {"attention_norm": "norm1", "feed_forward.0": "linear1", "feed_forward.2": "linear2"}
        for name, other in {**names, "feed_forward_norm": "norm2"}.items():
            copy_all(f"{to}.{name}", f"{of}.{other}")
    for i in range(DECODERS):
        to, of = f"decoder.{i}", f"transformer.decoder.layers.{i}"
        attention(f"{to}.attention", f"{of}.self_attn")
        attention(f"{to}.cross", f"{of}.multihead_attn")
        names = {"attention_norm": "norm1", "cross_norm": "norm2", "feed_forward_norm": "norm3"}
        for name, other in {**names, "feed_forward.0": "linear1", "feed_forward.2": "linear2"}.items():
            copy_all(f"{to}.{name}", f"{of}.{other}")
    copy_all("norm", "transformer.decoder.norm")
    copy_all("scores", "class_embed")
    for i in range(3):
        copy_all(f"boxes.{2 * i}", f"bbox_embed.layers.{i}")
    module = Detector()
    module.load_state_dict(state)
    return module


TWINS = [Twin("detr/batch first", DETR, port, inputs)]
