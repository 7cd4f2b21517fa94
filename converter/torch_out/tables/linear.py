"""Matrix products and linear algebra."""

from __future__ import annotations

import operator
from typing import Any

import torch.nn.functional as F

from ..calls import functions
from .table import torch_function

FUNCTIONS: dict[str, Any] = {
    "matmul": operator.matmul,
    "linear": F.linear,
}
for _op, _function in FUNCTIONS.items():
    torch_function(_op, _function)


torch_function("grouped_matmul", functions.grouped_matmul)
torch_function("grouped_outer", functions.grouped_outer)
