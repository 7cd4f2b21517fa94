"""DeepLab v3, as in torchvision, against one whose branches are joined before one norm, the pooled branch first."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

STEM, WIDTH, BRANCH, CLASSES, RATES = 6, 10, 5, 3, (2, 3, 4)


class BasicBlock(nn.Module):
    def __init__(self, inplanes: int, planes: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, dilation, dilation, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(planes), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, dilation, dilation, bias=False)
        self.bn2, self.downsample = nn.BatchNorm2d(planes), None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, STEM, 3, 2, 1, bias=False), nn.BatchNorm2d(STEM)
        self.relu = nn.ReLU(inplace=True)
        self.layer1, self.layer2 = BasicBlock(STEM, STEM), BasicBlock(STEM, WIDTH, dilation=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x)))))


class ASPPConv(nn.Sequential):
    def __init__(self, in_channels: int, out_channels: int, dilation: int) -> None:
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=dilation, dilation=dilation, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
        )


class ASPPPooling(nn.Sequential):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(in_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        for mod in self:
            x = mod(x)
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    def __init__(self, in_channels: int, atrous_rates: tuple[int, ...], out_channels: int) -> None:
        super().__init__()
        first = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels), nn.ReLU()
        )
        dilated = [ASPPConv(in_channels, out_channels, rate) for rate in atrous_rates]
        self.convs = nn.ModuleList([first, *dilated, ASPPPooling(in_channels, out_channels)])
        self.project = nn.Sequential(
            nn.Conv2d(len(self.convs) * out_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Dropout(0.5),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.project(torch.cat([conv(x) for conv in self.convs], dim=1))


class DeepLabHead(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            ASPP(WIDTH, RATES, BRANCH),
            nn.Conv2d(BRANCH, BRANCH, 3, padding=1, bias=False),
            nn.BatchNorm2d(BRANCH),
            nn.ReLU(),
            nn.Conv2d(BRANCH, CLASSES, 1),
        )


class DeepLabV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.classifier = Backbone(), DeepLabHead()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x_out = self.classifier(self.backbone(x))
        return {"out": F.interpolate(x_out, size=x.shape[-2:], mode="bilinear", align_corners=False)}


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 24, 20),)


class ConvNorm(nn.Module):
    def __init__(self, size_in: int, size: int, kernel: int, stride: int = 1, rate: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(size_in, size, kernel, stride, rate * (kernel // 2), rate, bias=False)
        self.norm = nn.BatchNorm2d(size)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


class Residual(nn.Module):
    def __init__(self, size_in: int, size: int, rate: int = 1) -> None:
        super().__init__()
        self.first, self.second = ConvNorm(size_in, size, 3, rate=rate), ConvNorm(size, size, 3, rate=rate)
        self.skip = ConvNorm(size_in, size, 1) if size != size_in else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.skip(x) + self.second(torch.relu(self.first(x))))


class Pyramid(nn.Module):
    """Looks at the whole image and at several distances; one norm for all."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Linear(WIDTH, BRANCH, bias=False)
        self.point = nn.Conv2d(WIDTH, BRANCH, 1, bias=False)
        self.atrous = nn.ModuleList(
            nn.Conv2d(WIDTH, BRANCH, 3, dilation=rate, padding="same", bias=False) for rate in RATES
        )
        self.norm = nn.BatchNorm2d((2 + len(RATES)) * BRANCH)
        self.merge = ConvNorm((2 + len(RATES)) * BRANCH, BRANCH, 1)

    def forward(self, x: Tensor) -> Tensor:
        whole = self.image(x.mean(dim=(2, 3)))[:, :, None, None].expand(-1, -1, *x.shape[2:])
        branches = [whole, self.point(x), *(conv(x) for conv in self.atrous)]
        return F.relu(self.merge(F.relu(self.norm(torch.cat(branches, dim=1)))))


class Segmenter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, STEM, 3, 2)
        self.blocks = nn.Sequential(Residual(STEM, STEM), Residual(STEM, WIDTH, rate=2))
        self.pyramid = Pyramid()
        self.refine, self.predict = ConvNorm(BRANCH, BRANCH, 3), nn.Conv2d(BRANCH, CLASSES, 1)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pyramid(self.blocks(F.relu(self.stem(images))))
        x = self.predict(F.relu(self.refine(x)))
        return F.interpolate(x, size=images.shape[2:], mode="bilinear")


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}

    def unit(to: str, conv: str, norm: str) -> None:
        state[f"{to}.conv.weight"] = w[f"{conv}.weight"]
        state.update({f"{to}.norm.{n.removeprefix(f'{norm}.')}": t for n, t in w.items() if n.startswith(f"{norm}.")})

    unit("stem", "backbone.conv1", "backbone.bn1")
    for i in (1, 2):
        unit(f"blocks.{i - 1}.first", f"backbone.layer{i}.conv1", f"backbone.layer{i}.bn1")
        unit(f"blocks.{i - 1}.second", f"backbone.layer{i}.conv2", f"backbone.layer{i}.bn2")
    unit("blocks.1.skip", "backbone.layer2.downsample.0", "backbone.layer2.downsample.1")
    aspp = "classifier.0"
    state["pyramid.image.weight"] = w[f"{aspp}.convs.4.1.weight"][:, :, 0, 0]
    state["pyramid.point.weight"] = w[f"{aspp}.convs.0.0.weight"]
    for i in range(len(RATES)):
        state[f"pyramid.atrous.{i}.weight"] = w[f"{aspp}.convs.{i + 1}.0.weight"]
    norms = [f"{aspp}.convs.4.2", *(f"{aspp}.convs.{i}.1" for i in range(4))]
    for name in ("weight", "bias", "running_mean", "running_var"):
        state[f"pyramid.norm.{name}"] = torch.cat([w[f"{norm}.{name}"] for norm in norms])
    unit("pyramid.merge", f"{aspp}.project.0", f"{aspp}.project.1")
    kernel = state["pyramid.merge.conv.weight"]
    state["pyramid.merge.conv.weight"] = torch.cat((kernel[:, -BRANCH:], kernel[:, :-BRANCH]), dim=1)
    unit("refine", "classifier.1", "classifier.2")
    state["predict.weight"], state["predict.bias"] = w["classifier.4.weight"], w["classifier.4.bias"]
    module = Segmenter()
    module.load_state_dict(state, strict=False)
    return module


TWINS = [Twin("deeplab/one norm", DeepLabV3, port, inputs)]
