"""Faults of the EfficientNet."""

from __future__ import annotations

from torch import nn

from ..kinds_of_fault import attribute, replaced, weight, written
from ..planting import one_element

FAULTS = [
    attribute("eps", "blocks.1.bn1", "eps", 1e-3, 1e-5),
    attribute("momentum", "bn", "momentum", 0.1, 0.01, train=True),
    attribute("rate of stochastic depth", "blocks.0.drop", "rate", 0.2, 0.5, train=True),
    attribute("residual left out", "blocks.2", "residual", True, False),
    written("odd padding at the left", "stem", "[total // 2, total - total // 2]", "[total - total // 2, total // 2]",
            "padding", "pad"),
    written("padding by reflection", "blocks.2.depthwise", "F.pad(x, pads)", "F.pad(x, pads, mode=\"reflect\")",
            "padding_mode", "pad", name="mode", reference="constant", candidate="reflect"),
    written("not scaled up", "blocks.2.drop", "x / (1 - self.rate) * kept", "x * kept", "scale", "div|scale|rate",
            train=True),
    written("drops in eval mode", "blocks.0.drop", "return x\n", "return x * (1 - self.rate)\n", "train mode",
            "mul|rate|scale|0.8"),
    written("squeeze by relu", "blocks.2.se", "F.silu(self.fc1", "F.relu(self.fc1", "activation", "relu silu"),
    written("squeeze over rows", "blocks.2.se", "x.mean((2, 3), keepdim=True)", "x.mean(3, keepdim=True)", "axis",
            "mean axis|dim"),
    written("squeeze of the mapped", "blocks.2.se", "scale.sigmoid() * x", "scale.tanh() * x", "activation",
            "tanh sigmoid"),
    written("squeeze before the norm", "blocks.2", "self.se(F.silu(self.bn2(self.depthwise(y))))",
            "F.silu(self.bn2(self.se(self.depthwise(y))))", "order", "order|se|bn2"),
    written("activation of the projection", "blocks.0", "y = self.bn3(self.project(y))",
            "y = F.silu(self.bn3(self.project(y)))", "activation", "silu"),
    written("residual dropped too", "blocks.2", "x + self.drop(y)", "self.drop(x + y)", "order", "drop|add",
            train=True),
    written("gelu in the stem", "", "F.silu(self.bn(", "F.gelu(self.bn(", "activation", "gelu silu"),
    written("activation after pooling", "", "self.pool(F.silu(self.head(x))).flatten(1)",
            "F.silu(self.pool(self.head(x))).flatten(1)", "order", "silu|pool|order"),
    replaced("largest pooled", "pool", lambda _: nn.AdaptiveMaxPool2d(1), "pooling", "AdaptiveMaxPool2d|max"),
    weight("kernels flipped", "blocks.2.depthwise.weight", lambda w: w.flip(-2), "flipped", "flip|revers"),
    weight("colours reversed", "stem.weight", lambda w: w.flip(1), "permuted", "revers|flip|permut|order"),
    weight("element of a weight", "head.weight", one_element, "element", "element"),
    weight("variance and mean", "blocks.1.bn3.running_var", lambda v: v.square(), "statistics", "square|running_var"),
]  # fmt: skip
