"""ResNet of transformers, against functions on a dict of tensors, and against one whose batch norms are folded."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

SIZES, DEPTHS, CLASSES = (8, 12), (1, 2), 5


def build() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(
        ResNetConfig(
            embedding_size=SIZES[0],
            hidden_sizes=list(SIZES),
            depths=list(DEPTHS),
            layer_type="basic",
            num_labels=CLASSES,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 32, 32),)


def blocks() -> list[tuple[str, str, int, bool]]:
    """The name of each block here, its path in the reference, its stride, and whether its shortcut is a convolution."""
    return [
        (f"s{stage}b{layer}", f"resnet.encoder.stages.{stage}.layers.{layer}", 2 if stage and not layer else 1,
         bool(stage and not layer))
        for stage, depth in enumerate(DEPTHS) for layer in range(depth)
    ]  # fmt: skip


NORM = {"weight": "scale", "bias": "shift", "running_mean": "mean", "running_var": "variance"}


class FunctionalResNet(nn.Module):
    """All parameters in one dict, all statistics in buffers, and a forward of functions."""

    def __init__(self, parameters: dict[str, Tensor], statistics: dict[str, Tensor]) -> None:
        super().__init__()
        self.params = nn.ParameterDict(parameters)
        for name, value in statistics.items():
            self.register_buffer(name, value)

    def conv_bn(self, x: Tensor, name: str, stride: int = 1) -> Tensor:
        kernel = self.params[f"{name}_kernel"]
        x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        mean, variance = getattr(self, f"{name}_mean"), getattr(self, f"{name}_variance")
        return F.batch_norm(
            x, mean, variance, self.params[f"{name}_scale"], self.params[f"{name}_shift"], self.training
        )

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv_bn(x, "stem", stride=2))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        for name, _, stride, projects in blocks():
            skip = self.conv_bn(x, f"{name}_skip", stride) if projects else x
            x = F.relu(self.conv_bn(x, f"{name}_1", stride))
            x = F.relu(self.conv_bn(x, f"{name}_2") + skip)
        return x.mean(dim=(2, 3)) @ self.params["head_kernel"] + self.params["head_bias"]


def port_functional(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    parameters = {"head_kernel": w["classifier.1.weight"].T.contiguous(), "head_bias": w["classifier.1.bias"]}
    statistics: dict[str, Tensor] = {}

    def take(target: str, source: str) -> None:
        parameters[f"{target}_kernel"] = w[f"{source}.convolution.weight"]
        for name, target_name in NORM.items():
            kind = statistics if name.startswith("running") else parameters
            kind[f"{target}_{target_name}"] = w[f"{source}.normalization.{name}"]

    take("stem", "resnet.embedder.embedder")
    for name, source, _, projects in blocks():
        take(f"{name}_1", f"{source}.layer.0")
        take(f"{name}_2", f"{source}.layer.1")
        if projects:
            take(f"{name}_skip", f"{source}.shortcut")
    copies = ({name: value.clone() for name, value in kind.items()} for kind in (parameters, statistics))
    return FunctionalResNet(*copies)


def folded_conv(weight: Tensor, norm: dict[str, Tensor], stride: int, eps: float = 1e-5) -> nn.Conv2d:
    """Return the convolution with the batch norm behind it folded into it, as for deployment."""
    factor = norm["weight"] / torch.sqrt(norm["running_var"] + eps)
    conv = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2], stride, weight.shape[2] // 2)
    conv.load_state_dict(
        {"weight": weight * factor[:, None, None, None], "bias": norm["bias"] - norm["running_mean"] * factor}
    )
    return conv


class FoldedBlock(nn.Module):
    def __init__(self, conv1: nn.Conv2d, conv2: nn.Conv2d, down: nn.Module) -> None:
        super().__init__()
        self.conv1, self.conv2, self.down = conv1, conv2, down
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.conv1(x))
        out = self.conv2(out) + self.down(x)
        return self.relu(out)


class FoldedResNet(nn.Module):
    def __init__(self, conv1: nn.Conv2d, layers: list[nn.Module], fc: nn.Linear) -> None:
        super().__init__()
        self.conv1 = conv1
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layers = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = fc

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        x = self.layers(self.maxpool(self.relu(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def port_folded(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()

    def conv(source: str, stride: int = 1) -> nn.Conv2d:
        norm = {name: w[f"{source}.normalization.{name}"] for name in NORM}
        return folded_conv(w[f"{source}.convolution.weight"], norm, stride)

    layers = [
        FoldedBlock(
            conv(f"{source}.layer.0", stride),
            conv(f"{source}.layer.1"),
            conv(f"{source}.shortcut", stride) if projects else nn.Identity(),
        )
        for _, source, stride, projects in blocks()
    ]
    fc = nn.Linear(SIZES[-1], CLASSES)
    fc.load_state_dict({"weight": w["classifier.1.weight"], "bias": w["classifier.1.bias"]})
    module = FoldedResNet(conv("resnet.embedder.embedder", 2), layers, fc)
    return module.to(memory_format=torch.channels_last)


TWINS = [
    Twin("resnet/functional", build, port_functional, inputs),
    Twin("resnet/folded", build, port_folded, inputs),
]
