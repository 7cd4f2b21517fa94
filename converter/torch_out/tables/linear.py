"""Matrix products and linear algebra."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F

from .. import functions
from ..table import Context, torch_form, torch_function

FUNCTIONS: dict[str, Any] = {
    "matmul": operator.matmul,
    "linear": F.linear,
    "inverse": torch.linalg.inv,
    "determinant": torch.linalg.det,
    "cholesky": torch.linalg.cholesky,
}
for _op, _function in FUNCTIONS.items():
    torch_function(_op, _function)


@torch_form("log_determinant")
def _(context: Context, x: Any) -> Any:
    result = context.call(torch.linalg.slogdet, x)
    return result[0], result[1]


@torch_form("solve")
def _(context: Context, a: Any, b: Any) -> Any:
    """torch takes a `b` of one axis less for vectors: with as many axes as `a` it is matrices."""
    second = context.inputs[1]
    assert second is not None
    if second.rank < context.x.rank:
        b = b[(None,) * (context.x.rank - second.rank)]
    return context.call(torch.linalg.solve, a, b)


torch_function("grouped_matmul", functions.grouped_matmul)
torch_function("grouped_outer", functions.grouped_outer)
