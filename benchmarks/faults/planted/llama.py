"""Faults of the Llama."""

from __future__ import annotations

from ..kinds_of_fault import LAYOUT, attribute, planted, weight, written
from ..planting import heads_exchanged, one_element

ATTENTION = "layers.1.self_attn"
INTERLEAVED = (
    "first, second = x[..., ::2], x[..., 1::2]",
    "return torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)",
)
HALVES = "first, second = x.chunk(2, dim=-1)"
ROTATED = "return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)"

FAULTS = [
    attribute("eps", "layers.0.input_norm", "eps", 1e-5, 1e-6),
    attribute("eps of the last norm", "norm", "eps", 1e-5, 1e-3),
    attribute("rotary base", "layers.0.self_attn.rotary", "base", 10000.0, 500000.0),
    attribute("rotary size", "layers.1.self_attn.rotary", "size", 4, 8),
    written("eps after the root", "layers.1.input_norm", "torch.rsqrt(variance + self.eps)",
            "(1 / (variance.sqrt() + self.eps))", "eps", "eps|sqrt"),
    written("mean subtracted", "layers.0.post_norm", "variance = x.pow(2)",
            "x = x - x.mean(-1, keepdim=True)\n    variance = x.pow(2)", "mean", "mean|sub"),
    written("gain plus one", "layers.1.post_norm", "return self.weight *", "return (1 + self.weight) *", "offset",
            "add 1"),
    written("sum of squares", "norm", ".mean(-1, keepdim=True)", ".sum(-1, keepdim=True)", "reduction", "sum mean"),
    written("norm in half precision", "layers.0.input_norm", "variance = x.pow(2).mean(-1, keepdim=True)",
            "variance = x.half().pow(2).mean(-1, keepdim=True).to(x.dtype)", "precision", "half|float16",
            kind="precision"),
    written("rotary interleaved", "layers.0.self_attn.rotary", HALVES, INTERLEAVED[0], "interleaved",
            "interleav|stack|cat|element", (ROTATED, INTERLEAVED[1]), kind=LAYOUT),
    written("rotary halves read interleaved", "layers.1.self_attn.rotary", HALVES, INTERLEAVED[0], "interleaved",
            "interleav|slice|chunk|element", kind=LAYOUT),
    written("rotation the other way", "layers.0.self_attn.rotary", "first * cos - second * sin, second * cos + first",
            "first * cos + second * sin, second * cos - first", "sign", "sub|add|sign|negated|-1"),
    written("positions from one", "layers.1.self_attn.rotary", "positions = torch.arange(x.shape[-2], dtype=x.dtype)",
            "positions = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)\n    "
            "positions[0] = 0", "position", "position|1"),
    written("cos and sin exchanged", "layers.0.self_attn.rotary", "angles.cos(), angles.sin()",
            "angles.sin(), angles.cos()", "exchanged", "cos sin"),
    written("frequency of every channel", "layers.1.self_attn.rotary", "/ self.size)", "/ (self.size // 2))",
            "frequency", "div|size"),
    written("mask lets the next token through", "layers.0.self_attn", ".triu(1)", ".triu(2)", "mask", "triu|mask",
            name="diagonal|k", reference=1, candidate=2),
    written("mask hides the token itself but the first", ATTENTION, "later = torch.ones(length, length, dtype="
            "torch.bool).triu(1)", "later = torch.ones(length, length, dtype=torch.bool).triu(0)\n    "
            "later[0, 0] = False", "mask", "triu|mask|triangle"),
    written("mask left out", "layers.0.self_attn", "scores.masked_fill(later, float(\"-inf\")).softmax(-1)",
            "scores.softmax(-1)", "mask", "mask|triangle"),
    written("mask upside down", ATTENTION, ".triu(1)", ".tril(-1)", "mask", "triu|tril|mask|triangle"),
    written("window of three tokens", "layers.0.self_attn", ".triu(1)",
            ".triu(1) | torch.ones(length, length, dtype=torch.bool).tril(-3)", "window", "mask|window|tril|triangle"),
    written("mask of a finite number", ATTENTION, "float(\"-inf\")", "-3.0", "mask", "-3", name="value",
            reference=float("-inf"), candidate=-3.0),
    written("scale left out", "layers.0.self_attn", " * self.head_size**-0.5", "", "scale", "scale|mul"),
    written("scale of the whole width", ATTENTION, "self.head_size**-0.5", "x.shape[-1] ** -0.5", "scale", "scale|mul"),
    written("heads repeated in turn", "layers.0.self_attn",
            "k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)",
            "k = k.repeat(1, self.heads // self.kv_heads, 1, 1)", "grouping", "repeat|tile|merged", kind=LAYOUT),
    written("values repeated in turn", ATTENTION, "v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)",
            "v = v.repeat(1, self.heads // self.kv_heads, 1, 1)", "grouping", "repeat|tile|merged", kind=LAYOUT),
    written("keys not rotated", "layers.0.self_attn", "self.rotary(q), self.rotary(k)", "self.rotary(q), k",
            "Cell left out", "rotary"),
    written("values rotated too", ATTENTION, "q, k = self.rotary(q), self.rotary(k)",
            "q, k, v = self.rotary(q), self.rotary(k), self.rotary(v)", "Cell called again", "rotary call|again|value"),
    written("heads split along time", "layers.0.self_attn",
            "self.v_proj(x).view(batch, length, self.kv_heads, self.head_size).transpose(1, 2)",
            "self.v_proj(x).view(batch, self.kv_heads, length, self.head_size)", "layout", "reshape|transpose",
            kind=LAYOUT),
    written("gate and up exchanged", "layers.0.mlp", "F.silu(self.gate_proj(x)) * self.up_proj(x)",
            "F.silu(self.up_proj(x)) * self.gate_proj(x)", "gate/up exchanged", "gate_proj|up_proj"),
    written("gelu instead of silu", "layers.1.mlp", "F.silu(", "F.gelu(", "activation", "gelu silu"),
    written("sigmoid instead of silu", "layers.0.mlp", "F.silu(", "torch.sigmoid(", "activation", "sigmoid silu"),
    written("gate added", "layers.1.mlp", "(x)) * self.up_proj(x)", "(x)) + self.up_proj(x)", "operator", "add mul"),
    written("norm left out", "layers.1", "self.self_attn(self.input_norm(x))", "self.self_attn(x)", "Cell left out",
            "input_norm"),
    written("residual of the norm", "layers.0", "x = x + self.self_attn(self.input_norm(x))",
            "x = self.input_norm(x)\n    x = x + self.self_attn(x)", "residual", "residual|input_norm"),
    written("branches in parallel", "layers.1", "x = x + self.self_attn(self.input_norm(x))\n    "
            "return x + self.mlp(self.post_norm(x))",
            "return x + self.self_attn(self.input_norm(x)) + self.mlp(self.post_norm(x))", "order", "post_norm|input"),
    written("last norm left out", "", "self.lm_head(self.norm(x))", "self.lm_head(x)", "Cell left out", "norm"),
    written("embedding scaled", "", "x = self.embed_tokens(ids)", "x = self.embed_tokens(ids) * 4.0", "scale", "4"),
    written("keys detached", ATTENTION, "q, k = self.rotary(q), self.rotary(k)",
            "q, k = self.rotary(q), self.rotary(k.detach())", "detached", "detach|gradient",
            kind=("gradient", "structure")),
    weight("output projection transposed", "layers.0.self_attn.o_proj.weight", lambda w: w.T, "transposed",
           "transpose"),
    weight("heads of q permuted", "layers.1.self_attn.q_proj.weight", heads_exchanged(4), "permuted",
           "permut|exchange|order|rows"),
    weight("rotary order of k", "layers.0.self_attn.k_proj.weight",
           lambda w: w.reshape(2, 2, 2, 16).transpose(1, 2).reshape(8, 16), "permuted", "permut|order|rows|interleav"),
    weight("element of a weight", "layers.1.mlp.down_proj.weight", one_element, "element", "element"),
    weight("rounded weight", "layers.0.mlp.up_proj.weight", lambda w: w.half().float(), "rounded",
           "half|float16|round"),
    planted("heads", ("layers.1.self_attn", "layers.1.self_attn.rotary"), lambda m: _regroup(m.layers[1].self_attn),
            "heads", "head", "attribute"),
]  # fmt: skip


def _regroup(attention: object) -> None:
    for name, value in (("heads", 8), ("kv_heads", 4), ("head_size", 2)):
        setattr(attention, name, value)
    attention.rotary.size = 2  # type: ignore[attr-defined]
