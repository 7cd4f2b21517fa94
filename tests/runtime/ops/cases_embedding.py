"""Cases of lookup in a table."""

from __future__ import annotations

import numpy as np
from torch.nn import functional

from tests.runtime.ops.cases import OpCase

_TABLE = np.random.default_rng(0).standard_normal((5, 3))
_TOKENS = np.array([[0, 4, 4], [2, 4, 1]])

CASES = [
    OpCase("embedding", (_TABLE, _TOKENS), {}, lambda w, i: functional.embedding(i, w), "batch"),
    OpCase("embedding", (_TABLE, np.array(3)), {}, lambda w, i: functional.embedding(i, w), "one"),
    OpCase("embedding", (_TABLE, _TOKENS), {"padding_index": 4}, lambda w, i: functional.embedding(i, w, 4), "padding"),
]
