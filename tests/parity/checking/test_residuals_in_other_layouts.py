"""Ports with channels last, whose residuals take a value of which only a copy lies as in the module."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity


class Unit(nn.Module):
    def __init__(self, channels: int, results: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, results, 3, padding=1, bias=False), nn.BatchNorm2d(results)
        self.is_residual = channels == results

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x))
        return x + y if self.is_residual else y  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.units = nn.Sequential(Unit(3, 5), Unit(5, 6), Unit(6, 6))
        self.top = nn.Conv2d(6, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.top(self.units(x)).mean((2, 3))  # type: ignore[no-any-return]


class Port(nn.Module):
    """Its norms lack their means, if there is a fault."""

    def __init__(self, like: Network, *, fault: bool) -> None:
        super().__init__()
        self.w = nn.ParameterDict({name.replace(".", "_"): p.detach() for name, p in like.named_parameters()})
        for name, buffer in like.named_buffers():
            zero = fault and name.endswith("mean")
            self.register_buffer(name.replace(".", "_"), torch.zeros_like(buffer) if zero else buffer.clone())

    def unit(self, x: Tensor, name: str) -> Tensor:
        y = F.conv2d(x.permute(0, 3, 1, 2), self.w[f"{name}_conv_weight"], padding=1).permute(0, 2, 3, 1)
        y = y - getattr(self, f"{name}_norm_running_mean")
        y = y / torch.sqrt(getattr(self, f"{name}_norm_running_var") + 1e-5)
        y = y * self.w[f"{name}_norm_weight"] + self.w[f"{name}_norm_bias"]
        return x + y if x.shape == y.shape else y

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        for number in range(3):
            x = self.unit(x, f"units_{number}")
        return F.conv2d(x.permute(0, 3, 1, 2), self.w["top_weight"], self.w["top_bias"]).mean((2, 3))


def test_a_fault_before_a_residual_is_placed_in_each_norm() -> None:
    torch.manual_seed(0)
    module = Network().eval()
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer += torch.rand_like(buffer)
    for fault in (False, True):
        report = parity.compare(module, Port(module, fault=fault).eval(), (torch.randn(2, 3, 4, 5),))
        assert set(report.failing) == ({f"units.{i}.norm" for i in range(3)} if fault else set()), str(report)
