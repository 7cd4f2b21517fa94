"""EfficientNet's blocks as torchvision writes them, against a port of the kind that comes from TensorFlow."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

BLOCKS = ((8, 8, 3, 1, 1), (8, 12, 3, 2, 2), (12, 12, 5, 1, 2))
"""Channels in and out, size of the kernel, stride and factor of the width inside."""
CLASSES = 5


class Conv2dNormActivation(nn.Sequential):
    def __init__(
        self, size: int, out: int, kernel: int = 3, stride: int = 1, groups: int = 1, activation: bool = True
    ) -> None:
        layers = [
            nn.Conv2d(size, out, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
            nn.BatchNorm2d(out, eps=1e-3),
        ]
        super().__init__(*layers, *([nn.SiLU(inplace=True)] if activation else []))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = nn.SiLU()
        self.scale_activation = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x


class MBConv(nn.Module):
    def __init__(self, size: int, out: int, kernel: int, stride: int, factor: int) -> None:
        super().__init__()
        inner = size * factor
        layers: list[nn.Module] = [Conv2dNormActivation(size, inner, 1)] if factor > 1 else []
        layers += [
            Conv2dNormActivation(inner, inner, kernel, stride, groups=inner),
            SqueezeExcitation(inner, max(1, size // 4)),
            Conv2dNormActivation(inner, out, 1, activation=False),
        ]
        self.block = nn.Sequential(*layers)
        self.use_res_connect = stride == 1 and size == out

    def forward(self, x: Tensor) -> Tensor:
        result = self.block(x)
        return result + x if self.use_res_connect else result


class EfficientNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            Conv2dNormActivation(3, 8, stride=2), *(MBConv(*block) for block in BLOCKS), Conv2dNormActivation(12, 16, 1)
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 24, 24),)


class Bottleneck(nn.Module):
    """Layers by the names of the paper; what is squeezed goes through Linear layers."""

    def __init__(self, size: int, out: int, kernel: int, stride: int, factor: int) -> None:
        super().__init__()
        inner = size * factor
        self.stride, self.kernel, self.residual = stride, kernel, stride == 1 and size == out
        self.has_expansion = factor > 1
        if self.has_expansion:
            self.expand = nn.Conv2d(size, inner, 1, bias=False)
            self.expand_bn = nn.BatchNorm2d(inner, eps=1e-3)
        self.depthwise = nn.Conv2d(inner, inner, kernel, stride, groups=inner, bias=False)
        self.depthwise_bn = nn.BatchNorm2d(inner, eps=1e-3)
        self.reduce = nn.Linear(inner, max(1, size // 4))
        self.excite = nn.Linear(max(1, size // 4), inner)
        self.project = nn.Conv2d(inner, out, 1, bias=False)
        self.project_bn = nn.BatchNorm2d(out, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.expand_bn(self.expand(x))) if self.has_expansion else x
        side = self.kernel // 2
        y = F.silu(self.depthwise_bn(self.depthwise(F.pad(y, (side, side, side, side)))))
        gate = torch.sigmoid(self.excite(F.silu(self.reduce(y.mean((2, 3))))))
        y = self.project_bn(self.project(y * gate[:, :, None, None]))
        return x + y if self.residual else y


class PaperNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stem_bn = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8, eps=1e-3)
        self.blocks = nn.ModuleList(Bottleneck(*block) for block in BLOCKS)
        self.top, self.top_bn = nn.Conv2d(12, 16, 1, bias=False), nn.BatchNorm2d(16, eps=1e-3)
        self.predictions = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.stem_bn(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        x = F.silu(self.top_bn(self.top(x)))
        return self.predictions(x.mean((-2, -1)))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {f"predictions.{part}": w[f"classifier.1.{part}"] for part in ("weight", "bias")}

    def unit(target: str, source: str) -> None:
        state[f"{target}.weight"] = w[f"{source}.0.weight"]
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            state[f"{target}_bn.{name}"] = w[f"{source}.1.{name}"]

    unit("stem", "features.0")
    unit("top", f"features.{len(BLOCKS) + 1}")
    for i, (*_, factor) in enumerate(BLOCKS):
        target, source = f"blocks.{i}", f"features.{i + 1}.block"
        first = int(factor > 1)
        if first:
            unit(f"{target}.expand", f"{source}.0")
        unit(f"{target}.depthwise", f"{source}.{first}")
        unit(f"{target}.project", f"{source}.{first + 2}")
        for name, number in (("reduce", 1), ("excite", 2)):
            state[f"{target}.{name}.weight"] = w[f"{source}.{first + 1}.fc{number}.weight"].flatten(1)
            state[f"{target}.{name}.bias"] = w[f"{source}.{first + 1}.fc{number}.bias"]
    module = PaperNet()
    module.load_state_dict(state)
    return module


TWINS = [Twin("efficientnet/paper", EfficientNet, port, inputs)]
