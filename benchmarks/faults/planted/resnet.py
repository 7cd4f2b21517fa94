"""Faults of the ResNet."""

from __future__ import annotations

from torch import Tensor, nn

from ..cases import Either
from ..kinds_of_fault import attribute, planted, replaced, weight, written
from ..planting import one_element


def _biased(network: nn.Module) -> None:
    """Store the variance of a batch, of 4 x 12 x 12 numbers, without the correction for its size."""

    class BatchNorm2d(nn.BatchNorm2d):
        def forward(self, x: Tensor) -> Tensor:
            before = self.running_var.clone()
            y = super().forward(x)
            if self.training:
                count = x.numel() / x.shape[1]
                kept = before * (1 - self.momentum)
                self.running_var = kept + (self.running_var - kept) * (count - 1) / count
            return y

    network.get_submodule("layer1.0.bn2").__class__ = BatchNorm2d


def _in_eval_mode(network: nn.Module) -> None:
    """A norm that uses its moving statistics in training too, as a wrapper that overrides `train` does."""
    norm = network.get_submodule("layer1.1.bn1")
    norm.__class__ = type("BatchNorm2d", (nn.BatchNorm2d,), {"train": lambda self, mode=True: self})


FAULTS = [
    attribute("eps", "layer1.0.bn1", "eps", 1e-5, 1e-3),
    attribute("eps of the last norm", "layer2.1.bn2", "eps", 1e-5, 1e-6),
    attribute("momentum", "bn1", "momentum", 0.1, 0.9, train=True),
    attribute("negative slope", "relu", "negative_slope", 0.1, 0.01),
    attribute("padding of pooling", "maxpool", "ceil_mode", False, True),
    attribute("padding counted", "pool.avg", "count_include_pad", True, False),
    attribute("stride", "layer2.0.conv1", "stride", (2, 2), (1, 1)),
    attribute("dilation with padding", "layer1.1.conv2", "dilation", (1, 1), (2, 2)),
    planted(
        "dilation and padding", "layer1.1.conv1",
        lambda m: [setattr(m.layer1[1].conv1, n, (2, 2)) for n in ("dilation", "padding")],
        "dilation", "dilation|padding", "attribute",
    ),
    planted(
        "padding mode", "conv1",
        lambda m: [setattr(m.conv1, n, v) for n, v in (("padding_mode", "reflect"),
                   ("_reversed_padding_repeated_twice", [1, 1, 1, 1]))],
        "padding_mode", "padding_mode", "attribute",
    ),
    written("residual left out", "layer1.0", "self.relu(y + shortcut)", "self.relu(y)", "residual", "shortcut|add"),
    written("activation before adding", "layer2.1", "self.relu(y + shortcut)", "self.relu(y) + shortcut", "order",
            "relu add|order"),
    written("last activation left out", "layer1.1", "return self.relu(y + shortcut)", "return y + shortcut",
            "activation", "relu"),
    written("norm left out", "layer2.1", "y = self.bn2(self.conv2(y))", "y = self.conv2(y)", "Cell left out", "bn2"),
    written("norm called twice", "layer1.0", "self.bn2(self.conv2(y))", "self.bn2(self.bn2(self.conv2(y)))",
            "Cell called twice", "bn2 call|twice|again"),
    written("layers exchanged", "layer1.0", "self.bn1(self.conv1(x))", "self.bn1(self.conv2(x))", "other Cell",
            "conv1|conv2"),
    written("norm and activation exchanged", "", "self.relu(self.bn1(self.conv1(images)))",
            "self.bn1(self.relu(self.conv1(images)))", "order", "bn1|relu"),
    written("softmax axis", "pool", "softmax(-1)", "softmax(1)", "axis", "softmax", name="axis|dim",
            reference=Either((-1, 2)),
            candidate=1),
    written("normalize axis", "", "dim=1)", "dim=0)", "axis", "normalize|axis|dim"),
    written("weights left out", "pool", "(x.flatten(2) * weights)", "x.flatten(2)", "factor", "mul|weights"),
    replaced("other activation", "layer2.0.relu", lambda _: nn.SiLU(), "activation", "SiLU"),
    replaced("other pooling", "maxpool", lambda _: nn.AvgPool2d(3, 2, 1), "pooling", "AvgPool2d|avg_pool"),
    weight("element of a weight", "layer2.1.conv1.weight", one_element, "element", "element"),
    weight("sign of a weight", "fc.weight", lambda w: -w, "sign", "sign|negat|-1"),
    weight("kernel flipped", "layer1.0.conv2.weight", lambda w: w.flip(-1), "flipped", "flip|reverse"),
    weight("kernel transposed", "conv1.weight", lambda w: w.transpose(-1, -2), "transposed", "transpose"),
    weight("channels reversed", "layer1.1.conv2.weight", lambda w: w.transpose(0, 1), "transposed", "transpose"),
    weight("mean of a norm", "layer2.0.shortcut.1.running_mean", lambda v: v * 0, "statistics", ""),
    planted("variance biased", "layer1.0.bn2", _biased, "unbiased",
            "unbiased|biased|variance|mul", ("state", "attribute", "structure"), train=True),
    planted("buffer not updated", "layer2.1.bn1",
            lambda m: setattr(m.layer2[1].bn1, "momentum", 0.0), "buffer not updated",
            "momentum|updated|moves", ("state", "attribute"), train=True),
    planted("statistics of the batch left", "layer1.1.bn1", _in_eval_mode, "train mode",
            "eval|statistics|training", ("state", "attribute"), train=True),
    planted("bias left out", "fc", lambda m: setattr(m.fc, "bias", None), "bias", "bias", ("attribute", "structure",
            "weight")),
    written("detached branch", "layer2.0", "y + shortcut", "y + shortcut.detach()", "detached", "detach|gradient",
            kind=("gradient", "structure")),
    written("gradient scaled", "layer1.0", "return self.relu(y + shortcut)",
            "y = self.relu(y + shortcut)\n    return 2 * y - y.detach()", "gradient", "gradient 2|stop_gradient",
            kind=("gradient", "structure")),
    planted("frozen parameter", "layer1.0.conv1", lambda m: m.layer1[0].conv1.weight.requires_grad_(False),
            "frozen", "weight frozen|requires_grad|gradient", ("gradient", "state", "attribute")),
    written("cast to half", "layer2.1", "y = self.relu(self.bn1(self.conv1(x)))",
            "y = self.relu(self.bn1(self.conv1(x))).half().to(x.dtype)", "precision", "half|float16", kind="precision"),
]  # fmt: skip
