"""Further decoders of transformers, and what ports change about them: GPT-NeoX, Gemma and OPT."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, DEPTH, HEADS, INNER, WORDS, LENGTH = 24, 2, 3, 32, 30, 12
SIZE = WIDTH // HEADS
TURNED = SIZE // 2
"""How many numbers of a head of GPT-NeoX are rotated."""
KV_HEADS = 1
"""Of Gemma."""


def ids() -> tuple[Tensor, ...]:
    return (torch.randint(2, WORDS, (2, 7)),)


def build_neox() -> nn.Module:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    return GPTNeoXForCausalLM(
        GPTNeoXConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=DEPTH, num_attention_heads=HEADS,
            intermediate_size=INNER, max_position_embeddings=LENGTH, use_cache=False,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": TURNED / SIZE},
        )
    )  # fmt: skip


def angles(length: int, size: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each position and frequency."""
    turns = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(0, size, 2) / size)
    return turns.cos(), turns.sin()


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the two halves of [batch, heads, length, size] against each other."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class SplitAttention(nn.Module):
    """A projection for each of q, k and v; only the first numbers of a head are rotated."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).view(*x.shape[:2], HEADS, SIZE).transpose(1, 2) for layer in (self.q, self.k, self.v))
        waves = angles(x.shape[1], TURNED)
        q, k = (torch.cat((turn(y[..., :TURNED], *waves), y[..., TURNED:]), -1) for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class ParallelBlock(nn.Module):
    """Attention and MLP read the same input."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_attention, self.ln_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = SplitAttention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.ln_attention(x)) + self.mlp(self.ln_mlp(x))


class SplitNeoX(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(ParallelBlock() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.unembed = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.norm(x))


def port_neox(reference: nn.Module) -> nn.Module:
    w = {name.removeprefix("gpt_neox."): value for name, value in reference.state_dict().items()}
    state = {"embed.weight": w["embed_in.weight"]}
    state["unembed.weight"] = w.get("lm_head.weight", w.get("embed_out.weight"))
    for part in ("weight", "bias"):
        state[f"norm.{part}"] = w[f"final_layer_norm.{part}"]
        for i in range(DEPTH):
            target, source = f"blocks.{i}", f"layers.{i}"
            state |= {
                f"{target}.ln_attention.{part}": w[f"{source}.input_layernorm.{part}"],
                f"{target}.ln_mlp.{part}": w[f"{source}.post_attention_layernorm.{part}"],
                f"{target}.mlp.0.{part}": w[f"{source}.mlp.dense_h_to_4h.{part}"],
                f"{target}.mlp.2.{part}": w[f"{source}.mlp.dense_4h_to_h.{part}"],
                f"{target}.attention.o.{part}": w[f"{source}.attention.dense.{part}"],
            }
            fused = w[f"{source}.attention.query_key_value.{part}"].unflatten(0, (HEADS, 3, SIZE))
            for number, letter in enumerate("qkv"):
                state[f"{target}.attention.{letter}.{part}"] = fused[:, number].flatten(0, 1)
    module = SplitNeoX()
    module.load_state_dict(state)
    return module


def build_gemma() -> nn.Module:
    from transformers import GemmaConfig, GemmaForCausalLM

    return GemmaForCausalLM(
        GemmaConfig(
            vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=DEPTH,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=SIZE, max_position_embeddings=LENGTH,
            use_cache=False,
        )
    )  # fmt: skip


class PlainGemmaLayer(nn.Module):
    """Norms of torch, whose gains have the 1 of `1 + weight` in them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.RMSNorm(WIDTH, eps=1e-6) for _ in range(2))
        self.wq = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.wkv = nn.Linear(WIDTH, 2 * KV_HEADS * SIZE, bias=False)
        self.wo = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = self.first(x)
        q = turn(self.wq(y).unflatten(-1, (HEADS, SIZE)).transpose(1, 2), cos, sin)
        k, v = self.wkv(y).unflatten(-1, (2, KV_HEADS, SIZE)).permute(2, 0, 3, 1, 4)
        k = turn(k, cos, sin)
        scores = q @ k.mT * SIZE**-0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.wo((scores.masked_fill(later, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(F.gelu(self.gate(y), approximate="tanh") * self.up(y))


class PlainGemma(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.layers = nn.ModuleList(PlainGemmaLayer() for _ in range(DEPTH))
        self.last = nn.RMSNorm(WIDTH, eps=1e-6)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens) * WIDTH**0.5
        cos, sin = angles(tokens.shape[1], SIZE)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.linear(self.last(x), self.table.weight)


GEMMA = {"wq": "self_attn.q_proj", "wo": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj",
         "down": "mlp.down_proj"}  # fmt: skip


def port_gemma(reference: nn.Module) -> nn.Module:
    w = {name.removeprefix("model."): value for name, value in reference.state_dict().items()}
    state = {"table.weight": w["embed_tokens.weight"], "last.weight": 1 + w["norm.weight"]}
    for i in range(DEPTH):
        target = source = f"layers.{i}"
        state |= {f"{target}.{target_name}.weight": w[f"{source}.{name}.weight"] for target_name, name in GEMMA.items()}
        state |= {
            f"{target}.wkv.weight": torch.cat([w[f"{source}.self_attn.{letter}_proj.weight"] for letter in "kv"]),
            f"{target}.first.weight": 1 + w[f"{source}.input_layernorm.weight"],
            f"{target}.second.weight": 1 + w[f"{source}.post_attention_layernorm.weight"],
        }
    module = PlainGemma()
    module.load_state_dict(state)
    return module


def build_opt() -> nn.Module:
    from transformers import OPTConfig, OPTForCausalLM

    return OPTForCausalLM(
        OPTConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=DEPTH, num_attention_heads=HEADS, ffn_dim=INNER,
            max_position_embeddings=LENGTH, word_embed_proj_dim=WIDTH, use_cache=False,
        )
    )  # fmt: skip


class TorchDecoder(nn.Module):
    """OPT from torch's encoder layers, as people write decoders; the scale of q is that of the attention."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH, padding_idx=1)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, activation="relu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, DEPTH, nn.LayerNorm(WIDTH), enable_nested_tensor=False)

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places(torch.arange(length))
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        hidden = self.body(x, mask=later)
        return {"logits": F.linear(hidden, self.tokens.weight), "hidden": hidden}


OPT = {"self_attn.out_proj": "self_attn.out_proj", "linear1": "fc1", "linear2": "fc2", "norm1": "self_attn_layer_norm",
       "norm2": "final_layer_norm"}  # fmt: skip


def port_opt(reference: nn.Module) -> nn.Module:
    w = {name.removeprefix("model.decoder."): value for name, value in reference.state_dict().items()}
    state = {"tokens.weight": w["embed_tokens.weight"], "places.weight": w["embed_positions.weight"][2:]}
    for part in ("weight", "bias"):
        state[f"body.norm.{part}"] = w[f"final_layer_norm.{part}"]
        for i in range(DEPTH):
            target, source = f"body.layers.{i}", f"layers.{i}"
            state |= {
                f"{target}.{target_name}.{part}": w[f"{source}.{name}.{part}"] for target_name, name in OPT.items()
            }
            parts = [w[f"{source}.self_attn.{letter}_proj.{part}"] for letter in "qkv"]
            state[f"{target}.self_attn.in_proj_{part}"] = torch.cat(parts)
    module = TorchDecoder()
    module.load_state_dict(state)
    return module


TWINS = [
    Twin("decoders/neox split", build_neox, port_neox, ids),
    Twin("decoders/gemma plain", build_gemma, port_gemma, ids),
    Twin("decoders/opt torch layers", build_opt, port_opt, ids),
]
