"""MobileNetV3 as torchvision writes it, against channels last, with depthwise kernels on unfolded windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

Norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)


class Conv2dNormActivation(nn.Sequential):
    def __init__(
        self,
        size_in: int,
        size_out: int,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        activation: Callable[..., nn.Module] | None = None,
    ) -> None:
        conv = nn.Conv2d(size_in, size_out, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
        super().__init__(conv, Norm(size_out), *([activation(inplace=True)] if activation else []))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.activation, self.scale_activation = nn.ReLU(), nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.activation(self.fc1(self.avgpool(x)))
        return self.scale_activation(self.fc2(scale)) * x


# input, kernel, expanded, out, squeeze, hard swish, stride
BLOCKS = [
    (8, 3, 8, 8, True, False, 2),
    (8, 3, 20, 12, False, False, 2),
    (12, 5, 28, 12, True, True, 1),
    (12, 5, 36, 14, True, True, 1),
]


class InvertedResidual(nn.Module):
    def __init__(
        self, size_in: int, kernel: int, expanded: int, size_out: int, squeeze: bool, swish: bool, stride: int
    ) -> None:
        super().__init__()
        self.use_res_connect = stride == 1 and size_in == size_out
        act = nn.Hardswish if swish else nn.ReLU
        layers: list[nn.Module] = []
        if expanded != size_in:
            layers.append(Conv2dNormActivation(size_in, expanded, 1, activation=act))
        layers.append(Conv2dNormActivation(expanded, expanded, kernel, stride, expanded, act))
        if squeeze:
            layers.append(SqueezeExcitation(expanded, expanded // 4 + 1))
        layers.append(Conv2dNormActivation(expanded, size_out, 1))
        self.block = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        result = self.block(x)
        return result + x if self.use_res_connect else result


class MobileNetV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            Conv2dNormActivation(3, 8, 3, 2, activation=nn.Hardswish),
            *(InvertedResidual(*b) for b in BLOCKS),
            Conv2dNormActivation(14, 24, 1, activation=nn.Hardswish),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(24, 18), nn.Hardswish(inplace=True), nn.Dropout(0.2, inplace=True), nn.Linear(18, 5)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 32, 40),)


def h_sigmoid(x: Tensor) -> Tensor:
    return F.relu6(x + 3) / 6


def h_swish(x: Tensor) -> Tensor:
    return x * h_sigmoid(x)


class BatchNorm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) * torch.rsqrt(self.var + 1e-3) * self.gamma + self.beta


class Depthwise(nn.Module):
    """On [batch, height, width, channels], with a kernel [size, size, channels]."""

    def __init__(self, channels: int, size: int, stride: int) -> None:
        super().__init__()
        self.kernel, self.size, self.stride = nn.Parameter(torch.zeros(size, size, channels)), size, stride

    def forward(self, x: Tensor) -> Tensor:
        p = self.size // 2
        x = F.pad(x, (0, 0, p, p, p, p))
        windows = x.unfold(1, self.size, self.stride).unfold(2, self.size, self.stride)
        return torch.einsum("bhwcij,ijc->bhwc", windows, self.kernel)


class Bottleneck(nn.Module):
    def __init__(
        self, size_in: int, kernel: int, expanded: int, size_out: int, squeeze: bool, swish: bool, stride: int
    ) -> None:
        super().__init__()
        self.act = h_swish if swish else torch.relu
        self.expand = nn.Linear(size_in, expanded, bias=False) if expanded != size_in else None
        if self.expand is not None:
            self.bn_expand = BatchNorm(expanded)
        self.depthwise, self.bn_depthwise = Depthwise(expanded, kernel, stride), BatchNorm(expanded)
        self.reduce = nn.Linear(expanded, expanded // 4 + 1) if squeeze else None
        self.excite = nn.Linear(expanded // 4 + 1, expanded) if squeeze else None
        self.project, self.bn_project = nn.Linear(expanded, size_out, bias=False), BatchNorm(size_out)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        if self.expand is not None:
            y = self.act(self.bn_expand(self.expand(y)))
        y = self.act(self.bn_depthwise(self.depthwise(y)))
        if self.reduce is not None:
            gate = self.excite(torch.relu(self.reduce(y.mean((1, 2)))))
            y = y * h_sigmoid(gate)[:, None, None]
        y = self.bn_project(self.project(y))
        return x + y if x.shape == y.shape else y


class ChannelsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn_stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False), BatchNorm(8)
        self.stages = nn.ModuleList(Bottleneck(*b) for b in BLOCKS)
        self.last, self.bn_last = nn.Linear(14, 24, bias=False), BatchNorm(24)
        self.hidden, self.classes = nn.Linear(24, 18), nn.Linear(18, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = h_swish(self.bn_stem(self.stem(image).permute(0, 2, 3, 1)))
        for stage in self.stages:
            x = stage(x)
        x = h_swish(self.bn_last(self.last(x))).mean((1, 2))
        return self.classes(h_swish(self.hidden(x)))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}

    def norm(to: str, of: str) -> None:
        for name, key in (("gamma", "weight"), ("beta", "bias"), ("mean", "running_mean"), ("var", "running_var")):
            state[f"{to}.{name}"] = w[f"{of}.{key}"]

    state["stem.weight"] = w["features.0.0.weight"]
    norm("bn_stem", "features.0.1")
    for i, (size_in, _, expanded, _, squeeze, _, _) in enumerate(BLOCKS):
        to, of, number = f"stages.{i}", f"features.{i + 1}.block", 0
        if expanded != size_in:
            state[f"{to}.expand.weight"] = w[f"{of}.0.0.weight"].flatten(1)
            norm(f"{to}.bn_expand", f"{of}.0.1")
            number = 1
        state[f"{to}.depthwise.kernel"] = w[f"{of}.{number}.0.weight"][:, 0].permute(1, 2, 0)
        norm(f"{to}.bn_depthwise", f"{of}.{number}.1")
        if squeeze:
            number += 1
            for name, layer in (("reduce", "fc1"), ("excite", "fc2")):
                state[f"{to}.{name}.weight"] = w[f"{of}.{number}.{layer}.weight"].flatten(1)
                state[f"{to}.{name}.bias"] = w[f"{of}.{number}.{layer}.bias"]
        state[f"{to}.project.weight"] = w[f"{of}.{number + 1}.0.weight"].flatten(1)
        norm(f"{to}.bn_project", f"{of}.{number + 1}.1")
    state["last.weight"] = w["features.5.0.weight"].flatten(1)
    norm("bn_last", "features.5.1")
    for to, of in (("hidden", "classifier.0"), ("classes", "classifier.3")):
        for part in ("weight", "bias"):
            state[f"{to}.{part}"] = w[f"{of}.{part}"]
    module = ChannelsLast()
    module.load_state_dict(state)
    return module


TWINS = [
    # torch's hardswish has 1 / 6 in float32, in float64, too
    Twin("mobilenet/channels last", MobileNetV3, port, inputs, rounding=1e-7),
]
