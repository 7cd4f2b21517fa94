"""Faults of the translator."""

from __future__ import annotations

import torch

from ..kinds_of_fault import LAYOUT, attribute, planted, weight, written
from ..planting import one_element

FAULTS = [
    attribute("dropout rate", "dropout", "p", 0.2, 0.4, train=True),
    written("tanh left out", "attention", "features.tanh()", "features", "activation", "tanh"),
    written("softmax axis", "attention", "softmax(dim=1)", "softmax(dim=0)", "axis", "softmax", name="axis|dim",
            reference=1, candidate=0),
    written("coverage left out", "attention", " + self.coverage(read[..., None])", "", "Cell left out", "coverage"),
    written("memory projected", "attention", "weights[..., None] * memory).sum", "weights[..., None] * "
            "self.memory(memory)).sum", "other value", "memory"),
    written("mean instead of sum", "attention", ".sum(dim=1)", ".mean(dim=1)", "reduction", "mean sum"),
    written("scores scaled", "attention", ".squeeze(-1).softmax", ".squeeze(-1).div(8**0.5).softmax", "scale",
            "div|scale|2.828"),
    written("channels that aren't neighbours", "maxout", "unflatten(-1, (-1, 2)).amax(-1)",
            "unflatten(-1, (2, -1)).amax(-2)", "layout", "reshape|axis|layout", kind=LAYOUT),
    written("sum instead of maximum", "maxout", ".amax(-1)", ".sum(-1)", "reduction", "max sum"),
    written("bridge without activation", "", "torch.tanh(self.bridge(last[-1]))", "self.bridge(last[-1])", "activation",
            "tanh"),
    written("bridge from the first state", "", "last[-1]", "memory[:, 0]", "index", "index|select|slice|0"),
    written("coverage of the last step only", "", "read = read + weights", "read = weights", "residual", "add"),
    written("coverage late by one", "", "self.attention(state, memory, read)\n        read = read + weights",
            "self.attention(state, memory, read)\n        read = read * 0.5 + weights", "factor", "0.5|mul"),
    written("context first", "", "torch.cat([word, context], dim=-1)", "torch.cat([context, word], dim=-1)", "order",
            "cat|order"),
    written("state before the step", "", "state = self.cell(torch.cat([word, context], dim=-1), state)\n"
            "        features", "previous, state = state, self.cell(torch.cat([word, context], dim=-1), state)\n"
            "        features", "other value", "state|cat",
            ("torch.cat([state, context, word]", "torch.cat([previous, context, word]")),
    written("target shifted", "", "words = self.target(target)", "words = self.target(target.roll(1, 1))", "position",
            "roll|shift"),
    written("embeddings exchanged", "", "self.encoder(self.source(source))", "self.encoder(self.target(source))",
            "other Cell", "source|target"),
    written("source reversed", "", "self.source(source)", "self.source(source.flip(1))", "order", "flip|revers"),
    written("memory detached", "", "self.attention(state, memory, read)",
            "self.attention(state, memory.detach(), read)", "detached", "detach|gradient",
            kind=("gradient", "structure")),
    written("coverage not detached", "", "read = read + weights", "read = read + weights.detach()", "detached",
            "detach|gradient", kind=("gradient", "structure")),
    weight("gates of the cell", "cell.weight_hh", lambda w: torch.cat([w[8:16], w[:8], w[16:]]), "gates",
           "gate|permut|exchange|order"),
    weight("gates of the encoder", "encoder.weight_ih_l0", lambda w: torch.cat([w[8:16], w[:8], w[16:]]), "gates",
           "gate|permut|exchange|order"),
    weight("bias inside the reset", "cell.bias_hh", lambda v: v * 0, "not loaded", "0|zero"),
    weight("square weight transposed", "attention.state.weight", lambda w: w.T, "transposed", "transpose"),
    weight("element of a weight", "out.weight", one_element, "element", "element"),
    planted("frozen embedding", "source", lambda m: m.source.weight.requires_grad_(False), "frozen",
            "frozen|requires_grad|gradient", ("gradient", "state", "attribute")),
]  # fmt: skip
