"""Faults of the WaveNet."""

from __future__ import annotations

from torch import nn

from ..kinds_of_fault import attribute, planted, replaced, weight, written
from ..planting import one_element


def _stride(network: nn.Module) -> None:
    """Less padding at the sides, made up for at the end."""
    network.upsample.padding, network.upsample.output_padding = (3,), (2,)


FAULTS = [
    attribute("eps", "norm", "eps", 1e-5, 1e-3),
    attribute("alpha", "elu", "alpha", 0.5, 1.0),
    planted("output padding", "upsample", _stride, "padding", "padding", "attribute"),
    planted("dilation with its padding", "layers.1.conv", lambda m: [setattr(m.layers[1].conv, n, 3) for n in
            ("dilation", "left")], "dilation", "dilation|pad", "attribute"),
    written("padding at the right", "layers.0.conv", "(self.left, 0)", "(0, self.left)", "padding", "pad"),
    written("padding on both sides", "first", "(self.left, 0)", "(self.left // 2, self.left // 2)", "padding", "pad"),
    written("padding by repeating", "layers.2.conv", "F.pad(x, (self.left, 0))",
            "F.pad(x, (self.left, 0), mode=\"replicate\")", "padding_mode", "pad", name="mode", reference="constant",
            candidate="replicate"),
    written("norm of the whole kernel", "layers.1.conv", "self.direction.flatten(1).norm(dim=1)",
            "self.direction.norm()", "norm", "norm|axis|dim"),
    written("kernel not normalized", "layers.2.conv", "(self.length / size)", "self.length", "norm", "norm|div"),
    written("bias left out", "layers.0.conv", "self.bias,", "None,", "bias", "bias"),
    written("dilation left out", "layers.1.conv", "x = F.pad(x, (self.left, 0))", "x = F.pad(x, (1, 0))", "dilation",
            "dilation|pad", ("dilation=self.dilation", "dilation=1")),
    written("signal and gate exchanged", "layers.0", "signal, gate =", "gate, signal =", "gate/up exchanged",
            "chunk|split|order|exchange|tanh|sigmoid"),
    written("gate tanh", "layers.1", "torch.sigmoid(gate)", "torch.tanh(gate)", "activation", "tanh sigmoid"),
    written("sum not scaled", "layers.1", " * 0.5**0.5", "", "scale", "0.5|mul|0.7071"),
    written("residual left out", "layers.0", "(x + self.res(y))", "self.res(y)", "residual", "add"),
    written("condition left out", "layers.1", " + self.condition(c)", "", "Cell left out", "condition"),
    written("outputs exchanged", "layers.1", "(x + self.res(y)) * 0.5**0.5, self.skip(y)",
            "(x + self.skip(y)) * 0.5**0.5, self.res(y)", "other Cell", "skip|res"),
    written("skip of the last layer only", "", "total = total + skip", "total = skip", "residual", "add"),
    written("norm before the activation", "", "self.norm(self.prelu(total))", "self.prelu(self.norm(total))", "order",
            "norm prelu|order"),
    written("layers in another order", "", "in self.layers:", "in reversed(self.layers):", "order", "order|layers"),
    written("condition late by one", "", "c = self.upsample(condition)", "c = self.upsample(condition).roll(1, -1)",
            "position", "roll|shift"),
    replaced("relu", "prelu", lambda _: nn.ReLU(), "activation", "ReLU"),
    replaced("one slope", "prelu", lambda old: _one_slope(old), "slopes", "num_parameters|slope|weight"),
    replaced("batch norm", "norm", lambda old: _batch_norm(old), "normalization", "BatchNorm1d|Batch"),
    weight("kernel reversed in time", "first.direction", lambda w: w.flip(-1), "flipped", "flip|revers"),
    weight("halves of a kernel exchanged", "layers.2.conv.direction", lambda w: w.roll(8, 0), "permuted",
           "permut|exchange|order|roll"),
    weight("1x1 kernel transposed", "layers.0.res.weight", lambda w: w.transpose(0, 1), "transposed", "transpose"),
    weight("kernel of the transposed convolution", "upsample.weight", lambda w: w.flip(-1), "flipped", "flip|revers"),
    weight("element of a weight", "out2.weight", one_element, "element", "element"),
    written("gate detached", "layers.2", "torch.sigmoid(gate)", "torch.sigmoid(gate.detach())", "detached",
            "detach|gradient", kind=("gradient", "structure")),
    written("length without gradient", "layers.0.conv", "(self.length / size)", "(self.length / size.detach())",
            "detached", "detach|gradient", kind=("gradient", "structure")),
]  # fmt: skip


def _one_slope(old: nn.PReLU) -> nn.Module:
    prelu = nn.PReLU()
    prelu.weight = nn.Parameter(old.weight.detach().mean()[None])
    return prelu


def _batch_norm(old: nn.InstanceNorm1d) -> nn.Module:
    norm = nn.BatchNorm1d(8)
    norm.weight, norm.bias = old.weight, old.bias
    return norm
