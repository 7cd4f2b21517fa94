"""Decompositions of operators that create tensors from numbers, which torch itself doesn't decompose."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_ATEN = torch.ops.aten


def _bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> torch.Tensor:
    """A triangle of shape (window_length,), as ATen's `bartlett_window`: 1 - |2 i / last - 1|."""
    if window_length < 2:
        return torch.ones(window_length, **options)
    rising = torch.arange(window_length, **_floating(options)) * (2 / _last(window_length, periodic))
    return torch.where(rising > 1, 2 - rising, rising)


def _blackman_window(window_length: int, periodic: bool = True, **options: Any) -> torch.Tensor:
    """A Blackman window of shape (window_length,), as ATen's `blackman_window`: 0.42 - 0.5 cos(t) + 0.08 cos(2 t)."""
    if window_length < 2:
        return torch.ones(window_length, **options)
    angle = torch.arange(window_length, **_floating(options)) * (math.pi / _last(window_length, periodic))
    return (angle * 4).cos() * 0.08 - (angle * 2).cos() * 0.5 + 0.42


def _hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> torch.Tensor:
    """A Hamming window of shape (window_length,), as ATen's `hamming_window`: alpha - beta cos(t)."""
    if window_length < 2:
        return torch.ones(window_length, **options)
    angle = torch.arange(window_length, **_floating(options)) * (2 * math.pi / _last(window_length, periodic))
    return angle.cos() * -beta + alpha


def _kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> torch.Tensor:
    """A Kaiser window of shape (window_length,), as ATen's kernel `kaiser_window` computes it.

    I0(beta sqrt(1 - (2 i / last - 1)^2)) / I0(beta), with the modified Bessel function I0.
    """
    if window_length < 2:
        return torch.ones(window_length, **options)
    options = _floating(options)
    is_half = options["dtype"] in (torch.float16, torch.bfloat16)  # then the kernel computes in float32
    indices = torch.arange(window_length, **(options | {"dtype": torch.float32} if is_half else options))
    window = torch.i0(beta * (1 - (indices * (2 / _last(window_length, periodic)) - 1).square()).sqrt())
    return (window / torch.i0(torch.full_like(window, beta))).to(options["dtype"])


def _fft_fftfreq(n: int, d: float = 1.0, **options: Any) -> torch.Tensor:
    """The frequencies of n samples at distance d, (n,), as ATen's `fft_fftfreq` computes them."""
    indices = torch.arange(n, **_floating(options))
    return torch.where(indices < (n + 1) // 2, indices, indices - n) * (1.0 / (max(n, 1) * d))


def _fft_rfftfreq(n: int, d: float = 1.0, **options: Any) -> torch.Tensor:
    """The frequencies of n real samples at distance d, (n // 2 + 1,), as ATen's `fft_rfftfreq` computes them."""
    return torch.arange(n // 2 + 1, **_floating(options)) * (1.0 / (max(n, 1) * d))


def _last(window_length: int, periodic: bool) -> int:
    """The index at which a window ends: a periodic one is a window of one element more, without its last."""
    return window_length - 1 + int(periodic)


def _floating(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a tensor whose dtype is torch's default unless one is given, as for all of these operators."""
    return options | {"dtype": options.get("dtype") or torch.get_default_dtype()}


RULES: dict[Any, Callable[..., torch.Tensor]] = {
    _ATEN.bartlett_window.default: _bartlett_window,
    _ATEN.bartlett_window.periodic: _bartlett_window,
    _ATEN.blackman_window.default: _blackman_window,
    _ATEN.blackman_window.periodic: _blackman_window,
    _ATEN.hamming_window.default: _hamming_window,
    _ATEN.hamming_window.periodic: _hamming_window,
    _ATEN.hamming_window.periodic_alpha: _hamming_window,
    _ATEN.hamming_window.periodic_alpha_beta: _hamming_window,
    _ATEN.kaiser_window.default: _kaiser_window,
    _ATEN.kaiser_window.periodic: _kaiser_window,
    _ATEN.kaiser_window.beta: _kaiser_window,
    _ATEN.fft_fftfreq.default: _fft_fftfreq,
    _ATEN.fft_rfftfreq.default: _fft_rfftfreq,
}
"""The function that each of these operators is replaced by."""
