"""Faults of the MobileNet."""

from __future__ import annotations

from torch import nn

from ..kinds_of_fault import attribute, planted, replaced, weight, written
from ..planting import one_element


def _grouped(network: nn.Module) -> None:
    """Two channels per group, with kernels for both that are half as large."""
    conv = network.get_submodule("blocks.1.depthwise")
    conv.groups = 12
    conv.weight = nn.Parameter(conv.weight.detach().repeat(1, 2, 1, 1) / 2)


FAULTS = [
    attribute("eps", "blocks.0.bn2", "eps", 1e-3, 1e-5),
    attribute("eps of the stem", "stem_bn", "eps", 1e-3, 1e-5),
    attribute("momentum", "blocks.1.bn1", "momentum", 0.01, 0.1, train=True),
    attribute("momentum from the other end", "blocks.2.bn3", "momentum", 0.01, 0.99, train=True),
    attribute("dropout rate", "dropout", "p", 0.2, 0.8, train=True),
    attribute("residual switched on", "blocks.2", "add", True, False),
    planted("groups", "blocks.1.depthwise", _grouped, "groups", "groups", ("attribute", "weight")),
    planted("padding at one side", "blocks.1.depthwise", lambda m: setattr(m.blocks[1], "depthwise", nn.Sequential(
            nn.ZeroPad2d((0, 4, 0, 4)), _unpadded(m.blocks[1].depthwise))), "padding", "padding", ("attribute",
            "structure")),
    written("sigmoid instead of hard sigmoid", "blocks.0.se", "F.hardsigmoid(scale)", "scale.sigmoid()", "activation",
            "sigmoid"),
    written("scale added", "blocks.1.se", "x * F.hardsigmoid", "x + F.hardsigmoid", "operator", "add mul"),
    written("maximum instead of mean", "blocks.2.se", "F.adaptive_avg_pool2d(x, 1)", "F.adaptive_max_pool2d(x, 1)",
            "pooling", "max|largest"),
    written("activation left out", "blocks.0.se", "self.act(self.reduce(scale))", "self.reduce(scale)", "activation",
            "act|relu"),
    written("squeeze left out", "blocks.1", "self.project(self.se(y))", "self.project(y)", "Cell left out", "se"),
    written("squeeze before activation", "blocks.0", "self.act(self.bn2(self.depthwise(y)))",
            "self.act(self.se(self.bn2(self.depthwise(y))))", "order", "se|order",
            ("self.project(self.se(y))", "self.project(y)")),
    written("activation after projection", "blocks.2", "y = self.bn3(self.project(self.se(y)))",
            "y = self.act(self.bn3(self.project(self.se(y))))", "activation", "act|hardswish"),
    written("residual left out", "blocks.0", "x + y if", "y if", "residual", "add"),
    written("residual doubled", "blocks.2", "x + y if", "x + x + y if", "residual", "add"),
    written("swish instead of hard swish", "", "F.hardswish(self.stem_bn", "F.silu(self.stem_bn", "activation",
            "silu|swish"),
    written("mean over one axis", "", "x.mean((2, 3))", "x.mean(2)[..., 0]", "reduction", "mean"),
    written("maximum over the map", "", "x.mean((2, 3))", "x.amax((2, 3))", "reduction", "max"),
    written("head without activation", "", "F.hardswish(self.head(x))", "self.head(x)", "activation", "hardswish"),
    replaced("relu6", "blocks.1.act", lambda _: nn.ReLU6(), "activation", "ReLU6"),
    replaced("swish", "blocks.2.act", lambda _: nn.SiLU(), "activation", "SiLU"),
    weight("kernels flipped", "blocks.0.depthwise.weight", lambda w: w.flip(-1, -2), "flipped", "flip|revers"),
    weight("kernels transposed", "blocks.1.depthwise.weight", lambda w: w.transpose(-1, -2), "transposed", "transpose"),
    weight("channels of the image reversed", "stem.weight", lambda w: w.flip(1), "permuted",
            "revers|flip|permut|order"),
    weight("variance is a deviation", "blocks.2.bn1.running_var", lambda v: v.sqrt(), "statistics", "sqrt|root"),
    weight("mean negated", "stem_bn.running_mean", lambda v: -v, "sign", "sign|negat|-1"),
    weight("element of a weight", "blocks.2.expand.weight", one_element, "element", "element"),
    weight("bias reversed", "blocks.0.se.reduce.bias", lambda v: v.flip(0), "permuted", "revers|flip|permut|order"),
    planted("squeeze detached", "blocks.1.se", lambda m: _detach(m.blocks[1].se), "detached", "detach|gradient",
            ("gradient", "structure")),
]  # fmt: skip


def _unpadded(conv: nn.Conv2d) -> nn.Conv2d:
    conv.padding = (0, 0)
    return conv


def _detach(module: nn.Module) -> None:
    from ..planting import edit_source

    edit_source(module, "F.adaptive_avg_pool2d(x, 1)", "F.adaptive_avg_pool2d(x.detach(), 1)")
