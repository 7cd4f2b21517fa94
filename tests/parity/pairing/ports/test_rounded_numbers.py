"""Numbers and tables that a module, or its port, holds in float32: their rounding isn't a fault, and hides none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn as tnn

import cellbridge.runtime as ms
from cellbridge import parity
from cellbridge.runtime import Tensor, nn, ops

SCALE = 48**-0.5
TABLE = np.sin(np.arange(4)[:, None] / 100 ** (np.arange(6) / 6))


class TorchScaled(tnn.Module):
    def __init__(self, held: Any, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.fc, self.norm = tnn.Linear(6, 6), tnn.LayerNorm(6)
        self.function = function
        if isinstance(held, torch.Tensor):
            self.register_buffer("held", held)
        else:
            self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.norm(self.fc(x)), self.held)


class Scaled(nn.Cell):
    def __init__(self, held: Any, function: Callable[..., Tensor], epsilon: float = 1e-5) -> None:
        super().__init__()
        self.fc, self.norm = nn.Dense(6, 6), nn.LayerNorm((6,), epsilon=epsilon)
        self.held = held
        self.function = function

    def construct(self, x: Tensor) -> Tensor:
        return self.function(self.norm(self.fc(x)), self.held)


def product(x: Any, held: Any) -> Any:
    return x * held


def filled(x: Any, held: Any) -> Any:
    return x.masked_fill(x > 0, held)


def torch_table() -> torch.Tensor:
    return torch.sin(torch.arange(4)[:, None] / 100 ** (torch.arange(6) / 6))


PORTS: dict[str, tuple[Any, Any, Any, Any]] = {
    "a tensor for a number": (SCALE, product, Tensor(SCALE, ms.float32), product),
    "a number for a buffer": (torch.tensor(SCALE), product, SCALE, product),
    "a number of NumPy": (SCALE, product, np.float32(SCALE), product),
    "multiplied, not divided": (48**0.5, lambda x, held: x / held, Tensor(SCALE, ms.float32), product),
    "made as it is needed": (SCALE, product, None, lambda x, held: x * Tensor(SCALE, ms.float32)),
    "made as it is needed by torch": (None, lambda x, held: x * torch.tensor(SCALE), SCALE, product),
    "a number to fill in": (0.1, filled, 0.1, filled),
    "numbers at even distances": (
        None,
        lambda x, held: x * torch.linspace(0, 1, 6),
        None,
        lambda x, held: x * ops.linspace(0, 1, 6),
    ),
    "a table": (torch_table(), torch.add, Tensor(TABLE, ms.float32), ops.add),
}


@pytest.mark.parametrize("name", PORTS)
@pytest.mark.every(2)
def test_a_rounding_of_numbers_is_no_fault(name: str) -> None:
    torch.manual_seed(0)
    held, function, ported, of_cell = PORTS[name]
    report = parity.compare(TorchScaled(held, function), Scaled(ported, of_cell), torch.randn(4, 6))
    assert report.ok, str(report)


@pytest.mark.parametrize("off", [1e-6, -1e-5, 1e-3])
@pytest.mark.every(3)
def test_numbers_that_are_off_by_more_are_told(off: float) -> None:
    torch.manual_seed(0)
    wrong = Scaled(Tensor(SCALE * (1 + off), ms.float32), product)
    assert parity.compare(TorchScaled(SCALE, product), wrong, torch.randn(4, 6)).failing == [""]


def test_a_wrong_eps_beside_them_is_told_of_its_cell_alone() -> None:
    torch.manual_seed(0)
    wrong = Scaled(Tensor(SCALE, ms.float32), product, epsilon=1.01e-5)
    assert parity.compare(TorchScaled(SCALE, product), wrong, torch.randn(4, 6)).failing == ["norm"]


def angles(count: int, base: float = 1e4) -> np.ndarray[Any, Any]:
    """A table of positions in float32, with errors of up to 2e-5 at position 500."""
    frequencies = base ** -(np.arange(6, dtype=np.float32) / 6)
    return np.outer(np.arange(count, dtype=np.float32), frequencies.astype(np.float32))


def torch_angles(count: int) -> torch.Tensor:
    frequencies = 1e4 ** -(torch.arange(6).float() / 6)
    return torch.outer(torch.arange(count).float(), frequencies)


def torch_sines(x: torch.Tensor, _: Any) -> torch.Tensor:
    return x * torch_angles(len(x)).sin() + torch.cos(torch_angles(len(x)))


def torch_rotation(x: torch.Tensor, _: Any) -> torch.Tensor:
    turned = torch.polar(torch.ones(len(x), 6), torch_angles(len(x)))
    return x * turned.imag + turned.real


def rotated(x: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
    return x * held.imag + held.real


@pytest.mark.parametrize(("base", "passes"), [(1e4, True), (10010.0, False)])
@pytest.mark.parametrize("function", [torch_sines, torch_rotation, rotated])
@pytest.mark.every(6)
def test_tables_of_sines_of_many_positions(function: Any, base: float, passes: bool) -> None:
    torch.manual_seed(0)
    held = torch.polar(torch.ones(500, 6), torch_angles(500)) if function is rotated else None
    table = Tensor(angles(500, base), ms.float32)
    sines, cosines = (Tensor(f(np.asarray(table)), ms.float32) for f in (np.sin, np.cos))
    port = Scaled(None, lambda x, _: x * sines + cosines)
    assert parity.compare(TorchScaled(held, function), port, torch.randn(500, 6)).ok is passes


def test_sines_of_what_is_learned_are_as_exact_as_others() -> None:
    torch.manual_seed(0)
    module = TorchScaled(SCALE, lambda x, held: torch.sin(300 * x) * held)
    for by, passes in ((300, True), (300 * (1 + 1e-6), False)):
        port = Scaled(Tensor(SCALE, ms.float32), lambda x, held, by=by: ops.sin(by * x) * held)
        assert parity.compare(module, port, torch.randn(4, 6)).ok is passes
