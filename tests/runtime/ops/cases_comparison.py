"""Cases of `comparison`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.cases_elementwise import WHOLE, Array, bools, integers, normal

COMPARISONS = {
    "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt,
    "greater_equal": torch.ge,
}  # fmt: skip
NEAR = np.array([0.0, -0.0, 1.0, 1.0, np.nan, np.nan, np.inf, -np.inf])
OTHER = np.array([-0.0, 0.0, 1.0, 2.0, np.nan, 1.0, np.inf, np.inf])
OPERANDS: dict[str, tuple[Array, Array]] = {
    "": (normal(3, 1, 4), np.round(normal(5, 4, seed=1))),
    "edges": (NEAR, OTHER),
    "int64": (WHOLE, integers(-9, 10, 4, seed=1)),
    "uint8": (integers(0, 5, 9, dtype=np.uint8), integers(0, 5, 9, seed=1, dtype=np.uint8)),
    "bool": (bools(8), bools(8, seed=1)),
}
SPECIAL = np.array([0.0, -1.5, np.nan, np.inf, -np.inf])
BITS = integers(-100, 100, 3, 4), integers(-100, 100, 4, seed=1)


def case(op: str, *operands: Array, judge: Any = None, name: str = "") -> OpCase:
    return OpCase(op, operands, torch=judge or getattr(torch, op), name=name, differentiable=False)


CASES = [
    *(case(op, *pair, judge=judge, name=name) for op, judge in COMPARISONS.items() for name, pair in OPERANDS.items()),
    *(case(op, SPECIAL) for op in ("isnan", "isinf", "isfinite")),
    *(case(op, bools(3, 4), bools(4, seed=1)) for op in ("logical_and", "logical_or", "logical_xor")),
    case("logical_not", bools(8)),
    *(case(op, *BITS) for op in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(case(op, bools(8), bools(8, seed=1), name="bool") for op in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    case("bitwise_not", BITS[0]),
    case("bitwise_not", bools(8), name="bool"),
    *(
        case(op, BITS[0].astype(dtype), integers(0, 9, 4).astype(dtype), judge=judge, name=np.dtype(dtype).name)
        for op, judge in (("left_shift", torch.bitwise_left_shift), ("right_shift", torch.bitwise_right_shift))
        for dtype in (np.int64, np.int32)
    ),
]
