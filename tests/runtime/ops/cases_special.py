"""Cases of the special functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_SHARES = np.array([[-0.99, -0.5, -0.1, 0.0], [1e-3, 0.3, 0.7, 0.95]])
_PROBABILITIES = np.array([[0.004, 0.01, 0.2, 0.5], [0.6, 0.9, 0.97, 0.999]])
_POSITIVE = np.array([[0.1, 0.5, 1.0, 1.5], [2.5, 7.25, 12.0, 40.0]])
_NEGATIVE = np.array([-0.25, -1.5, -4.75])
_EACH = np.array([[-12.5, -6.0, -2.5, -0.3], [0.2, 1.75, 4.5, 21.0]])
_SHAPES = np.array([[0.5, 1.0, 3.0, 12.0], [0.2, 2.5, 30.0, 100.0]])
_BOUNDS = np.array([[0.7, 0.2, 4.5, 9.0], [3.0, 2.5, 45.0, 60.0]])  # where torch is right to ten digits
_BESSEL: dict[str, Callable[..., Any]] = {
    "bessel_j0": torch.special.bessel_j0,
    "bessel_j1": torch.special.bessel_j1,
    "spherical_bessel_j0": torch.special.spherical_bessel_j0,
    "airy_ai": torch.special.airy_ai,
}
_BESSEL_ABOVE_ZERO: dict[str, Callable[..., Any]] = {
    "bessel_y0": torch.special.bessel_y0,
    "bessel_y1": torch.special.bessel_y1,
    "modified_bessel_k0": torch.special.modified_bessel_k0,
    "modified_bessel_k1": torch.special.modified_bessel_k1,
    "scaled_modified_bessel_k0": torch.special.scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": torch.special.scaled_modified_bessel_k1,
}


def _zeta_two(x: torch.Tensor) -> torch.Tensor:
    return torch.special.zeta(torch.tensor(2, dtype=x.dtype), x)


CASES = [
    OpCase("erfinv", (_SHARES,), {}, torch.erfinv),
    OpCase("erfcx", (_EACH,), {}, torch.special.erfcx),
    OpCase("ndtri", (_PROBABILITIES,), {}, torch.special.ndtri),
    OpCase("log_ndtr", (_EACH,), {}, torch.special.log_ndtr),
    OpCase("entr", (_POSITIVE,), {}, torch.special.entr),
    OpCase("lgamma", (_POSITIVE,), {}, torch.lgamma),
    OpCase("lgamma", (_NEGATIVE,), {}, torch.lgamma, "negative"),
    # torch's trigamma is right to nine digits only: zeta, and differences, judge it and the gradient of digamma
    OpCase("polygamma", (_POSITIVE,), {"order": 0}, torch.digamma, "digamma", False),
    OpCase("polygamma", (_NEGATIVE,), {"order": 0}, torch.digamma, "digamma_negative", False),
    OpCase("polygamma", (_POSITIVE,), {"order": 0}, None, "digamma_gradient"),
    OpCase("polygamma", (_NEGATIVE,), {"order": 0}, None, "digamma_gradient_negative"),
    OpCase("polygamma", (_POSITIVE,), {"order": 1}, _zeta_two, "trigamma"),
    OpCase("polygamma", (_POSITIVE,), {"order": 3}, lambda x: torch.polygamma(3, x), "third"),
    OpCase("polygamma", (_NEGATIVE,), {"order": 2}, lambda x: torch.polygamma(2, x), "second_negative"),
    OpCase("zeta", (_SHAPES + 1.1, _POSITIVE), {}, torch.special.zeta, undifferentiated=(0,)),
    OpCase("zeta", (np.array([2.0, 3.0]), _NEGATIVE[:2]), {}, torch.special.zeta, "negative", undifferentiated=(0,)),
    OpCase("igamma", (_SHAPES, _BOUNDS), {}, torch.igamma, undifferentiated=(0,)),
    OpCase("igammac", (_SHAPES, _BOUNDS), {}, torch.igammac, undifferentiated=(0,)),
    OpCase("i0", (_EACH,), {}, torch.i0),
    OpCase("i0e", (_EACH,), {}, torch.special.i0e),
    OpCase("i1", (_EACH,), {}, torch.special.i1),
    OpCase("i1e", (_EACH,), {}, torch.special.i1e),
    *(OpCase(name, (_EACH,), {}, function, differentiable=False) for name, function in _BESSEL.items()),
    *(OpCase(name, (_POSITIVE,), {}, function, differentiable=False) for name, function in _BESSEL_ABOVE_ZERO.items()),
    *(OpCase(name, (_EACH,), {}, None, "gradient") for name in _BESSEL if name != "airy_ai"),
    *(OpCase(name, (_POSITIVE,), {}, None, "gradient") for name in _BESSEL_ABOVE_ZERO),
]
