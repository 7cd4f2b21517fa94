"""Faults of the tagger."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..cases import Either
from ..kinds_of_fault import LAYOUT, attribute, planted, weight, written
from ..planting import one_element


def _gates(order: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    def exchange(value: Tensor) -> Tensor:
        parts = value.chunk(4)
        return torch.cat([parts[number] for number in order])

    return exchange


FAULTS = [
    attribute("eps", "norm", "eps", 1e-5, 1e-6),
    attribute("batch first", "lstm", "batch_first", True, False),
    attribute("padding row trained", "embedding", "padding_idx", 0, None),
    attribute("dropout rate", "dropout", "p", 0.3, 0.7, train=True),
    written("input gate forgets", "character", "i, f, g, o = gates", "f, i, g, o = gates", "gates",
            "gate|order|chunk|exchange"),
    written("candidate and output exchanged", "character", "i, f, g, o = gates", "i, f, o, g = gates", "gates",
            "gate|order|chunk|exchange"),
    written("cell not activated", "character", "c.tanh()", "c", "activation", "tanh"),
    written("candidate sigmoid", "character", "g.tanh()", "g.sigmoid()", "activation", "sigmoid tanh"),
    written("input forgotten", "character", "f.sigmoid() * c", "(1 - i.sigmoid()) * c", "gates", "sub|sigmoid|gate"),
    written("forget bias", "character", "f.sigmoid() * c", "(f + 1).sigmoid() * c", "offset", "1|add"),
    written("state not carried", "character", "h @ self.weight_hh.T", "h.detach() @ self.weight_hh.T", "detached",
            "detach|gradient", kind=("gradient", "structure")),
    written("bias left out", "character", " + self.bias", "", "bias", "bias"),
    written("read from the right", "character", "range(x.shape[1])", "reversed(range(x.shape[1]))", "order",
            "order|revers|flip|element 6"),
    written("state before the step", "character", "states.append(h)", "states.append(c)", "other value", "stack|tanh"),
    written("weights exchanged", "character", "x[:, t] @ self.weight_ih.T + h @ self.weight_hh.T",
            "x[:, t] @ self.weight_hh.T + h @ self.weight_ih.T", "other weight", "weight_ih|weight_hh"),
    written("weight transposed", "character", "h @ self.weight_hh.T", "h @ self.weight_hh.T.reshape(-1, 8).T",
            "layout", "transpose|reshape|layout", kind=LAYOUT),
    written("gate inverted", "highway.0", "(1 - gate) * x", "gate * x", "gates", "sub|gate|1"),
    written("gates exchanged", "highway.1", "gate * F.relu(self.transform(x)) + (1 - gate) * x",
            "(1 - gate) * F.relu(self.transform(x)) + gate * x", "gates", "gate|sub|exchange"),
    written("tanh instead of relu", "highway.0", "F.relu(", "torch.tanh(", "activation", "tanh relu"),
    written("input left out", "highway.1", " + (1 - gate) * x", "", "residual", "add|residual"),
    written("hard gate", "highway.1", "torch.sigmoid(self.gate(x))", "F.hardsigmoid(self.gate(x))", "activation",
            "hardsigmoid|hard_sigmoid|hard"),
    written("softmax axis", "", "dim=-1", "dim=1", "axis", "softmax|axis|dim", name="axis|dim", reference=Either((-1,
            2)),
            candidate=1),
    written("softmax without logarithm", "", "F.log_softmax(", "F.softmax(", "logarithm", "log"),
    written("residual left out", "", "x = x + self.character(x)", "x = self.character(x)", "residual", "add"),
    written("norm after the highway", "", "self.highway(self.norm(x))", "self.norm(self.highway(x))", "order",
            "norm|order"),
    written("directions exchanged", "", "x, _ = self.lstm(x)", "x = self.lstm(x)[0].roll(8, -1)", "order",
            "roll|order|direction"),
    written("read backwards", "", "self.lstm(x)", "self.lstm(x.flip(1))", "order", "flip|revers"),
    written("highway once", "", "self.highway(self.norm(x))", "self.highway[0](self.norm(x))", "Cell left out",
            "highway.1"),
    weight("gates of the LSTM", "lstm.weight_ih_l0", _gates((1, 0, 2, 3)), "gates", "gate|permut|exchange|order"),
    weight("gates in the order of ONNX", "lstm.weight_hh_l1", _gates((0, 3, 1, 2)), "gates",
           "gate|permut|exchange|order"),
    weight("bias of the hidden state", "lstm.bias_hh_l0_reverse", lambda v: v * 0, "not loaded", "0|zero"),
    weight("square weight transposed", "highway.1.gate.weight", lambda w: w.T, "transposed", "transpose"),
    weight("element of a weight", "lstm.weight_hh_l0", one_element, "element", "element"),
    weight("row of the embedding", "embedding.weight", lambda w: w.roll(1, 0), "shifted", "roll|shift|permut"),
    planted("layer frozen", "tags", lambda m: m.tags.weight.requires_grad_(False), "frozen",
            "frozen|requires_grad|gradient", ("gradient", "state", "attribute")),
    written("gate in half precision", "highway.0", "torch.sigmoid(self.gate(x))",
            "torch.sigmoid(self.gate(x)).half().to(x.dtype)", "precision", "half|float16", kind="precision"),
]  # fmt: skip
