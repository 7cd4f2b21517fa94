"""Bounds of Fourier transforms, systems of equations and recurrent layers, at the sizes that people use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.parity.judging.rounding_bounds.estimates import Application, Estimate, Units
from cellbridge.parity.judging.rounding_bounds.rules import RULES
from cellbridge.runtime.ops.registry import evaluate, get

Array = np.ndarray[Any, Any]
UNITS = Units.of("float32")


def bounded(name: str, arrays: list[Array | None], **attributes: Any) -> tuple[list[Any], Array, Array]:
    """The operands in float32, the first result in float64, and its bound."""
    operands = [None if x is None else x.astype(np.float32).astype(np.float64) for x in arrays]
    outputs = evaluate(get(name), operands, attributes)
    estimates = [None if x is None else Estimate(x, np.zeros_like(x)) for x in operands]
    bounds = RULES[name](Application(get(name), estimates, attributes, outputs, UNITS))
    assert bounds is not None
    assert bounds[0] is not None
    given = [None if x is None else torch.from_numpy(x).float() for x in operands]
    return given, outputs[0], np.broadcast_to(bounds[0], outputs[0].shape)


def require_close(computed: torch.Tensor, value: Array, bound: Array, least: float = 0.0) -> None:
    """Require that errors are within twice the bounds, as random ones are, and that the bounds aren't too wide."""
    off = np.abs(computed.detach().double().numpy() - value) / bound
    assert least < off.max() <= 2


@pytest.mark.parametrize("size", [2, 7, 64, 97, 1000, 1009, 4096])
@pytest.mark.parametrize("signal", ["noise", "constant", "wave"])
def test_a_fourier_transform_is_within_its_bound(size: int, signal: str) -> None:
    time, random = np.arange(size), np.random.default_rng(size)
    x = {
        "noise": random.standard_normal((4, size, 2)),
        "constant": 1 + 1e-3 * random.standard_normal((4, size, 2)),
        "wave": np.stack([np.cos(0.3 * time), np.sin(0.3 * time)], -1)[None],
    }[signal]
    (given,), y, bound = bounded("dft", [x], axes=(1,), inverse=False, norm="none")
    transformed = torch.view_as_real(torch.fft.fft(torch.view_as_complex(given), dim=1))
    require_close(transformed, y, bound, least=1 / 30)
    assert bound.max() < 1e-5 * np.abs(y).max()
    in_half = torch.view_as_real(torch.fft.fft(torch.view_as_complex(given.half().float()), dim=1)).double().numpy()
    assert (np.abs(in_half - y) / bound).max() > 2 or np.array_equal(given.half().float(), given)


@pytest.mark.parametrize("size", [2, 16, 64])
def test_solutions_are_within_their_bounds(size: int) -> None:
    random = np.random.default_rng(size)
    matrix, right = random.standard_normal((4, size, size)), random.standard_normal((4, size, 3))
    (a, b), x, bound = bounded("solve", [matrix, right])
    require_close(torch.linalg.solve(a, b), x, bound, least=1e-2)
    _, inverse, bound = bounded("inverse", [matrix])
    require_close(torch.linalg.inv(a), inverse, bound, least=1e-2)
    (a, b), x, bound = bounded("solve_triangular", [matrix, right], upper=True, unitriangular=False)
    require_close(torch.linalg.solve_triangular(a, b, upper=True), x, bound)
    triangle = matrix + 2 * np.sqrt(size) * np.eye(size)  # well-conditioned, which a random triangle isn't
    (a, b), x, bound = bounded("solve_triangular", [triangle, right], upper=False, unitriangular=False)
    require_close(torch.linalg.solve_triangular(a, b, upper=False), x, bound, least=1e-1)


@pytest.mark.parametrize("size", [2, 16, 64])
def test_factors_determinants_and_eigenvalues_are_within_their_bounds(size: int) -> None:
    random = np.random.default_rng(size)
    matrix = random.standard_normal((4, size, size)) / np.sqrt(size)
    positive = matrix @ matrix.swapaxes(-1, -2) + 0.1 * np.eye(size)
    (a,), factor, bound = bounded("cholesky", [positive])
    require_close(torch.linalg.cholesky(a), factor, np.where(np.tri(size, dtype=bool), bound, 1), least=1e-2)
    (a,), value, bound = bounded("determinant", [matrix])
    require_close(torch.linalg.det(a), value, bound, least=1e-2)
    (a,), values, bound = bounded("eigh", [positive])
    require_close(torch.linalg.eigvalsh(a), values, bound, least=1e-2)
    assert bound.max() < 1e-4 * values.max()


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_a_long_sequence_is_within_its_bound(layer: str) -> None:
    torch.manual_seed(0)
    module = getattr(torch.nn, layer)(16, 32)
    x = torch.randn(40, 3, 16)
    states = [np.zeros((3, 32)) for _ in range(2 if layer == "LSTM" else 1)]
    weights = [parameter.detach().numpy() for parameter in module.parameters()]
    attributes = {"reverse": False} | ({"nonlinearity": "tanh"} if layer == "RNN" else {})
    absent = [None] * (2 if layer == "LSTM" else 1)
    _, ys, bound = bounded(layer.lower(), [x.numpy(), *states, *weights, *absent], **attributes)
    require_close(module(x)[0], ys, bound, least=0.1)
    assert bound.max() < 1e-5
    in_half = module.half()(x.half())[0].double()
    assert np.abs(in_half.detach().numpy() - ys).max() > 20 * bound.max()
