"""Special functions, and the mantissa and exponent of floating-point numbers."""

from __future__ import annotations

from typing import Any

import torch

from .table import Context, torch_form, torch_function

FUNCTIONS: dict[str, Any] = {
    "airy_ai": torch.special.airy_ai,
    "bessel_j0": torch.special.bessel_j0,
    "bessel_j1": torch.special.bessel_j1,
    "bessel_y0": torch.special.bessel_y0,
    "bessel_y1": torch.special.bessel_y1,
    "entr": torch.special.entr,
    "erfcx": torch.special.erfcx,
    "i0": torch.special.i0,
    "i0e": torch.special.i0e,
    "i1": torch.special.i1,
    "i1e": torch.special.i1e,
    "igamma": torch.special.gammainc,
    "igammac": torch.special.gammaincc,
    "log_ndtr": torch.special.log_ndtr,
    "modified_bessel_k0": torch.special.modified_bessel_k0,
    "modified_bessel_k1": torch.special.modified_bessel_k1,
    "ndtri": torch.special.ndtri,
    "nextafter": torch.nextafter,
    "scaled_modified_bessel_k0": torch.special.scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": torch.special.scaled_modified_bessel_k1,
    "signbit": torch.signbit,
    "spherical_bessel_j0": torch.special.spherical_bessel_j0,
    "zeta": torch.special.zeta,
}
for _op, _function in FUNCTIONS.items():
    torch_function(_op, _function)


@torch_form("frexp")
def _(context: Context, x: Any) -> Any:
    result = context.call(torch.frexp, x)
    return result[0], result[1]


@torch_form("searchsorted")
def _(context: Context, boundaries: Any, x: Any, *, right: bool) -> Any:
    return context.call(torch.searchsorted, boundaries, x, right=right)
