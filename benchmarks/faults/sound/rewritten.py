"""Code of a network written differently, to the same effect."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..planting import Plant, editing


def _split_projection(network: nn.Module) -> None:
    """The fused projection of q, k and v as three linear layers, whose weights are those of the fused one."""

    class QKV(nn.Module):
        def __init__(self, fused: nn.Linear) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
            parts = zip((self.q, self.k, self.v), fused.weight.chunk(3), fused.bias.chunk(3), strict=True)
            for layer, weight, bias in parts:
                layer.weight, layer.bias = (nn.Parameter(part.detach().clone()) for part in (weight, bias))

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.q(x), self.k(x), self.v(x)], dim=-1)

    for block in network.get_submodule("blocks").children():
        block.attn.qkv = QKV(block.attn.qkv)


def _fused_projection(network: nn.Module) -> None:
    """q, k and v of BERT computed by one product with the weights on top of each other."""
    for layer in network.get_submodule("layers").children():
        editing(
            "attention",
            (
                "q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))",
                "layers = (self.query, self.key, self.value)\n"
                "    weight = torch.cat([layer.weight for layer in layers])\n"
                "    fused = F.linear(x, weight, torch.cat([layer.bias for layer in layers]))\n"
                "    q, k, v = (self.split(part) for part in fused.chunk(3, dim=-1))",
            ),
        )(layer)


def _in_all(paths: list[str], *changes: tuple[str, str]) -> Plant:
    def plant(network: nn.Module) -> None:
        for path in paths:
            editing(path, *changes)(network)

    return plant


VIT = [f"blocks.{n}.attn" for n in range(3)]
LLAMA = [f"layers.{n}.self_attn" for n in range(2)]
GPT2 = [f"h.{n}.attn" for n in range(2)]
BERT = [f"layers.{n}.attention" for n in range(2)]
INLINED_NORM = "nn.functional.layer_norm(x, (16,), self.norm1.weight, self.norm1.bias, self.norm1.eps)"

REWRITTEN: list[tuple[str, str, Plant]] = [
    ("vit", "q, k and v separate", _split_projection),
    ("vit", "fused attention", _in_all(VIT, (
     "weights = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)\n", "\n"),
     ("    weights = self.drop(weights)\n", ""), ("(weights @ v)",
     "torch.nn.functional.scaled_dot_product_attention(q, k, v)"))),
    ("vit", "einsum", _in_all(VIT, ("q @ k.transpose(-2, -1) * self.scale",
     "torch.einsum('bhqd,bhkd->bhqk', q * self.scale, k)"))),
    ("vit", "softmax from exponentials", _in_all(VIT, (
     "weights = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)",
     "scores = q @ k.transpose(-2, -1) * self.scale\n    powers = (scores - scores.amax(-1, keepdim=True)).exp()\n"
     "    weights = powers / powers.sum(-1, keepdim=True)"))),
    ("vit", "residual added from the other side", _in_all(["blocks.0", "blocks.1"], ("x = x + self.gamma1 * "
     "self.attn(self.norm1(x))", "x = self.attn(self.norm1(x)) * self.gamma1 + x"))),
    ("vit", "norm inlined", editing("blocks.1", ("self.norm1(x)", INLINED_NORM))),
    ("vit", "token before", editing("", ("self.cls_token.expand(x.shape[0], -1, -1)",
     "self.cls_token.repeat(x.shape[0], 1, 1)"))),
    ("vit", "patches by unfolding", editing("patch_embed", ("self.proj(images).flatten(2).transpose(1, 2)",
     "torch.nn.functional.unfold(images, 4, stride=4).transpose(1, 2) @ self.proj.weight.flatten(1).T + "
     "self.proj.bias"))),
    ("vit", "head of all tokens", editing("", ("self.head(x[:, 0])", "self.head(x)[:, 0]"))),
    ("bert", "q, k and v fused", _fused_projection),
    ("bert", "fused attention", _in_all(BERT, ("scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5\n", "\n"),
     ("    scores = scores + mask\n", ""), ("F.softmax(scores, dim=-1) @ v",
     "F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype))"))),
    ("bert", "boolean mask", editing("", ("(1.0 - attention_mask[:, None, None, :]) * -1e4",
     "torch.zeros(attention_mask.shape).masked_fill(attention_mask == 0, -1e4)[:, None, None, :]"))),
    ("bert", "mask by where", _in_all(BERT, ("scores = scores + mask",
     "scores = torch.where(mask < 0, scores - 1e4, scores)"))),
    ("bert", "sum in another order", editing("embeddings", ("self.word(ids) + self.position(positions) + "
     "self.token_type(types)", "(self.token_type(types) + self.position(positions)) + self.word(ids)"))),
    ("bert", "Cell called twice for one value", editing("", ("F.gelu(self.transform(x))",
     "self.transform(x) * torch.special.ndtr(self.transform(x))"))),
    ("bert", "scale before the product", _in_all(BERT, ("q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5",
     "(q / q.shape[-1] ** 0.25) @ (k / q.shape[-1] ** 0.25).transpose(-2, -1)"))),
    ("gpt2", "fused attention", _in_all(GPT2, ("weights = self.attn_dropout(F.softmax(scores, dim=-1))\n", "\n"),
     ("(weights @ value)", "F.scaled_dot_product_attention(query, key, value, is_causal=True)"))),
    ("gpt2", "mask of infinities", _in_all(GPT2, ("torch.where(allowed, scores, torch.finfo(scores.dtype).min)",
     "scores + torch.zeros_like(scores).masked_fill(~allowed, float('-inf'))"))),
    ("gpt2", "torch's gelu", _in_all(["h.0.mlp.act", "h.1.mlp.act"], ("0.5 * x * (1.0 + torch.tanh(0.7978845608028654 "
     "* (x + 0.044715 * torch.pow(x, 3.0))))", "torch.nn.functional.gelu(x, approximate='tanh')"))),
    ("gpt2", "linear", _in_all(["h.0.attn.c_attn", "h.1.mlp.c_fc"], ("torch.matmul(x, self.weight) + self.bias",
     "torch.addmm(self.bias, x.flatten(0, -2), self.weight).view(*x.shape[:-1], -1)"))),
    ("gpt2", "words by a product", editing("", ("F.linear(self.ln_f(x), self.wte.weight)",
     "torch.einsum('blc,wc->blw', self.ln_f(x), self.wte.weight)"))),
    ("llama", "fused attention", _in_all(LLAMA, ("weights = scores.masked_fill(later, float(\"-inf\")).softmax(-1)\n",
     "\n"), ("(weights @ v)", "F.scaled_dot_product_attention(q, k, v, is_causal=True)"))),
    ("llama", "grouped attention", _in_all(LLAMA, ("weights = scores.masked_fill(later, float(\"-inf\")).softmax(-1)\n",
     "\n"), ("(weights @ v)", "F.scaled_dot_product_attention(q, k[:, ::2], v[:, ::2], is_causal=True, "
     "enable_gqa=True)"))),
    ("llama", "boolean mask", _in_all(LLAMA, ("weights = scores.masked_fill(later, float(\"-inf\")).softmax(-1)\n",
     "\n"), ("(weights @ v)", "F.scaled_dot_product_attention(q, k, v, attn_mask=~later)"))),
    ("llama", "rotation by complex numbers", _in_all([f"{path}.rotary" for path in LLAMA],
     ("first, second = x.chunk(2, dim=-1)\n", "turned = torch.complex(*x.chunk(2, dim=-1)) * torch.polar("
      "torch.ones_like(angles), angles)\n"), ("[first * cos - second * sin, second * cos + first * sin]",
      "[turned.real, turned.imag]"))),
    ("llama", "rotation of halves", _in_all([f"{path}.rotary" for path in LLAMA], ("torch.cat([first * cos - second * "
     "sin, second * cos + first * sin], dim=-1)", "x * torch.cat([cos, cos], -1) + torch.cat([-second, first], -1) * "
     "torch.cat([sin, sin], -1)"))),
    ("llama", "norm of torch", _in_all(["layers.0.input_norm", "norm"], ("self.weight * (x * torch.rsqrt(variance + "
     "self.eps))", "F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)"))),
    ("llama", "gate and up fused", _in_all(["layers.0.mlp"], ("F.silu(self.gate_proj(x)) * self.up_proj(x)",
     "torch.mul(*(lambda y: (F.silu(y[0]), y[1]))(F.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight]))"
     ".chunk(2, -1)))"))),
    ("llama", "heads expanded", _in_all(LLAMA, ("k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)",
     "k = k[:, :, None].expand(-1, -1, self.heads // self.kv_heads, -1, -1).flatten(1, 2)"))),
    ("resnet", "sum in another order", _in_all(["layer1.0", "layer2.0"], ("self.relu(y + shortcut)",
     "self.relu(shortcut + y)"))),
    ("resnet", "activation inlined", _in_all(["layer1.0"], ("self.relu(y + shortcut)", "F.relu(y + shortcut)"))),
    ("resnet", "norm folded", editing("layer2.1", ("y = self.bn2(self.conv2(y))",
     "factor = self.bn2.weight / (self.bn2.running_var + self.bn2.eps).sqrt()\n"
     "    y = F.conv2d(y, self.conv2.weight * factor[:, None, None, None], self.bn2.bias - self.bn2.running_mean * "
     "factor, padding=1)"))),
    ("resnet", "pooling by a mean", editing("pool", ("(x.flatten(2) * weights).sum(-1)",
     "torch.einsum('bcp,bop->bc', x.flatten(2), weights)"))),
    ("resnet", "sequence called in turn", editing("", ("x = self.layer1(x)", "x = self.layer1[1](self.layer1[0](x))"))),
    ("convnext", "norm over channels first", _in_all(["stem_norm"], ("y = x.permute(0, 2, 3, 1)\n",
     "mean = x.mean(1, keepdim=True)\n    variance = (x - mean).square().mean(1, keepdim=True)\n"
     "    return (x - mean) / (variance + self.eps).sqrt() * self.weight[:, None, None] + self.bias[:, None, None]\n"
     "    y = x.permute(0, 2, 3, 1)\n"))),
    ("convnext", "1x1 convolutions", editing("stage1.0", ("y = self.pwconv1(self.norm(y))",
     "y = F.conv2d(self.norm(y).permute(0, 3, 1, 2), self.pwconv1.weight[..., None, None], self.pwconv1.bias)"
     ".permute(0, 2, 3, 1)"))),
    ("convnext", "layer scale in the weights", editing("stage2.0", ("y = self.pwconv2(self.grn(self.act(y)))",
     "y = F.linear(self.grn(self.act(y)), self.gamma[:, None] * self.pwconv2.weight, self.gamma * self.pwconv2.bias)"),
     ("(self.gamma * y)", "y"))),
    ("mobilenet", "activation from its formula", editing("", ("F.hardswish(self.head(x))",
     "(lambda y: y * F.relu6(y + 3) / 6)(self.head(x))"))),
    ("mobilenet", "mean by pooling", editing("", ("x.mean((2, 3))", "F.adaptive_avg_pool2d(x, 1)"))),
    ("mobilenet", "squeeze by linear layers", editing("blocks.0.se", ("self.expand(self.act(self.reduce(scale)))",
     "F.linear(self.act(F.linear(scale.flatten(1), self.reduce.weight.flatten(1), self.reduce.bias)), "
     "self.expand.weight.flatten(1), self.expand.bias)[..., None, None]"))),
    ("unet", "attention written out", editing("attention", ("F.scaled_dot_product_attention(q, k, v)",
     "((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)"))),
    ("unet", "silu from its formula", _in_all(["down1", "up1"], ("F.silu(y)", "(y * y.sigmoid())"))),
    ("unet", "scale in another order", editing("down2", ("self.norm2(y) * (1 + scale) + shift",
     "torch.addcmul(shift + (y := self.norm2(y)), y, scale)"))),
    ("unet", "resized by a function", editing("", ("self.upsample(x)", "F.interpolate(x, size=(12, 12), "
     "mode='bilinear')"))),
    ("t5", "products by matmul", _in_all(["encoder.0.self_attention", "decoder.1.cross_attention"],
     ("torch.einsum(\"bhqd,bhkd->bhqk\", q, k) + bias", "torch.baddbmm(bias.expand(q.shape[0], q.shape[1], q.shape[2], "
      "k.shape[2]).flatten(0, 1), q.flatten(0, 1), k.flatten(0, 1).mT).unflatten(0, q.shape[:2])"))),
    ("t5", "causal mask filled", editing("", ("self.decoder_bias(length, length) + causal",
     "self.decoder_bias(length, length).masked_fill(causal < 0, -1e9)"))),
    ("t5", "scale in the weights", editing("", ("F.linear(self.decoder_norm(y) * self.width**-0.5, self.shared.weight)",
     "F.linear(self.decoder_norm(y), self.shared.weight * self.width**-0.5)"))),
    ("lstm_tagger", "gates apart", editing("character", ("c = f.sigmoid() * c + i.sigmoid() * g.tanh()",
     "c = torch.addcmul(f.sigmoid() * c, i.sigmoid(), g.tanh())"))),
    ("lstm_tagger", "highway in another form", _in_all(["highway.0", "highway.1"],
     ("gate * F.relu(self.transform(x)) + (1 - gate) * x", "x + gate * (F.relu(self.transform(x)) - x)"))),
    ("lstm_tagger", "logarithm of the softmax", editing("", ("F.log_softmax(self.tags(self.dropout(x)), dim=-1)",
     "(lambda y: y - y.logsumexp(-1, keepdim=True))(self.tags(self.dropout(x)))"))),
    ("seq2seq", "maximum of pairs", editing("maxout", (".unflatten(-1, (-1, 2)).amax(-1)",
     ".unflatten(-1, (-1, 2)).max(-1).values"))),
    ("seq2seq", "attention by a product", editing("attention", ("(weights[..., None] * memory).sum(dim=1)",
     "(weights[:, None] @ memory).squeeze(1)"))),
    ("mamba", "drive in another order", _in_all([f"layers.{n}.mixer.scan" for n in range(2)],
     ("dt[..., None] * b[:, :, None, :] * x[..., None]", "(dt * x)[..., None] * b[:, :, None]"))),
    ("mamba", "padding by hand", editing("layers.0.mixer", ("self.conv(x.transpose(1, 2))[..., :length]",
     "F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), self.conv.weight, self.conv.bias, groups=self.conv.groups)"))),
    ("moe", "experts stacked", editing("layers.0.mixture", ("y = torch.zeros_like(x)\n    for number, expert in "
     "enumerate(self.experts):\n        y = y + share[..., number : number + 1] * expert(x)",
     "y = (share[..., None] * torch.stack([expert(x) for expert in self.experts], -2)).sum(-2)"))),
    ("moe", "shared expert first", editing("layers.1.mixture", ("y = torch.zeros_like(x)",
     "y = torch.sigmoid(self.gate(x)) * self.shared(x)"), ("return y + torch.sigmoid(self.gate(x)) * self.shared(x)",
     "return y"))),
    ("moe", "attention written out", _in_all(["layers.0.attention", "layers.1.attention"],
     ("F.scaled_dot_product_attention(q, k, v, attn_mask=bias)", "((q * q.shape[-1] ** -0.5) @ k.mT + bias).softmax(-1)"
      " @ v"))),
    ("wavenet", "norm of the kernel by a function", _in_all(["first", "layers.0.conv"],
     ("weight = self.direction * (self.length / size)[:, None, None]",
      "weight = torch._weight_norm(self.direction, self.length[:, None, None], 0)"))),
    ("wavenet", "padding cut off", _in_all(["layers.1.conv"], ("x = F.pad(x, (self.left, 0))", "length = x.shape[-1]"),
     ("F.conv1d(x, weight, self.bias, dilation=self.dilation)",
      "F.conv1d(x, weight, self.bias, padding=self.left, dilation=self.dilation)[..., :length]"))),
    ("wavenet", "skips added at the end", editing("", ("total = torch.zeros_like(x)", "skips = []"),
     ("total = total + skip", "skips.append(skip)"), ("self.prelu(total)", "self.prelu(torch.stack(skips).sum(0))"))),
]  # fmt: skip
