"""Cases of the discrete Fourier transform and of the absolute value of complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_RNG = np.random.default_rng(21)
_NORMS = {"none": ("backward", "forward"), "root": ("ortho", "ortho"), "size": ("forward", "backward")}


def _pairs(*shape: int) -> Any:
    return _RNG.standard_normal((*shape, 2))


def _case(name: str, x: Any, axes: tuple[int, ...], inverse: bool = False, norm: str = "none") -> OpCase:
    def of_torch(pairs: torch.Tensor) -> torch.Tensor:
        at = [axis % pairs.ndim for axis in axes]
        numbers = torch.view_as_complex(pairs.contiguous()) if pairs.shape[-1] == 2 else pairs[..., 0] + 0j
        transform = torch.fft.ifftn if inverse else torch.fft.fftn
        return torch.view_as_real(transform(numbers, dim=at, norm=_NORMS[norm][inverse]))

    return OpCase("dft", (x,), {"axes": axes, "inverse": inverse, "norm": norm}, of_torch, name)


CASES = [
    _case("a power of two", _pairs(3, 8), (1,)),
    _case("a prime size", _pairs(2, 7, 3), (1,)),
    _case("an axis from the end", _pairs(2, 7, 3), (-2,), norm="root"),
    _case("one element", _pairs(2, 1), (1,), norm="size"),
    _case("several axes", _pairs(3, 4, 5), (0, 2), norm="root"),
    _case("back", _pairs(3, 6), (1,), inverse=True, norm="size"),
    _case("back, undivided", _pairs(3, 4), (0, 1), inverse=True),
    _case("of reals", _RNG.standard_normal((3, 12, 1)), (1,)),
    _case("of reals, back", _RNG.standard_normal((3, 12, 1)), (1, 0), inverse=True, norm="root"),
    OpCase(
        "magnitude",
        (np.array([3.0, -4.0, 0.25, -2.0]), np.array([[4.0], [-0.5]])),
        {},
        lambda a, b: torch.complex(*torch.broadcast_tensors(a, b)).abs(),
    ),
]
