"""Faults of the vision transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..cases import Either
from ..kinds_of_fault import LAYOUT, attribute, planted, replaced, weight, written
from ..planting import heads_exchanged, one_element, thirds_exchanged


class QuickGELU(nn.Module):
    """The activation of CLIP."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


FAULTS = [
    attribute("eps", "blocks.1.norm1", "eps", 1e-6, 1e-5),
    attribute("eps of the last norm", "norm", "eps", 1e-6, 1e-12),
    attribute("gelu approximated", "blocks.0.mlp.act", "approximate", "none", "tanh"),
    attribute("scale", "blocks.2.attn", "scale", 0.5, 0.25),
    attribute("heads", "blocks.0.attn", "heads", 4, 2),
    attribute("dropout rate", "blocks.1.attn.drop", "p", 0.1, 0.2, train=True),
    written("scale left out", "blocks.0.attn", " * self.scale)", ")", "scale", "scale|0.5"),
    written("scale of the whole width", "blocks.1.attn", " * self.scale)", " * width**-0.5)", "scale", "scale|0.25"),
    written("softmax axis", "blocks.1.attn", "dim=-1", "dim=-2", "axis", "softmax", name="axis|dim",
            reference=Either((-1, 3)),
            candidate=Either((-2, 2))),
    written("q and k exchanged", "blocks.2.attn", "qkv[0], qkv[1], qkv[2]", "qkv[1], qkv[0], qkv[2]", "q/k exchanged",
            "exchange|0|1"),
    written("k and v exchanged", "blocks.0.attn", "qkv[0], qkv[1], qkv[2]", "qkv[0], qkv[2], qkv[1]", "k/v exchanged",
            "exchange|1|2"),
    written("heads before parts", "blocks.1.attn", "3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)",
            "self.heads, 3, width // self.heads).permute(3, 0, 2, 1, 4)", "layout", "reshape|permute|heads",
            kind=LAYOUT),
    written("heads not brought back", "blocks.2.attn", ".transpose(1, 2).reshape(batch", ".reshape(batch", "layout",
            "transpose", kind=LAYOUT),
    written("weights not transposed", "blocks.0.attn", "(weights @ v)", "(weights.transpose(-2, -1) @ v)", "transposed",
            "transpose", kind=LAYOUT),
    written("first residual left out", "blocks.0", "x = x + self.gamma1 *", "x = self.gamma1 *", "residual", "add"),
    written("second residual left out", "blocks.1", "return x + self", "return self", "residual", "add"),
    written("layer scale left out", "blocks.2", "self.gamma2 * self.mlp", "self.mlp", "factor", "gamma2|mul"),
    written("layer scales exchanged", "blocks.1", "self.gamma1 *", "self.gamma2 *", "other weight", "gamma1|gamma2"),
    written("norm after", "blocks.2", "self.attn(self.norm1(x))", "self.norm1(self.attn(x))", "order", "norm1|order"),
    written("norm left out", "blocks.0", "self.mlp(self.norm2(x))", "self.mlp(x)", "Cell left out", "norm2"),
    written("norms exchanged", "blocks.1", "self.mlp(self.norm2(x))", "self.mlp(self.norm1(x))", "other Cell",
            "norm1|norm2"),
    written("block called twice", "", "x = self.norm(x)", "x = self.norm(self.blocks[2](x))", "Cell called twice",
            "blocks.2 call|twice"),
    written("blocks in another order", "", "in self.blocks:", "in (self.blocks[1], self.blocks[0], self.blocks[2]):",
            "order", "order|blocks.1|blocks.0"),
    written("block left out", "", "in self.blocks:", "in self.blocks[:2]:", "Cell left out", "blocks.2"),
    written("position left out", "", "x = x + self.pos_embed", "x = x", "position", "pos_embed|add"),
    written("position off by one", "", "+ self.pos_embed", "+ self.pos_embed.roll(1, 1)", "position", "roll|offset"),
    written("class token last", "", "[self.cls_token.expand(x.shape[0], -1, -1), x]",
            "[x, self.cls_token.expand(x.shape[0], -1, -1)]", "order", "cat"),
    written("mean instead of class token", "", "x[:, 0]", "x.mean(1)", "pooling", "mean"),
    written("patches column by column", "patch_embed", ".flatten(2)", ".transpose(2, 3).flatten(2)", "layout",
            "transpose|layout", kind=LAYOUT),
    written("activation left out", "blocks.1.mlp", "self.act(self.fc1(x))", "self.fc1(x)", "activation", "act|gelu"),
    replaced("other activation", "blocks.2.mlp.act", lambda _: nn.SiLU(), "activation", "SiLU"),
    replaced("quick gelu", "blocks.1.mlp.act", lambda _: QuickGELU(), "activation", "gelu|1.702"),
    weight("thirds exchanged", "blocks.0.attn.qkv.weight", thirds_exchanged, "q/k exchanged",
           "permut|exchange|order|rows"),
    weight("heads permuted", "blocks.1.attn.proj.weight", lambda w: heads_exchanged(4)(w.T).T, "permuted",
           "permut|exchange|order|columns"),
    weight("square weight transposed", "blocks.2.attn.proj.weight", lambda w: w.T, "transposed", "transpose"),
    weight("element of a bias", "blocks.0.mlp.fc1.bias", one_element, "element", "element"),
    weight("small change of a weight", "head.weight", lambda w: w * 1.0001, "factor", "1.0001|factor|times"),
    weight("position of two patches", "pos_embed", lambda w: w[:, [0, 2, 1, *range(3, 17)]], "permuted",
           "permut|exchange|order"),
    written("detached attention", "blocks.1.attn", "q, k, v = qkv[0]", "q, k, v = qkv[0].detach()", "detached",
            "detach|gradient", kind=("gradient", "structure")),
    written("cast to half", "blocks.0.attn", "weights = self.drop(weights)",
            "weights = self.drop(weights.half().to(x.dtype))", "precision", "half|float16", kind="precision"),
    planted("bias left out", "blocks.2.attn.qkv", lambda m: setattr(m.blocks[2].attn.qkv, "bias", None), "bias", "bias",
            ("attribute", "structure", "weight")),
    planted("frozen parameter", "patch_embed.proj",
            lambda m: m.patch_embed.proj.weight.requires_grad_(False), "frozen",
            "frozen|requires_grad|gradient", ("gradient", "state", "attribute")),
]  # fmt: skip
