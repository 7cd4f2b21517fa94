"""`torch.cov` and `torch.corrcoef` in their parts: as a whole they look at values, which `torch.export` refuses."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class CovarianceInParts(TorchFunctionMode):
    """While a module is exported, covariances are computed by what ATen computes them with (Correlation.cpp)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _PARTS.get(func, func)(*args, **kwargs or {})


def _covariance(
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor"""
    observed = input.reshape(1, -1) if input.ndim < 2 else input
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    weighted = observed if weights is None else observed * weights
    total: Any = observed.shape[1] if weights is None else weights.sum()
    centered = observed - (weighted.sum(1) / total).unsqueeze(1)
    products = centered @ (centered if weights is None else centered * weights).mH
    taken: Any = correction
    if weights is not None and aweights is not None and correction:
        taken = correction * (weights * aweights).sum() / total
    free = total - taken
    least: Any = torch.sym_max  # of a size, which may be symbolic
    free = free.clamp(min=0) if isinstance(free, torch.Tensor) else least(free, 0)
    result: torch.Tensor = (products / free).squeeze()
    return result


def _correlation(input: torch.Tensor) -> torch.Tensor:
    """corrcoef(Tensor self) -> Tensor"""
    found = _covariance(input)
    if not found.ndim:
        return found / found
    diagonal = found.diagonal()
    deviations = (diagonal.real if found.is_complex() else diagonal).sqrt()
    found = found / deviations[:, None] / deviations
    if found.is_complex():
        return torch.complex(found.real.clip(-1, 1), found.imag.clip(-1, 1))
    return found.clip(-1, 1)


_PARTS = {
    torch.cov: _covariance,
    torch.Tensor.cov: _covariance,
    torch.corrcoef: _correlation,
    torch.Tensor.corrcoef: _correlation,
}
