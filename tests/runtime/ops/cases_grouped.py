"""Cases of grouped matrix products."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_rng = np.random.default_rng(0)
_ENDS = {"groups": (2, 3, 7), "empty_groups": (0, 4, 4, 7), "rest": (1, 1, 5), "one_group": (7,)}


def _matmul(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    bounds = [0, *ends.tolist()]
    parts = [x[a:b] @ w for a, b, w in zip(bounds, bounds[1:], weight, strict=False)]
    return torch.cat([*parts, x[bounds[-1] :] @ weight[0] * 0])


def _outer(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    bounds = [0, *ends.tolist()]
    return torch.stack([a[s:e].T @ b[s:e] for s, e in pairwise(bounds)])


CASES = [
    case
    for name, ends in _ENDS.items()
    for case in (
        OpCase(
            "grouped_matmul",
            (_rng.standard_normal((7, 4)), _rng.standard_normal((len(ends), 4, 5)), np.array(ends, np.int32)),
            {},
            _matmul,
            name,
        ),
        OpCase(
            "grouped_outer",
            (_rng.standard_normal((7, 4)), _rng.standard_normal((7, 5)), np.array(ends)),
            {},
            _outer,
            name,
        ),
    )
]
