"""A Fourier neural operator in two dimensions with complex weights, against real arithmetic with channels last."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, MODES, DEPTH, SIDE, FEED = 6, 3, 2, 10, 14


class SpectralConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, modes1, modes2):
        super().__init__()
        self.out_channels = out_channels
        self.modes1, self.modes2 = modes1, modes2
        scale = 1 / (in_channels * out_channels)
        self.weights1 = nn.Parameter(scale * torch.rand(in_channels, out_channels, modes1, modes2, 2))
        self.weights2 = nn.Parameter(scale * torch.rand(in_channels, out_channels, modes1, modes2, 2))

    def compl_mul2d(self, input, weights):
        return torch.einsum("bixy,ioxy->boxy", input, torch.view_as_complex(weights))

    def forward(self, x):
        batchsize = x.shape[0]
        x_ft = torch.fft.rfft2(x)
        out_ft = torch.zeros(
            batchsize, self.out_channels, x.size(-2), x.size(-1) // 2 + 1, dtype=x_ft.dtype, device=x.device
        )
        out_ft[:, :, : self.modes1, : self.modes2] = self.compl_mul2d(
            x_ft[:, :, : self.modes1, : self.modes2], self.weights1
        )
        out_ft[:, :, -self.modes1 :, : self.modes2] = self.compl_mul2d(
            x_ft[:, :, -self.modes1 :, : self.modes2], self.weights2
        )
        return torch.fft.irfft2(out_ft, s=(x.size(-2), x.size(-1)))


class FNO2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc0 = nn.Linear(3, WIDTH)
        for i in range(DEPTH):
            setattr(self, f"conv{i}", SpectralConv2d(WIDTH, WIDTH, MODES, MODES))
        for i in range(DEPTH):
            setattr(self, f"w{i}", nn.Conv2d(WIDTH, WIDTH, 1))
        self.fc1 = nn.Linear(WIDTH, FEED)
        self.fc2 = nn.Linear(FEED, 1)

    def get_grid(self, shape, dtype):
        batchsize, size_x, size_y = shape[0], shape[1], shape[2]
        gridx = torch.linspace(0, 1, size_x, dtype=dtype)
        gridx = gridx.reshape(1, size_x, 1, 1).repeat([batchsize, 1, size_y, 1])
        gridy = torch.linspace(0, 1, size_y, dtype=dtype)
        gridy = gridy.reshape(1, 1, size_y, 1).repeat([batchsize, size_x, 1, 1])
        return torch.cat((gridx, gridy), dim=-1)

    def forward(self, x):
        x = torch.cat((x, self.get_grid(x.shape, x.dtype)), dim=-1)
        x = self.fc0(x).permute(0, 3, 1, 2)
        for i in range(DEPTH):
            x1 = getattr(self, f"conv{i}")(x)
            x2 = getattr(self, f"w{i}")(x)
            x = x1 + x2
            if i < DEPTH - 1:
                x = F.gelu(x)
        x = x.permute(0, 2, 3, 1)
        return self.fc2(F.gelu(self.fc1(x)))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, SIDE, SIDE, 1),)


class Waves(nn.Module):
    """Both ends of the frequencies at once: weights [2, MODES, MODES, in, out], real and imaginary parts apart."""

    def __init__(self) -> None:
        super().__init__()
        self.real = nn.Parameter(torch.zeros(2 * MODES, MODES, WIDTH, WIDTH))
        self.imag = nn.Parameter(torch.zeros(2 * MODES, MODES, WIDTH, WIDTH))
        self.skip = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        height = x.shape[1]
        rows = torch.cat([torch.arange(MODES), torch.arange(height - MODES, height)])
        spectrum = torch.fft.rfft2(x, dim=(1, 2))[:, rows, :MODES]
        a, b = spectrum.real, spectrum.imag
        real = torch.einsum("bxyi,xyio->bxyo", a, self.real) - torch.einsum("bxyi,xyio->bxyo", b, self.imag)
        imag = torch.einsum("bxyi,xyio->bxyo", a, self.imag) + torch.einsum("bxyi,xyio->bxyo", b, self.real)
        out = torch.complex(real, imag)
        gap = torch.zeros(x.shape[0], height - 2 * MODES, MODES, WIDTH, dtype=out.dtype)
        out = torch.cat([out[:, :MODES], gap, out[:, MODES:]], 1)
        out = F.pad(out, (0, 0, 0, x.shape[2] // 2 + 1 - MODES))
        return torch.fft.irfft2(out, s=x.shape[1:3], dim=(1, 2)) + self.skip(x)


class Operator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(3, WIDTH)
        self.waves = nn.ModuleList(Waves() for _ in range(DEPTH))
        self.project = nn.Sequential(nn.Linear(WIDTH, FEED), nn.GELU(), nn.Linear(FEED, 1))

    def forward(self, field: Tensor) -> Tensor:
        line = torch.linspace(0, 1, SIDE, dtype=field.dtype)
        grid = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)
        x = self.lift(torch.cat([field, grid.expand(field.shape[0], -1, -1, -1)], -1))
        for waves in self.waves[:-1]:
            x = F.gelu(waves(x))
        return self.project(self.waves[-1](x))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {}
    for part in ("weight", "bias"):
        state |= {f"lift.{part}": w[f"fc0.{part}"], f"project.0.{part}": w[f"fc1.{part}"]}
        state[f"project.2.{part}"] = w[f"fc2.{part}"]
    for i in range(DEPTH):
        low, high = (w[f"conv{i}.weights{n}"].permute(4, 2, 3, 0, 1) for n in (1, 2))
        state[f"waves.{i}.real"], state[f"waves.{i}.imag"] = torch.cat([low, high], 1)
        state |= {f"waves.{i}.skip.weight": w[f"w{i}.weight"].flatten(1), f"waves.{i}.skip.bias": w[f"w{i}.bias"]}
    module = Operator()
    module.load_state_dict(state)
    return module


TWINS = [Twin("fno/real parts", FNO2d, port, inputs)]
