"""HiFi-GAN's generator with weight norms, against one for inference with plain weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from ..twin import Twin

LRELU_SLOPE = 0.1
MELS, WIDTH, RATES, UP_KERNELS, KERNELS, DILATIONS = 6, 16, (3, 2), (7, 4), (3, 5), (1, 3)


def get_padding(kernel_size: int, dilation: int = 1) -> int:
    return int((kernel_size * dilation - dilation) / 2)


class ResBlock1(nn.Module):
    def __init__(self, channels: int, kernel_size: int, dilation: tuple[int, ...]) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(
            weight_norm(nn.Conv1d(channels, channels, kernel_size, 1, dilation=d, padding=get_padding(kernel_size, d)))
            for d in dilation
        )
        self.convs2 = nn.ModuleList(
            weight_norm(nn.Conv1d(channels, channels, kernel_size, 1, dilation=1, padding=get_padding(kernel_size, 1)))
            for _ in dilation
        )

    def forward(self, x: Tensor) -> Tensor:
        for c1, c2 in zip(self.convs1, self.convs2, strict=True):
            xt = F.leaky_relu(x, LRELU_SLOPE)
            xt = c1(xt)
            xt = F.leaky_relu(xt, LRELU_SLOPE)
            xt = c2(xt)
            x = xt + x
        return x


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_kernels, self.num_upsamples = len(KERNELS), len(RATES)
        self.conv_pre = weight_norm(nn.Conv1d(MELS, WIDTH, 7, 1, padding=3))
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for i, (u, k) in enumerate(zip(RATES, UP_KERNELS, strict=True)):
            self.ups.append(
                weight_norm(nn.ConvTranspose1d(WIDTH // 2**i, WIDTH // 2 ** (i + 1), k, u, padding=(k - u) // 2))
            )
        for i in range(len(self.ups)):
            for k in KERNELS:
                self.resblocks.append(ResBlock1(WIDTH // 2 ** (i + 1), k, DILATIONS))
        self.conv_post = weight_norm(nn.Conv1d(WIDTH // 4, 1, 7, 1, padding=3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_pre(x)
        for i in range(self.num_upsamples):
            x = F.leaky_relu(x, LRELU_SLOPE)
            x = self.ups[i](x)
            xs = None
            for j in range(self.num_kernels):
                if xs is None:
                    xs = self.resblocks[i * self.num_kernels + j](x)
                else:
                    xs += self.resblocks[i * self.num_kernels + j](x)
            x = xs / self.num_kernels
        x = F.leaky_relu(x)
        x = self.conv_post(x)
        return torch.tanh(x)


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, MELS, 11),)


class Unit(nn.Sequential):
    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        super().__init__(
            nn.LeakyReLU(0.1),
            nn.Conv1d(channels, channels, kernel, dilation=dilation, padding="same"),
            nn.LeakyReLU(0.1),
            nn.Conv1d(channels, channels, kernel, padding="same"),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class Fusion(nn.Module):
    """The mean over kernels of different sizes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*(Unit(channels, k, d) for d in DILATIONS)) for k in KERNELS)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([branch(x) for branch in self.branches]).mean(0)


class Vocoder(nn.Sequential):
    def __init__(self) -> None:
        layers: list[nn.Module] = [nn.Conv1d(MELS, WIDTH, 7, padding=3)]
        channels = WIDTH
        for rate, kernel in zip(RATES, UP_KERNELS, strict=True):
            layers += [
                nn.LeakyReLU(0.1),
                nn.ConvTranspose1d(channels, channels // 2, kernel, rate, padding=(kernel - rate) // 2),
                Fusion(channels // 2),
            ]
            channels //= 2
        super().__init__(*layers, nn.LeakyReLU(), nn.Conv1d(channels, 1, 7, padding=3), nn.Tanh())


def folded(w: dict[str, Tensor], name: str, dims: tuple[int, ...] = (1, 2)) -> Tensor:
    g, v = w[f"{name}.parametrizations.weight.original0"], w[f"{name}.parametrizations.weight.original1"]
    return g * v / v.pow(2).sum(dims, keepdim=True).sqrt()


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}

    def copy(to: str, of: str) -> None:
        state[f"{to}.weight"], state[f"{to}.bias"] = folded(w, of), w[f"{of}.bias"]

    copy("0", "conv_pre")
    for i in range(2):
        up = f"{3 * i + 2}"
        state[f"{up}.weight"], state[f"{up}.bias"] = folded(w, f"ups.{i}", (1, 2)), w[f"ups.{i}.bias"]
        for j in range(2):
            for d in range(2):
                copy(f"{3 * i + 3}.branches.{j}.{d}.1", f"resblocks.{2 * i + j}.convs1.{d}")
                copy(f"{3 * i + 3}.branches.{j}.{d}.3", f"resblocks.{2 * i + j}.convs2.{d}")
    copy("8", "conv_post")
    module = Vocoder()
    module.load_state_dict(state)
    return module


TWINS = [Twin("hifigan/plain weights", Generator, port, inputs)]
