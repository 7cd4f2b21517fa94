"""Batch norms that a port writes out, in whatever way, get the reference's vectors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import QUICKLY, drawn

SIZE = 6


class Reference(nn.Module):
    """Two units of a convolution, its norm and an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.units = nn.Sequential(
            nn.Conv1d(4, SIZE, 3, padding=1), nn.BatchNorm1d(SIZE, eps=1e-3), nn.Tanh(),
            nn.Conv1d(SIZE, SIZE, 1, bias=False), nn.BatchNorm1d(SIZE), nn.Tanh(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.units(x)
        return result


Write = Callable[[Tensor, dict[str, Tensor], float], Tensor]


def one_product(x: Tensor, n: dict[str, Tensor], eps: float) -> Tensor:
    factor = torch.rsqrt(n["v"] + eps) * n["g"]
    return x * factor + (n["b"] - n["m"] * factor)


def divided_last(x: Tensor, n: dict[str, Tensor], eps: float) -> Tensor:
    return (x - n["m"]) * n["g"] / (n["v"] + eps) ** 0.5 + n["b"]


def negative(x: Tensor, n: dict[str, Tensor], eps: float) -> Tensor:
    inverse = 1 / torch.sqrt(eps + n["v"])
    return n["g"] * inverse * x + (-n["g"] * n["m"] * inverse + n["b"])


def no_mean(x: Tensor, n: dict[str, Tensor], eps: float) -> Tensor:
    """A fault: the mean is added."""
    factor = torch.rsqrt(n["v"] + eps) * n["g"]
    return x * factor + (n["b"] + n["m"] * factor)


class Norm(nn.Module):
    """A norm with its vectors under other names, some of them buffers."""

    def __init__(self, write: Write, eps: float) -> None:
        super().__init__()
        self.write, self.eps = write, eps
        self.gamma, self.beta = nn.Parameter(torch.ones(SIZE)), nn.Parameter(torch.zeros(SIZE))
        self.register_buffer("moving_mean", torch.zeros(SIZE))
        self.register_buffer("moving_variance", torch.ones(SIZE))

    def forward(self, x: Tensor) -> Tensor:
        return self.write(
            x, {"g": self.gamma, "b": self.beta, "m": self.moving_mean, "v": self.moving_variance}, self.eps
        )


class Port(nn.Module):
    """Channels last."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(4, SIZE, 3, padding=1), nn.Linear(SIZE, SIZE, bias=False)
        self.norms = nn.ModuleList([Norm(write, 1e-3), Norm(write, 1e-5)])

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](self.first(x).mT).tanh()
        y = self.norms[1](self.second(y)).tanh()
        return y.mT


def x() -> tuple[Tensor, ...]:
    return (torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(3)),)


@pytest.mark.parametrize("write", [one_product, divided_last, negative])
def test_all_vectors_of_a_norm_are_loaded(write: Write) -> None:
    reference, candidate = drawn(Reference(), 0), drawn(Port(write), 1)
    loading = load_by_structure(reference, ModulePort(candidate), x(), {})
    w = reference.state_dict()
    for number, source in enumerate(("units.1", "units.4")):
        for name, of_torch in (
            ("gamma", "weight"), ("beta", "bias"), ("moving_mean", "running_mean"), ("moving_variance", "running_var"),
        ):  # fmt: skip
            loaded = loading.arrays[f"norms.{number}.{name}"]
            assert torch.equal(torch.as_tensor(loaded), w[f"{source}.{of_torch}"]), name
    assert parity.compare(reference, candidate, x(), load_weights=True, **QUICKLY).ok


def test_a_norm_that_adds_the_mean_is_still_found_to_differ() -> None:
    assert parity.compare(drawn(Reference(), 0), drawn(Port(no_mean), 1), x(), load_weights=True, **QUICKLY).failed
