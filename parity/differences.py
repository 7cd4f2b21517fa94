"""Why a port may be wrong: the differences between the two APIs that apply to a pair of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def explain(module: torch.nn.Module, cell: Any, inputs: Sequence[np.ndarray[Any, Any]]) -> list[str]:
    """The differences that apply to a pair of layers, one line each, with the values of both sides.

    Args:
        module: of the reference.
        cell: its counterpart.
        inputs: the tensors that `module` was called with first, in order; empty if it wasn't called.

    Returns:
        Lines for a reader, the most telling first; empty if none is known.
    """
    return []
