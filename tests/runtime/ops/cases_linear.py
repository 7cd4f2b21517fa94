"""Cases of matrix products."""

from __future__ import annotations

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_rng = np.random.default_rng(0)


def _random(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape)


CASES = (
    [
        OpCase("matmul", (_random(*a), _random(*b)), {}, torch.matmul, name)
        for name, a, b in [
            ("matrices", (3, 4), (4, 5)),
            ("batch", (2, 3, 4), (2, 4, 5)),
            ("batch_by_matrix", (2, 3, 4), (4, 5)),
            ("matrix_by_batch", (3, 4), (2, 4, 5)),
            ("broadcast", (2, 1, 3, 4), (5, 4, 2)),
            ("vectors", (4,), (4,)),
            ("vector_by_matrix", (4,), (4, 5)),
            ("matrix_by_vector", (3, 4), (4,)),
            ("vector_by_batch", (4,), (2, 4, 5)),
            ("batch_by_vector", (2, 3, 4), (4,)),
        ]
    ]
    + [
        OpCase("linear", (_random(*x), _random(5, 4), bias), {}, torch.nn.functional.linear, name)
        for name, x, bias in [
            ("matrix", (3, 4), _random(5)),
            ("matrix_no_bias", (3, 4), None),
            ("batch", (2, 3, 4), _random(5)),
            ("batch_no_bias", (2, 3, 4), None),
            ("vector", (4,), _random(5)),
        ]
    ]
    + [
        OpCase("linear", (_random(2, 3, 4), _random(4), _random()), {}, torch.nn.functional.linear, "vector_weight"),
        OpCase(
            "matmul", (_rng.integers(-5, 6, (3, 4)), _rng.integers(-5, 6, (4, 2))), {}, torch.matmul, "integers", False
        ),
    ]
)
