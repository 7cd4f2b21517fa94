"""StyleGAN2's generator with equalised learning rates, against one with plain weights that scales features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

STYLE, MAPPING, LR_MUL, CHANNELS, SIZE = 8, 2, 0.5, (6, 4), 4


def fused_leaky_relu(x: Tensor, bias: Tensor, negative_slope: float = 0.2, scale: float = 2**0.5) -> Tensor:
    rest_dim = [1] * (x.ndim - bias.ndim - 1)
    return F.leaky_relu(x + bias.view(1, bias.shape[0], *rest_dim), negative_slope=negative_slope) * scale


class PixelNorm(nn.Module):
    def forward(self, input: Tensor) -> Tensor:
        return input * torch.rsqrt(torch.mean(input**2, dim=1, keepdim=True) + 1e-8)


class EqualLinear(nn.Module):
    def __init__(
        self, in_dim: int, out_dim: int, bias_init: float = 0, lr_mul: float = 1, activation: bool = False
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_dim, in_dim).div_(lr_mul))
        self.bias = nn.Parameter(torch.zeros(out_dim).fill_(bias_init))
        self.activation = activation
        self.scale, self.lr_mul = (1 / math.sqrt(in_dim)) * lr_mul, lr_mul

    def forward(self, input: Tensor) -> Tensor:
        if self.activation:
            out = F.linear(input, self.weight * self.scale)
            return fused_leaky_relu(out, self.bias * self.lr_mul)
        return F.linear(input, self.weight * self.scale, bias=self.bias * self.lr_mul)


class FusedLeakyReLU(nn.Module):
    def __init__(self, channel: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channel))

    def forward(self, input: Tensor) -> Tensor:
        return fused_leaky_relu(input, self.bias)


class ModulatedConv2d(nn.Module):
    def __init__(
        self, in_channel: int, out_channel: int, kernel_size: int, demodulate: bool = True, upsample: bool = False
    ) -> None:
        super().__init__()
        self.eps, self.in_channel, self.out_channel, self.kernel_size = 1e-8, in_channel, out_channel, kernel_size
        self.scale, self.padding = 1 / math.sqrt(in_channel * kernel_size**2), kernel_size // 2
        self.weight = nn.Parameter(torch.randn(1, out_channel, in_channel, kernel_size, kernel_size))
        self.modulation = EqualLinear(STYLE, in_channel, bias_init=1)
        self.demodulate, self.upsample = demodulate, upsample

    def forward(self, input: Tensor, style: Tensor) -> Tensor:
        batch, in_channel, height, width = input.shape
        style = self.modulation(style).view(batch, 1, in_channel, 1, 1)
        weight = self.scale * self.weight * style
        if self.demodulate:
            demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + self.eps)
            weight = weight * demod.view(batch, self.out_channel, 1, 1, 1)
        if self.upsample:
            input = F.interpolate(input, scale_factor=2, mode="nearest")
            height, width = 2 * height, 2 * width
        weight = weight.view(batch * self.out_channel, in_channel, self.kernel_size, self.kernel_size)
        out = F.conv2d(input.reshape(1, batch * in_channel, height, width), weight, padding=self.padding, groups=batch)
        return out.view(batch, self.out_channel, height, width)


class NoiseInjection(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.register_buffer("noise", torch.randn(1, 1, size, size))

    def forward(self, image: Tensor) -> Tensor:
        return image + self.weight * self.noise


class StyledConv(nn.Module):
    def __init__(self, in_channel: int, out_channel: int, size: int, upsample: bool = False) -> None:
        super().__init__()
        self.conv = ModulatedConv2d(in_channel, out_channel, 3, upsample=upsample)
        self.noise, self.activate = NoiseInjection(size), FusedLeakyReLU(out_channel)

    def forward(self, input: Tensor, style: Tensor) -> Tensor:
        return self.activate(self.noise(self.conv(input, style)))


class ToRGB(nn.Module):
    def __init__(self, in_channel: int) -> None:
        super().__init__()
        self.conv = ModulatedConv2d(in_channel, 3, 1, demodulate=False)
        self.bias = nn.Parameter(torch.zeros(1, 3, 1, 1))

    def forward(self, input: Tensor, style: Tensor, skip: Tensor | None = None) -> Tensor:
        out = self.conv(input, style) + self.bias
        return out if skip is None else out + F.interpolate(skip, scale_factor=2, mode="bilinear", align_corners=False)


class ConstantInput(nn.Module):
    def __init__(self, channel: int, size: int) -> None:
        super().__init__()
        self.input = nn.Parameter(torch.randn(1, channel, size, size))

    def forward(self, input: Tensor) -> Tensor:
        return self.input.repeat(input.shape[0], 1, 1, 1)


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [EqualLinear(STYLE, STYLE, lr_mul=LR_MUL, activation=True) for _ in range(MAPPING)]
        self.style = nn.Sequential(PixelNorm(), *layers)
        first, second = CHANNELS
        self.input, self.conv1, self.to_rgb1 = ConstantInput(first, SIZE), StyledConv(first, first, SIZE), ToRGB(first)
        self.convs = nn.ModuleList(
            [StyledConv(first, second, 2 * SIZE, upsample=True), StyledConv(second, second, 2 * SIZE)]
        )
        self.to_rgbs = nn.ModuleList([ToRGB(second)])

    def forward(self, styles: Tensor) -> Tensor:
        latent = self.style(styles)
        out = self.conv1(self.input(latent), latent)
        skip = self.to_rgb1(out, latent)
        out = self.convs[1](self.convs[0](out, latent), latent)
        return self.to_rgbs[0](out, latent, skip)


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(3, STYLE),)


class Modulated(nn.Module):
    """Scales what goes into a convolution by the style, and what comes out so that its variance is kept."""

    def __init__(self, size_in: int, size: int, kernel: int, keeps_variance: bool = True) -> None:
        super().__init__()
        self.style, self.conv = nn.Linear(STYLE, size_in), nn.Conv2d(size_in, size, kernel, padding="same", bias=False)
        self.keeps_variance = keeps_variance

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        style = self.style(w)
        x = self.conv(x * style[:, :, None, None])
        if self.keeps_variance:
            variance = style.square() @ self.conv.weight.square().sum(dim=(2, 3)).T
            x = x / (variance + 1e-8).sqrt()[:, :, None, None]
        return x


class Layer(nn.Module):
    def __init__(self, size_in: int, size: int, resolution: int) -> None:
        super().__init__()
        self.conv, self.strength = Modulated(size_in, size, 3), nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.zeros(size, 1, 1))
        self.register_buffer("noise", torch.zeros(resolution, resolution))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        return F.leaky_relu(self.conv(x, w) + self.strength * self.noise + self.bias, 0.2) * 2**0.5


class Image(nn.Module):
    def __init__(self, size_in: int) -> None:
        super().__init__()
        self.conv, self.bias = Modulated(size_in, 3, 1, keeps_variance=False), nn.Parameter(torch.zeros(3, 1, 1))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        return self.conv(x, w) + self.bias


class Synthesis(nn.Module):
    """The mapping's learning rates and gains are in its weights."""

    def __init__(self) -> None:
        super().__init__()
        layers = [layer for _ in range(MAPPING) for layer in (nn.Linear(STYLE, STYLE), nn.LeakyReLU(0.2))]
        self.mapping = nn.Sequential(*layers)
        first, second = CHANNELS
        self.start = nn.Parameter(torch.zeros(first, SIZE, SIZE))
        self.b4, self.b8up, self.b8 = (
            Layer(first, first, SIZE),
            Layer(first, second, 2 * SIZE),
            Layer(second, second, 2 * SIZE),
        )
        self.image4, self.image8 = Image(first), Image(second)

    def forward(self, z: Tensor) -> Tensor:
        w = self.mapping(z / (z.square().mean(dim=1, keepdim=True) + 1e-8).sqrt())
        x = self.b4(self.start.expand(z.shape[0], -1, -1, -1), w)
        image = F.interpolate(self.image4(x, w), scale_factor=2, mode="bilinear")
        x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        x = self.b8(self.b8up(x, w), w)
        return image + self.image8(x, w)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {"start": w["input.input"][0]}
    rate = STYLE**-0.5
    for i in range(MAPPING):
        gain = LR_MUL * 2**0.5
        state[f"mapping.{2 * i}.weight"] = w[f"style.{i + 1}.weight"] * rate * gain
        state[f"mapping.{2 * i}.bias"] = w[f"style.{i + 1}.bias"] * gain

    def modulated(to: str, of: str) -> None:
        kernel = w[f"{of}.weight"][0]
        state[f"{to}.conv.weight"] = kernel / kernel[0].numel() ** 0.5
        state[f"{to}.style.weight"] = w[f"{of}.modulation.weight"] * rate
        state[f"{to}.style.bias"] = w[f"{of}.modulation.bias"]

    for to, of in (("b4", "conv1"), ("b8up", "convs.0"), ("b8", "convs.1")):
        modulated(f"{to}.conv", f"{of}.conv")
        state[f"{to}.strength"], state[f"{to}.noise"] = w[f"{of}.noise.weight"][0], w[f"{of}.noise.noise"][0, 0]
        state[f"{to}.bias"] = w[f"{of}.activate.bias"][:, None, None]
    for to, of in (("image4", "to_rgb1"), ("image8", "to_rgbs.0")):
        modulated(f"{to}.conv", f"{of}.conv")
        state[f"{to}.bias"] = w[f"{of}.bias"][0]
    module = Synthesis()
    module.load_state_dict(state)
    return module


TWINS = [Twin("stylegan/plain weights", Generator, port, inputs)]
