"""Operators that read values or sizes to choose an algorithm, which `torch.export` refuses or makes constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.overrides import TorchFunctionMode

_BY_SIZE = "use_mm_for_euclid_dist_if_necessary"


class AvoidDataDependence(TorchFunctionMode):
    """While a module is exported, replace operators that read values by equivalents that don't."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _REPLACEMENTS.get(func, func)(*args, **kwargs or {})


def _chunks(input: Any, chunks: int, dim: int = 0) -> Any:
    """chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]

    A symbolic size that is a multiple of `chunks` (twice the batch, in two) has that many chunks of equal size.
    """
    size: Any = input.shape[dim]
    if isinstance(size, torch.SymInt) and statically_known_true(size % chunks == 0):
        return input.split([size // chunks] * chunks, dim)
    return input.chunk(chunks, dim)


def _parts(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]

    A size that is a known multiple of a symbolic `split_size` has that many parts of equal size.
    """
    size: Any = tensor.shape[dim]
    part = split_size_or_sections
    if isinstance(part, torch.SymInt) and statically_known_true(size % part == 0):
        count = (size // part).node.maybe_as_int()
        if count is not None:
            return tensor.split([part] * count, dim)
    return tensor.split(part, dim)


def _fill_diagonal(input: torch.Tensor, fill_value: Any, wrap: bool = False) -> torch.Tensor:
    """fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)"""
    if input.ndim != 2 or wrap:
        return input.fill_diagonal_(fill_value, wrap)
    input.diagonal().fill_(fill_value)
    return input


def _distances(x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: str = _BY_SIZE) -> torch.Tensor:
    """cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor

    Above 25 points, ATen computes Euclidean distances by a matrix product, which is faster and less precise.
    """
    symbolic = any(isinstance(x.shape[-2], torch.SymInt) for x in (x1, x2))
    mode = "donot_use_mm_for_euclid_dist" if symbolic and compute_mode == _BY_SIZE else compute_mode
    return torch.cdist(x1, x2, p, mode)


def _covariance(
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor: Correlation.cpp"""
    samples = input.reshape(1, -1) if input.ndim < 2 else input
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    weighted = samples if weights is None else samples * weights
    total: Any = samples.shape[1] if weights is None else weights.sum()
    centered = samples - (weighted.sum(1) / total).unsqueeze(1)
    products = centered @ (centered if weights is None else centered * weights).mH
    bias: Any = correction
    if weights is not None and aweights is not None and correction:
        bias = correction * (weights * aweights).sum() / total
    degrees = total - bias
    maximum: Any = torch.sym_max  # the size may be symbolic
    degrees = degrees.clamp(min=0) if isinstance(degrees, torch.Tensor) else maximum(degrees, 0)
    result: torch.Tensor = (products / degrees).squeeze()
    return result


def _correlation(input: torch.Tensor) -> torch.Tensor:
    """corrcoef(Tensor self) -> Tensor: ATen's Correlation.cpp"""
    covariance = _covariance(input)
    if not covariance.ndim:
        return covariance / covariance
    diagonal = covariance.diagonal()
    deviations = (diagonal.real if covariance.is_complex() else diagonal).sqrt()
    result = covariance / deviations[:, None] / deviations
    if result.is_complex():
        return torch.complex(result.real.clip(-1, 1), result.imag.clip(-1, 1))
    return result.clip(-1, 1)


_REPLACEMENTS: dict[Any, Callable[..., Any]] = {
    torch.chunk: _chunks,
    torch.Tensor.chunk: _chunks,
    torch.split: _parts,
    torch.Tensor.split: lambda self, split_size, dim=0: _parts(self, split_size, dim),
    torch.Tensor.fill_diagonal_: _fill_diagonal,
    torch.cdist: _distances,
    torch.cov: _covariance,
    torch.Tensor.cov: _covariance,
    torch.corrcoef: _correlation,
    torch.Tensor.corrcoef: _correlation,
}
