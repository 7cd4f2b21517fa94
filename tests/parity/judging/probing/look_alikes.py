"""Pairs that agree on the given inputs and differ elsewhere, each beside a sound one that must pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Function = Callable[..., Any]


@dataclass(frozen=True)
class LookAlike:
    """A reference, a function that differs from it on a region, and one that doesn't.

    Attributes:
        reference: the reference.
        wrong: differs somewhere.
        sound: computes the same in another way.
        inputs: inputs on which all agree.
        probe: what the name of the probe that shows the difference contains.
        in_files: whether the difference can be written to ONNX files.
    """

    reference: Function
    wrong: Function
    sound: Function
    inputs: tuple[Any, ...]
    probe: str
    in_files: bool = True


class Of(nn.Module):
    """A module that computes a function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class ClippedGradient(torch.autograd.Function):
    """The identity, whose gradient is clipped."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, most: float) -> Tensor:
        ctx.most = most
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g.clamp(-ctx.most, ctx.most), None


class SmallGradientsDropped(torch.autograd.Function):
    """The identity, whose small gradients are zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return torch.where(g.abs() < 1e-5, 0.0, g)


def _norm(x: Tensor) -> Tensor:
    """The norm of each row, computed without overflow."""
    largest = x.abs().amax(-1, keepdim=True)
    return largest * (x / largest).square().sum(-1, keepdim=True).sqrt()


def _bce(x: Tensor) -> Tensor:
    p = x.sigmoid()
    return -(0.3 * p.log() + 0.7 * (1 - p).log())


def _in_dtype(dtype: torch.dtype) -> Function:
    return lambda n: n.to(dtype).to(torch.int64) * 2


X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
POSITIVE = X.abs() + 0.5
IDS = torch.randint(1, 15, (2, 7), generator=torch.Generator().manual_seed(0))
MANY = "in float32|of either sign from 0.001 to 1000|times"

VALUES: dict[str, LookAlike] = {
    "logsumexp that overflows": LookAlike(
        lambda x: x.logsumexp(-1),
        lambda x: x.exp().sum(-1).log(),
        lambda x: (x - x.amax(-1, keepdim=True)).exp().sum(-1).log() + x.amax(-1),
        (X,),
        MANY,
    ),
    "norm that overflows": LookAlike(
        _norm,
        lambda x: x.square().sum(-1, keepdim=True).sqrt(),
        lambda x: _norm(x * 0.5) * 2,
        (POSITIVE,),
        "in float32",
    ),
    "power and root": LookAlike(
        lambda x: x.abs(), lambda x: (x**8) ** 0.125, lambda x: torch.maximum(x, -x), (POSITIVE,), "in float32"
    ),
    "log of softmax": LookAlike(
        lambda x: x.log_softmax(-1),
        lambda x: x.softmax(-1).log(),
        lambda x: x - x.logsumexp(-1, keepdim=True),
        (X,),
        MANY,
    ),
    "softplus": LookAlike(
        lambda x: F.softplus(x, threshold=40),
        lambda x: (1 + x.exp()).log(),
        lambda x: x.clamp(min=0) + torch.log1p((-x.abs()).exp()),
        (X,),
        MANY,
    ),
    "binary cross entropy of probabilities": LookAlike(
        lambda x: F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3), reduction="none"),
        _bce,
        lambda x: x.clamp(min=0) - x * 0.3 + torch.log1p((-x.abs()).exp()),
        (X,),
        MANY,
    ),
    "half away from zero": LookAlike(
        torch.round, lambda x: (x + 0.5).floor(), lambda x: -torch.round(-x), (X,), "halves|at which operations switch"
    ),
    "halves behind a scale": LookAlike(
        lambda x: torch.round(x * 10) / 10,
        lambda x: (x * 10 + 0.5).floor() / 10,
        lambda x: -torch.round(x * -10) / 10,
        (X,),
        "at which operations switch",
    ),
    "halves behind a quantizer's scale": LookAlike(
        lambda x: (x / 0.0625).round().clamp(-128, 127),
        lambda x: (x / 0.0625 + 0.5).floor().clamp(-128, 127),
        lambda x: (x * 16).round().clamp(-128, 127),
        (X,),
        "at which operations switch",
    ),
    "trunc for floor": LookAlike(torch.floor, torch.trunc, lambda x: -torch.ceil(-x), (POSITIVE,), "negated|sign"),
    "fmod for remainder": LookAlike(
        lambda x: torch.remainder(x, 3.0),
        lambda x: torch.fmod(x, 3.0),
        lambda x: torch.where(torch.fmod(x, 3.0) < 0, torch.fmod(x, 3.0) + 3.0, torch.fmod(x, 3.0)),
        (POSITIVE,),
        "negated|sign",
    ),
}
"""Floating-point numbers, to the ends of their range."""

INTEGERS: dict[str, LookAlike] = {
    "through float32": LookAlike(
        lambda n: n * 2, _in_dtype(torch.float32), lambda n: n + n, (IDS,), "ids|n |args|with"
    ),
    "through float64": LookAlike(lambda n: n * 2, _in_dtype(torch.float64), lambda n: n + n, (IDS,), "with"),
    "through int32": LookAlike(lambda n: n * 2, _in_dtype(torch.int32), lambda n: n + n, (IDS,), "with"),
    "overflow of int32": LookAlike(
        lambda n: n * 300 // 300,
        lambda n: ((n.int() * 300) // 300).long(),
        lambda n: n.clone(),
        (IDS,),
        "with",
    ),
    "division towards zero": LookAlike(
        lambda n: torch.div(n, 2, rounding_mode="floor"),
        lambda n: torch.div(n, 2, rounding_mode="trunc"),
        lambda n: n >> 1,
        (IDS,),
        "negative|-1",
    ),
    "remainder of the sign of the dividend": LookAlike(
        lambda n: torch.remainder(n, 5), lambda n: torch.fmod(n, 5), lambda n: n - n // 5 * 5, (IDS,), "negative|-1"
    ),
    "absolute value": LookAlike(lambda n: n.abs(), lambda n: n * 1, lambda n: n * n.sign(), (IDS,), "negative|-1"),
}
"""Integers, negative and large."""

EDGES = torch.tensor([-1.0, 0.0, 1.0])

THRESHOLDS: dict[str, LookAlike] = {
    "edge of a bucket": LookAlike(
        lambda x: torch.bucketize(x, EDGES.to(x.dtype)),
        lambda x: torch.bucketize(x, EDGES.to(x.dtype), right=True),
        lambda x: (x[..., None] > EDGES.to(x.dtype)).sum(-1),
        (X,),
        "whole numbers too",
    ),
    "truth value at a threshold": LookAlike(
        lambda x: x > 0.5, lambda x: x >= 0.5, lambda x: ~(x <= 0.5), (X,), "whole numbers too"
    ),
    "NaN in one of two numbers": LookAlike(
        torch.fmax,
        torch.maximum,
        lambda x, y: torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, torch.maximum(x, y))),
        (X, X.flip(0)),
        "NaN in",
        in_files=False,
    ),
}

TIES: dict[str, LookAlike] = {
    "last of equal maxima": LookAlike(
        lambda x: x.argmax(-1),
        lambda x: x.shape[-1] - 1 - x.flip(-1).argmax(-1),
        lambda x: x.max(-1).indices,
        (X,),
        "equal|repeated|zero",
    ),
}
"""The position of equal elements, where it is defined."""

GRADIENTS: dict[str, LookAlike] = {
    "gradient clipped above 50": LookAlike(
        lambda x: x * 2, lambda x: ClippedGradient.apply(x, 50.0) * 2, lambda x: x + x, (X,), "cotangents", False
    ),
    "small gradients dropped": LookAlike(
        lambda x: x * 2, lambda x: SmallGradientsDropped.apply(x) * 2, lambda x: x + x, (X,), "cotangents", False
    ),
    "root of zero squares": LookAlike(
        lambda x: x.norm(dim=-1),
        lambda x: x.square().sum(-1).sqrt(),
        lambda x: (x * 2).norm(dim=-1) / 2,
        (X,),
        "zero",
        False,
    ),
    "power of zero by logarithms": LookAlike(
        lambda x: x**2, lambda x: (2 * x.abs().log()).exp(), lambda x: x * x, (X,), "zero", False
    ),
    "gradient to one of equal maxima": LookAlike(
        lambda x: x.amax(-1), lambda x: x.max(-1).values, lambda x: x.neg().amin(-1).neg(), (X,), "of two values", False
    ),
}
"""Gradients alone."""
