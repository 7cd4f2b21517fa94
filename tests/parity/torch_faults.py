"""Faults in torch's own gradients: one that torch 2.13 has, and ones planted into its CPU kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def kernel(operator: str, function: Callable[..., Any]) -> Iterator[None]:
    """Within the context, torch computes an operator of ATen on the CPU by a function."""
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a kernel is overridden
            library.impl(operator, function, "CPU", allow_override=True)
        yield
    finally:
        library._destroy()


def wrong_tanh_backward(gradient: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """A kernel that is off by a hundredth."""
    return gradient * (1 - output * output) * 1.01


class Tanh(nn.Module):
    """x [n, 6] to tanh(x) * scale."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * self.scale


class NormToTokens(nn.Module):
    """x [n, 8, h, w] to [h, w, n, 8]: its product passes a gradient in an unusual memory layout to the batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(8)
        assert self.norm.running_mean is not None
        assert self.norm.running_var is not None
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = self.norm
        y = nn.functional.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        return y.permute(2, 3, 0, 1) @ self.weight


def batch_norm_is_wrong() -> bool:
    """Whether torch's eval-mode batch norm has another gradient for the same numbers in another memory layout."""
    generator = torch.Generator().manual_seed(0)
    x, odd = (torch.randn(size, generator=generator, dtype=torch.float64) for size in ((1, 8, 4, 4), (4, 4, 1, 8)))
    gradient = odd.permute(2, 3, 0, 1)
    mean, ones = torch.zeros(8, dtype=torch.float64), torch.ones(8, dtype=torch.float64)
    first, second = (
        torch.ops.aten.native_batch_norm_backward(g, x, ones, mean, ones, None, None, False, 1e-5, [True] * 3)[0]
        for g in (gradient, gradient.contiguous())
    )
    return not torch.allclose(first, second)
