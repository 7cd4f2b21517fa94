"""Cases of resizing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.cases_pooling import torch_gradient

_rng = np.random.default_rng(0)


def torch_resize(x: torch.Tensor, *, size: Any, mode: str, align_corners: bool, scales: Any = None) -> torch.Tensor:
    """The ATen operator of that mode, which takes sizes and scales apart from each other."""
    rank = len(size)
    name = {
        "nearest": f"upsample_nearest{rank}d",
        "nearest-exact": f"_upsample_nearest_exact{rank}d",
        "linear": ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")[rank - 1],
        "bilinear": "upsample_bilinear2d",
        "bicubic": "upsample_bicubic2d",
    }[mode]
    corners = () if mode.startswith("nearest") else (align_corners,)
    operator: Any = getattr(torch.ops.aten, name).default
    return operator(x, list(size), *corners, *([None] * rank if scales is None else scales))


def _cases(
    name: str, shape: tuple[int, ...], size: tuple[int, ...], mode: str, align_corners: bool = False, scales: Any = None
) -> list[OpCase]:
    attributes: dict[str, Any] = {"mode": mode, "align_corners": align_corners, "scales": scales}

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch_resize(x, size=size, **attributes)

    x, g, old = _rng.standard_normal(shape), _rng.standard_normal((*shape[:2], *size)), shape[2:]
    name = f"{mode}-{name}"
    return [
        OpCase("resize", (x,), {"size": size, **attributes}, forward, name),
        OpCase("resize_gradient", (g,), {"size": old, **attributes}, torch_gradient(forward, old), name),
    ]


def _asymmetric_cases(name: str, shape: tuple[int, ...], size: tuple[int, int], mode: str) -> list[OpCase]:
    """Positions j * old / new, which ATen has only where it samples a grid."""
    attributes: dict[str, Any] = {"mode": mode, "half_pixel": False}

    def forward(x: torch.Tensor) -> torch.Tensor:
        lines = [
            torch.arange(new, dtype=x.dtype) * (old / new) * 2 / (old - 1) - 1
            for new, old in zip(size, x.shape[2:], strict=True)
        ]
        rows, columns = torch.meshgrid(*lines, indexing="ij")
        grid = torch.stack([columns, rows], dim=-1).expand(x.shape[0], -1, -1, -1)
        return torch.nn.functional.grid_sample(x, grid, mode, padding_mode="border", align_corners=True)

    x, g, old = _rng.standard_normal(shape), _rng.standard_normal((*shape[:2], *size)), shape[2:]
    name = f"{mode}-asymmetric-{name}"
    return [
        OpCase("resize", (x,), {"size": size, **attributes}, forward, name),
        OpCase("resize_gradient", (g,), {"size": old, **attributes}, torch_gradient(forward, old), name),
    ]


CASES = [
    *_cases("1d", (2, 3, 5), (8,), "nearest"),
    *_cases("doubled", (1, 2, 3, 4), (6, 8), "nearest"),
    *_cases("shrunk", (1, 2, 7, 10), (3, 6), "nearest"),
    *_cases("scaled", (1, 2, 5, 6), (7, 9), "nearest", scales=(1.5, 1.6)),
    *_cases("3d", (1, 2, 2, 3, 4), (4, 5, 3), "nearest"),
    *_cases("2d", (1, 2, 3, 7), (5, 4), "nearest-exact"),
    *_cases("1d", (2, 3, 5), (9,), "linear"),
    *_cases("1d-corners", (2, 3, 5), (9,), "linear", align_corners=True),
    *_cases("doubled", (1, 2, 3, 4), (6, 8), "bilinear", scales=(2.0, 2.0)),
    *_cases("doubled-corners", (1, 2, 3, 4), (6, 8), "bilinear", align_corners=True),
    *_cases("shrunk", (1, 2, 9, 7), (4, 5), "bilinear"),
    *_cases("to-one", (1, 2, 5, 4), (1, 1), "bilinear"),
    *_cases("to-one-corners", (1, 2, 5, 4), (1, 7), "bilinear", align_corners=True),
    *_cases("from-one", (1, 2, 1, 1), (3, 4), "bilinear"),
    *_cases("scaled", (1, 2, 5, 6), (7, 9), "bilinear", scales=(1.5, 1.6)),
    *_cases("scaled-on-one-axis", (1, 2, 5, 6), (7, 9), "bilinear", scales=(1.5, None)),
    *_cases("3d", (1, 2, 2, 3, 4), (4, 5, 3), "linear"),
    *_asymmetric_cases("grown", (1, 2, 3, 4), (7, 8), "bilinear"),
    *_asymmetric_cases("shrunk", (2, 1, 9, 7), (4, 5), "bilinear"),
    *_asymmetric_cases("grown", (1, 2, 4, 5), (7, 9), "bicubic"),
    *_cases("2d", (1, 2, 4, 5), (7, 9), "bicubic"),
    *_cases("corners", (1, 2, 4, 5), (7, 3), "bicubic", align_corners=True),
    *_cases("scaled", (1, 2, 5, 6), (7, 9), "bicubic", scales=(1.5, 1.6)),
    *_cases("little-more-than-once", (1, 2, 3, 4), (3, 4), "nearest-exact", scales=(1.3, 1.1)),
]
