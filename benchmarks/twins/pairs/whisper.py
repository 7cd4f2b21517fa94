"""Whisper of transformers against the way of an inference engine: fused q/k/v, half of the scale on q and on k."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, DEPTH, WORDS, FRAMES, MELS, TEXT, FEED = 24, 3, 2, 37, 10, 9, 12, 44


class Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import WhisperConfig, WhisperForConditionalGeneration

        self.whisper = WhisperForConditionalGeneration(
            WhisperConfig(
                vocab_size=WORDS,
                num_mel_bins=MELS,
                d_model=WIDTH,
                encoder_layers=DEPTH,
                decoder_layers=DEPTH,
                encoder_attention_heads=HEADS,
                decoder_attention_heads=HEADS,
                encoder_ffn_dim=FEED,
                decoder_ffn_dim=FEED,
                max_source_positions=FRAMES,
                max_target_positions=TEXT,
                use_cache=False,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                decoder_start_token_id=3,
                suppress_tokens=None,
                begin_suppress_tokens=None,
            )
        )

    def forward(self, mel: Tensor, tokens: Tensor) -> Tensor:
        return self.whisper(input_features=mel, decoder_input_ids=tokens).logits


def build() -> nn.Module:
    return Speech()


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(2, MELS, 2 * FRAMES), torch.randint(0, WORDS, (2, 7))


def qkv_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    _, n_ctx, n_state = q.shape
    scale = (n_state // HEADS) ** -0.25
    q = q.view(*q.shape[:2], HEADS, -1).permute(0, 2, 1, 3) * scale
    k = k.view(*k.shape[:2], HEADS, -1).permute(0, 2, 3, 1) * scale
    v = v.view(*v.shape[:2], HEADS, -1).permute(0, 2, 1, 3)
    qk = q @ k
    if mask is not None:
        qk = qk + mask[:n_ctx, :n_ctx]
    w = F.softmax(qk, dim=-1)
    return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.Wqkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.Wqkv(x).split(WIDTH, dim=-1)
        return self.out(qkv_attention(q, k, v, mask))


class CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.Wkv = nn.Linear(WIDTH, 2 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, xa: Tensor) -> Tensor:
        k, v = self.Wkv(xa).split(WIDTH, dim=-1)
        return self.out(qkv_attention(self.query(x), k, v))


class Block(nn.Module):
    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.attn_ln, self.attn = nn.LayerNorm(WIDTH), SelfAttention()
        self.cross_ln, self.cross = (nn.LayerNorm(WIDTH), CrossAttention()) if cross else (None, None)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, FEED), nn.GELU(), nn.Linear(FEED, WIDTH))

    def forward(self, x: Tensor, xa: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        x = x + self.attn(self.attn_ln(x), mask)
        if self.cross is not None:
            x = x + self.cross(self.cross_ln(x), xa)
        return x + self.mlp(x)


class AudioEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(MELS, WIDTH, 3, padding=1)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.register_buffer("positions", torch.zeros(FRAMES, WIDTH))
        self.blocks = nn.ModuleList(Block(cross=False) for _ in range(DEPTH))
        self.ln_post = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)


class TextDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Parameter(torch.zeros(TEXT, WIDTH))
        self.blocks = nn.ModuleList(Block(cross=True) for _ in range(DEPTH))
        self.ln = nn.LayerNorm(WIDTH)
        self.register_buffer("mask", torch.full((TEXT, TEXT), float("-inf")).triu_(1), persistent=False)

    def forward(self, ids: Tensor, xa: Tensor) -> Tensor:
        x = self.token_embedding(ids) + self.positions[: ids.shape[-1]]
        for block in self.blocks:
            x = block(x, xa, mask=self.mask)
        return self.ln(x) @ self.token_embedding.weight.transpose(0, 1)


class Engine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = AudioEncoder(), TextDecoder()

    def forward(self, mel: Tensor, tokens: Tensor) -> Tensor:
        return self.decoder(tokens, self.encoder(mel))


def port(reference: nn.Module) -> nn.Module:
    w = {name.removeprefix("whisper.model."): tensor for name, tensor in reference.state_dict().items()}
    model = Engine()
    out = {
        "encoder.conv1.weight": w["encoder.conv1.weight"],
        "encoder.conv1.bias": w["encoder.conv1.bias"],
        "encoder.conv2.weight": w["encoder.conv2.weight"],
        "encoder.conv2.bias": w["encoder.conv2.bias"],
        "encoder.positions": w["encoder.embed_positions.weight"],
        "decoder.positions": w["decoder.embed_positions.weight"],
        "decoder.token_embedding.weight": w["decoder.embed_tokens.weight"],
    }
    for side, last in (("encoder", "ln_post"), ("decoder", "ln")):
        for part in ("weight", "bias"):
            out[f"{side}.{last}.{part}"] = w[f"{side}.layer_norm.{part}"]
        for i in range(DEPTH):
            source, target = f"{side}.layers.{i}", f"{side}.blocks.{i}"
            out[f"{target}.attn.Wqkv.weight"] = torch.cat([w[f"{source}.self_attn.{n}_proj.weight"] for n in "qkv"])
            q_bias, v_bias = w[f"{source}.self_attn.q_proj.bias"], w[f"{source}.self_attn.v_proj.bias"]
            out[f"{target}.attn.Wqkv.bias"] = torch.cat([q_bias, torch.zeros_like(q_bias), v_bias])
            names = {
                "attn.out": "self_attn.out_proj",
                "attn_ln": "self_attn_layer_norm",
                "mlp.0": "final_layer_norm",
                "mlp.1": "fc1",
                "mlp.3": "fc2",
            }
            if side == "decoder":
                names |= {
                    "cross.query": "encoder_attn.q_proj",
                    "cross.out": "encoder_attn.out_proj",
                    "cross_ln": "encoder_attn_layer_norm",
                }
                out[f"{target}.cross.Wkv.weight"] = torch.cat(
                    [w[f"{source}.encoder_attn.{n}_proj.weight"] for n in "kv"]
                )
                bias = w[f"{source}.encoder_attn.v_proj.bias"]
                out[f"{target}.cross.Wkv.bias"] = torch.cat([torch.zeros_like(bias), bias])
            for to, of in names.items():
                for part in ("weight", "bias"):
                    out[f"{target}.{to}.{part}"] = w[f"{source}.{of}.{part}"]
    model.load_state_dict(out)
    return model


TWINS = [Twin("whisper/engine", build, port, inputs)]
