"""DenseNet, as in torchvision, against functions on channels last in which new channels come first."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

GROWTH, START, LAYERS, BOTTLENECK = 4, 8, (2, 2), 2


class DenseLayer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1, self.relu1 = nn.BatchNorm2d(size), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(size, BOTTLENECK * GROWTH, 1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(BOTTLENECK * GROWTH), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(BOTTLENECK * GROWTH, GROWTH, 3, padding=1, bias=False)

    def forward(self, features: list[Tensor]) -> Tensor:
        y = self.conv1(self.relu1(self.norm1(torch.cat(features, 1))))
        return self.conv2(self.relu2(self.norm2(y)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers: int, size: int) -> None:
        super().__init__()
        for i in range(layers):
            self.add_module(f"denselayer{i + 1}", DenseLayer(size + i * GROWTH))

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for _, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.norm, self.relu = nn.BatchNorm2d(size), nn.ReLU(inplace=True)
        self.conv, self.pool = nn.Conv2d(size, out, 1, bias=False), nn.AvgPool2d(2)


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        parts = OrderedDict[str, nn.Module](
            conv0=nn.Conv2d(3, START, 3, 2, 1, bias=False), norm0=nn.BatchNorm2d(START), relu0=nn.ReLU(inplace=True)
        )
        size = START
        for number, layers in enumerate(LAYERS, 1):
            parts[f"denseblock{number}"] = DenseBlock(layers, size)
            size += layers * GROWTH
            if number < len(LAYERS):
                parts[f"transition{number}"] = Transition(size, size // 2)
                size //= 2
        parts["norm5"] = nn.BatchNorm2d(size)
        self.features, self.classifier = nn.Sequential(parts), nn.Linear(size, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.features(x), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 16, 16),)


class Variables(nn.Module):
    """Nothing but named tensors: `scope/kind`."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            attribute = name.replace("/", "__")
            if name.endswith(("mean", "variance")):
                self.register_buffer(attribute, tensor.clone())
            else:
                self.register_parameter(attribute, nn.Parameter(tensor.clone()))

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = getattr(self, name.replace("/", "__"))
        return tensor


def bn_relu(v: Variables, scope: str, x: Tensor) -> Tensor:
    scale = v[f"{scope}/gamma"] * torch.rsqrt(v[f"{scope}/variance"] + 1e-5)
    return torch.clamp(x * scale + (v[f"{scope}/beta"] - v[f"{scope}/mean"] * scale), min=0)


def conv(x: Tensor, kernel: Tensor, stride: int = 1) -> Tensor:
    """Convolve images (batch, height, width, channels) with a kernel (height, width, in, out)."""
    if kernel.shape[0] == 1:
        return x @ kernel[0, 0]
    y = F.conv2d(x.permute(0, 3, 1, 2), kernel.permute(3, 2, 0, 1), stride=stride, padding=1)
    return y.permute(0, 2, 3, 1)


class FunctionalDenseNet(nn.Module):
    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.v = Variables(tensors)

    def forward(self, images: Tensor) -> Tensor:
        v = self.v
        x = conv(images.permute(0, 2, 3, 1), v["stem/kernel"], 2)
        x = bn_relu(v, "stem", x)
        for b, layers in enumerate(LAYERS):
            for i in range(layers):
                y = conv(bn_relu(v, f"b{b}l{i}a", x), v[f"b{b}l{i}a/kernel"])
                y = conv(bn_relu(v, f"b{b}l{i}b", y), v[f"b{b}l{i}b/kernel"])
                x = torch.cat((y, x), dim=-1)
            if b + 1 < len(LAYERS):
                x = conv(bn_relu(v, f"t{b}", x), v[f"t{b}/kernel"])
                n, h, w, c = x.shape
                x = x.reshape(n, h // 2, 2, w // 2, 2, c).mean(dim=(2, 4))
        x = bn_relu(v, "last", x).mean(dim=(1, 2))
        return torch.addmm(v["head/bias"], x, v["head/kernel"])


def newest_first(tensor: Tensor, layers: int, axis: int = 0) -> Tensor:
    """Reverse the order of the blocks of channels: what a block began with, and what each layer added."""
    size = tensor.shape[axis]
    return torch.cat(tensor.split([size - layers * GROWTH] + [GROWTH] * layers, axis)[::-1], axis)


NORM = {"gamma": "weight", "beta": "bias", "mean": "running_mean", "variance": "running_var"}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    t: dict[str, Tensor] = {}

    def put(scope: str, norm: str, convolution: str | None, layers: int) -> None:
        for name, reference_name in NORM.items():
            t[f"{scope}/{name}"] = newest_first(w[f"{norm}.{reference_name}"], layers)
        if convolution is not None:
            kernel = w[f"{convolution}.weight"].permute(2, 3, 1, 0)
            t[f"{scope}/kernel"] = newest_first(kernel, layers, 2)

    put("stem", "features.norm0", "features.conv0", 0)
    for b, layers in enumerate(LAYERS):
        for i in range(layers):
            layer = f"features.denseblock{b + 1}.denselayer{i + 1}"
            put(f"b{b}l{i}a", f"{layer}.norm1", f"{layer}.conv1", i)
            put(f"b{b}l{i}b", f"{layer}.norm2", f"{layer}.conv2", 0)
        if b + 1 < len(LAYERS):
            transition = f"features.transition{b + 1}"
            put(f"t{b}", f"{transition}.norm", f"{transition}.conv", layers)
    put("last", "features.norm5", None, LAYERS[-1])
    t["head/kernel"] = newest_first(w["classifier.weight"].T, LAYERS[-1])
    t["head/bias"] = w["classifier.bias"]
    return FunctionalDenseNet(t)


TWINS = [Twin("densenet/channels last", DenseNet, port, inputs)]
