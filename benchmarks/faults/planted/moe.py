"""Faults of the mixture of experts."""

from __future__ import annotations

from ..cases import Either
from ..kinds_of_fault import attribute, weight, written
from ..planting import one_element

MIXTURE, ATTENTION = "layers.0.mixture", "layers.1.attention"

FAULTS = [
    attribute("eps", "layers.1.norm2", "eps", 1e-5, 1e-6),
    attribute("number of experts", MIXTURE, "top", 2, 1),
    attribute("slopes", "layers.0.attention", "steepness", 8.0, 4.0),
    written("slopes from zero", ATTENTION, "torch.arange(1, self.heads + 1, dtype=x.dtype)",
            "torch.arange(self.heads, dtype=x.dtype)", "offset", "arange|1|position|slopes"),
    written("distance the other way", "layers.0.attention", "bias = slopes[:, None, None] * distance",
            "bias = -slopes[:, None, None] * distance", "sign", "neg|sign|-1"),
    written("mask off by one", ATTENTION, "distance > 0", "distance > 1", "mask", "mask|1|greater"),
    written("mask left out", "layers.0.attention", "bias = bias.masked_fill(distance > 0, float(\"-inf\"))",
            "bias = -bias.abs()", "mask", "mask|abs"),
    written("scaled twice", ATTENTION, "(q, k, v,", "(q * q.shape[-1] ** -0.5, k, v,", "scale", "scale|mul"),
    written("k and v exchanged", "layers.0.attention", "q, k, v = self", "q, v, k = self", "k/v exchanged",
            "exchange|order|split|unbind"),
    written("experts not normalized", MIXTURE, "weights = weights / weights.sum(dim=-1, keepdim=True)",
            "weights = weights", "normalization", "div|sum"),
    written("smallest experts", "layers.1.mixture", "scores.topk(self.top, dim=-1)",
            "scores.topk(self.top, dim=-1, largest=False)", "topk", "largest|topk|smallest", name="largest",
            reference=True, candidate=False),
    written("softmax over tokens", MIXTURE, "softmax(dim=-1)", "softmax(dim=1)", "axis", "softmax", name="axis|dim",
            reference=Either((-1, 2)), candidate=1),
    written("sigmoid scores", "layers.1.mixture", "self.router(x).softmax(dim=-1)", "self.router(x).sigmoid()",
            "activation", "sigmoid softmax"),
    written("first expert counted twice", MIXTURE, "share[..., number : number + 1]", "share[..., :1]", "index",
            "slice|index"),
    written("shared expert not gated", "layers.1.mixture", "torch.sigmoid(self.gate(x)) * self.shared(x)",
            "self.shared(x)", "gate", "gate|mul|sigmoid"),
    written("shared expert left out", MIXTURE, " + torch.sigmoid(self.gate(x)) * self.shared(x)", "", "Cell left out",
            "shared"),
    written("weights detached", "layers.1.mixture", "weights, chosen = scores", "weights, chosen = scores.detach()",
            "detached", "detach|gradient", kind=("gradient", "structure")),
    written("not squared", "layers.0.mixture.experts.2", ".square()", "", "square", "square|pow|mul"),
    written("gelu", "layers.1.mixture.shared", "F.relu(self.w1(x)).square()", "F.gelu(self.w1(x)).square()",
            "activation", "gelu relu"),
    written("router before the norm", "layers.1", "self.mixture(self.norm2(x))", "self.mixture(x)", "Cell left out",
            "norm2"),
    written("branches in parallel", "layers.0", "return x + self.mixture(self.norm2(x))",
            "return x + self.mixture(self.norm1(x))", "other Cell", "norm1|norm2"),
    written("scores not capped", "", "5.0 * torch.tanh(self.head(self.norm(x)) / 5.0)", "self.head(self.norm(x))",
            "clamp", "tanh"),
    written("clamp instead of tanh", "", "5.0 * torch.tanh(self.head(self.norm(x)) / 5.0)",
            "self.head(self.norm(x)).clamp(-5.0, 5.0)", "clamp", "tanh"),
    written("cap of another size", "", "5.0 * torch.tanh(self.head(self.norm(x)) / 5.0)",
            "3.0 * torch.tanh(self.head(self.norm(x)) / 3.0)", "constant", "3|5", name="value", reference=5.0,
            candidate=3.0),
    weight("experts of the router exchanged", "layers.0.mixture.router.weight", lambda w: w[[1, 0, 2, 3]], "permuted",
           "permut|exchange|order|rows"),
    weight("expert not loaded", "layers.1.mixture.experts.3.w1.weight", lambda w: w.roll(3, 0), "permuted",
           "permut|order|roll|rows"),
    weight("element of a weight", "layers.0.mixture.experts.0.w2.weight", one_element, "element", "element"),
    weight("square weight transposed", "layers.0.attention.out.weight", lambda w: w.T, "transposed", "transpose"),
]  # fmt: skip
