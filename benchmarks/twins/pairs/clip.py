"""CLIP of transformers, against OpenAI's kind: nn.MultiheadAttention, QuickGELU and projections as matrices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

WIDTH, HEADS, INNER, DEPTH, WORDS, LENGTH, SIDE, PATCH, SHARED = 16, 2, 32, 2, 30, 8, 12, 4, 6
END = WORDS - 1


def build() -> nn.Module:
    from transformers import CLIPConfig, CLIPModel

    common = {
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": HEADS,
    }
    text = {**common, "vocab_size": WORDS, "max_position_embeddings": LENGTH}
    text["bos_token_id"] = 0
    text["eos_token_id"] = 2  # then the largest id ends a text, as in OpenAI's
    vision = {**common, "image_size": SIDE, "patch_size": PATCH}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=SHARED))


def inputs() -> tuple[Tensor, ...]:
    ids = torch.randint(1, END, (3, LENGTH - 1))
    ids[0, 4], ids[1, 6], ids[2, 5] = END, END, END
    return ids, torch.randn(2, 3, SIDE, SIDE)


class QuickGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class ResidualAttentionBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, HEADS)
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, INNER), QuickGELU(), nn.Linear(INNER, WIDTH))
        self.ln_2 = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp(self.ln_2(x))


class Tower(nn.Module):
    """Blocks that work with time first."""

    def __init__(self) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList(ResidualAttentionBlock() for _ in range(DEPTH))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x.permute(1, 0, 2)
        for block in self.resblocks:
            x = block(x, mask)
        return x.permute(1, 0, 2)


class VisualTower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.class_embedding = nn.Parameter(torch.zeros(WIDTH))
        self.positional_embedding = nn.Parameter(torch.zeros((SIDE // PATCH) ** 2 + 1, WIDTH))
        self.ln_pre = nn.LayerNorm(WIDTH)
        self.transformer = Tower()
        self.ln_post = nn.LayerNorm(WIDTH)
        self.proj = nn.Parameter(torch.zeros(WIDTH, SHARED))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x).flatten(2).permute(0, 2, 1)
        first = self.class_embedding + torch.zeros(x.shape[0], 1, WIDTH, dtype=x.dtype)
        x = torch.cat([first, x], dim=1) + self.positional_embedding
        x = self.transformer(self.ln_pre(x))
        return self.ln_post(x[:, 0, :]) @ self.proj


class OpenClip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.visual = VisualTower()
        self.transformer = Tower()
        self.token_embedding = nn.Embedding(WORDS, WIDTH)
        self.positional_embedding = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.ln_final = nn.LayerNorm(WIDTH)
        self.text_projection = nn.Parameter(torch.zeros(WIDTH, SHARED))
        self.logit_scale = nn.Parameter(torch.zeros([]))

    def encode_text(self, text: Tensor) -> Tensor:
        length = text.shape[1]
        x = self.token_embedding(text) + self.positional_embedding[:length]
        mask = torch.full((length, length), float("-inf"), dtype=x.dtype).triu_(1)
        x = self.ln_final(self.transformer(x, mask))
        return x[torch.arange(x.shape[0]), text.argmax(dim=-1)] @ self.text_projection

    def forward(self, text: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        images, texts = self.visual(image), self.encode_text(text)
        images = images / images.norm(dim=1, keepdim=True)
        texts = texts / texts.norm(dim=1, keepdim=True)
        logits = self.logit_scale.exp() * images @ texts.t()
        return logits, logits.t()


BLOCK = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "mlp.0": "mlp.fc1", "mlp.2": "mlp.fc2",
         "attn.out_proj": "self_attn.out_proj"}  # fmt: skip


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    vision, text = "vision_model", "text_model"
    state = {
        "visual.conv1.weight": w[f"{vision}.embeddings.patch_embedding.weight"],
        "visual.class_embedding": w[f"{vision}.embeddings.class_embedding"],
        "visual.positional_embedding": w[f"{vision}.embeddings.position_embedding.weight"],
        "visual.proj": w["visual_projection.weight"].T,
        "token_embedding.weight": w[f"{text}.embeddings.token_embedding.weight"],
        "positional_embedding": w[f"{text}.embeddings.position_embedding.weight"],
        "text_projection": w["text_projection.weight"].T,
        "logit_scale": w["logit_scale"],
    }
    for part in ("weight", "bias"):
        state[f"visual.ln_pre.{part}"] = w[f"{vision}.pre_layrnorm.{part}"]
        state[f"visual.ln_post.{part}"] = w[f"{vision}.post_layernorm.{part}"]
        state[f"ln_final.{part}"] = w[f"{text}.final_layer_norm.{part}"]
        for prefix, source in (("visual.transformer", vision), ("transformer", text)):
            for i in range(DEPTH):
                target, block = f"{prefix}.resblocks.{i}", f"{source}.encoder.layers.{i}"
                state |= {
                    f"{target}.{target_name}.{part}": w[f"{block}.{name}.{part}"] for target_name, name in BLOCK.items()
                }
                all_three = [w[f"{block}.self_attn.{letter}_proj.{part}"] for letter in "qkv"]
                state[f"{target}.attn.in_proj_{part}"] = torch.cat(all_three)
    module = OpenClip()
    module.load_state_dict(state)
    return module


TWINS = [Twin("clip/openai", build, port, inputs)]
