"""Faults of the GPT-2."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..cases import Either
from ..kinds_of_fault import LAYOUT, attribute, planted, replaced, weight, written
from ..planting import heads_exchanged, one_element


class _WrongBackward(torch.autograd.Function):
    """tanh GELU with a backward that forgets the derivative of the cube."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)  # type: ignore[attr-defined]
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))

    @staticmethod
    def backward(ctx: object, g: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        t = torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654)


def _wrong_backward(network: nn.Module) -> None:
    class NewGelu(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return _WrongBackward.apply(x)  # type: ignore[no-any-return]

    network.get_submodule("h.0.mlp").act = NewGelu()


FAULTS = [
    attribute("eps", "h.0.ln_1", "eps", 1e-5, 1e-6),
    attribute("eps of the last norm", "ln_f", "eps", 1e-5, 1e-12),
    attribute("dropout rate", "h.1.mlp.dropout", "p", 0.1, 0.0, train=True),
    written("gelu without tanh", "h.1.mlp.act", "0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * "
            "torch.pow(x, 3.0))))", "torch.nn.functional.gelu(x)", "activation", "gelu|approximate"),
    written("constant of the gelu", "h.0.mlp.act", "0.044715", "0.047715", "constant", "0.0477", name="value",
            reference=0.044715, candidate=0.047715),
    written("square instead of cube", "h.1.mlp.act", "3.0", "2.0", "constant", "pow|exponent"),
    written("bias left out", "h.0.attn.c_attn", " + self.bias", "", "bias", "bias|add"),
    written("scale left out", "h.0.attn", " / value.shape[-1] ** 0.5", "", "scale", "scale|div"),
    written("scale of the whole width", "h.1.attn", "/ value.shape[-1] ** 0.5", "/ x.shape[-1] ** 0.5", "scale",
            "scale|div"),
    written("scale of the length", "h.1.attn", "/ value.shape[-1] ** 0.5", "/ value.shape[-2] ** 0.5", "scale",
            "scale|div"),
    written("mask transposed", "h.0.attn", "self.causal[:length, :length]", "self.causal[:length, :length].T", "mask",
            "mask|where|transpose"),
    written("mask inverted", "h.1.attn", "torch.where(allowed, scores", "torch.where(~allowed, scores", "mask",
            "mask|where|not"),
    written("mask off by one", "h.0.attn", "self.causal[:length, :length]", "self.causal[1 : length + 1, :length]",
            "mask", "mask|slice"),
    written("masked with zero", "h.1.attn", "torch.finfo(scores.dtype).min", "0.0", "mask", "mask|0|where"),
    written("masked after the softmax", "h.0.attn", "F.softmax(scores, dim=-1))", "F.softmax(scores, dim=-1) * "
            "allowed)", "mask", "mask|mul|where",
            ("scores = torch.where(allowed, scores, torch.finfo(scores.dtype).min)\n",
            "\n")),
    written("softmax axis", "h.1.attn", "F.softmax(scores, dim=-1)", "F.softmax(scores, dim=-2)", "axis", "softmax",
            name="axis|dim", reference=Either((-1, 3)), candidate=Either((-2, 2))),
    written("parts in another order", "h.0.attn", "query, key, value = self.c_attn(x)", "key, query, value = "
            "self.c_attn(x)", "q/k exchanged", "query|key|order|split|exchange"),
    written("parts interleaved", "h.1.attn", "self.c_attn(x).split(x.shape[-1], dim=2)",
            "self.c_attn(x).unflatten(-1, (-1, 3)).unbind(-1)", "layout", "split|unbind|interleav|element",
            kind=LAYOUT),
    written("heads not brought back", "h.0.attn", "(weights @ value).transpose(1, 2).contiguous()",
            "(weights @ value).contiguous()", "layout", "transpose", kind=LAYOUT),
    written("heads last", "h.1.attn", "x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)",
            "x.view(*x.shape[:2], -1, self.heads).permute(0, 3, 1, 2)", "layout", "reshape|permut",
            kind=LAYOUT),
    written("first residual left out", "h.1", "x = x + self.attn", "x = self.attn", "residual", "add"),
    written("norm of the other branch", "h.0", "self.mlp(self.ln_2(x))", "self.mlp(self.ln_1(x))", "other Cell",
            "ln_1|ln_2"),
    written("post-norm", "h.1", "x = x + self.attn(self.ln_1(x))", "x = self.ln_1(x + self.attn(x))", "order",
            "ln_1|order"),
    written("positions from one", "", "torch.arange(ids.shape[1])", "torch.arange(ids.shape[1]) + 1", "position",
            "1|position|add"),
    written("positions left out", "", "self.wte(ids) + self.wpe(positions)", "self.wte(ids)", "Cell left out",
            "wpe|embedding"),
    written("last norm left out", "", "F.linear(self.ln_f(x), ", "F.linear(x, ", "Cell left out", "ln_f"),
    written("blocks in another order", "", "in self.h:", "in reversed(self.h):", "order", "order|h.1"),
    written("block called twice", "", "x = block(x)", "x = block(x) if block is self.h[0] else block(block(x))",
            "Cell called twice", "h.1 twice|call|again"),
    replaced("other activation", "h.0.mlp.act", lambda _: nn.SiLU(), "activation", "SiLU|silu"),
    weight("square weight transposed", "h.0.attn.c_proj.weight", lambda w: w.T, "transposed", "transpose"),
    weight("heads permuted", "h.1.attn.c_proj.weight", heads_exchanged(4), "permuted", "permut|exchange|order|rows"),
    weight("mask buffer", "h.0.attn.causal", lambda m: m | (torch.arange(12) == 0)[:, None] & (torch.arange(12) == 1),
           "buffer", "element|mask|buffer"),
    weight("rows of the positions shifted", "wpe.weight", lambda w: w.roll(-1, 0), "shifted", "roll|shift|permut"),
    weight("element of a weight", "h.1.mlp.c_fc.weight", one_element, "element", "element"),
    planted("wrong backward", "h.0.mlp.act", _wrong_backward, "backward", "backward|gradient|derivative",
            ("gradient", "structure")),
    written("softmax detached", "h.1.attn", "(weights @ value)", "(weights.detach() @ value)", "detached",
            "detach|gradient", kind=("gradient", "structure")),
    written("softmax in half precision", "h.0.attn", "F.softmax(scores, dim=-1)",
            "F.softmax(scores.half(), dim=-1).to(x.dtype)", "precision", "half|float16", kind="precision"),
    written("gradient halved", "", "return F.linear(self.ln_f(x)", "x = x * 0.5 + x.detach() * 0.5\n    "
            "return F.linear(self.ln_f(x)", "gradient", "gradient|detach|0.5", kind=("gradient", "structure")),
]  # fmt: skip
