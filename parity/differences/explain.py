"""Why a port may be wrong: the differences between the two APIs that apply to a pair of layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from .entry import Difference, Finding, Pair
from .table import FUNCTIONS, LAYER_TABLE, OPTIMIZER_TABLE


def explain(module: torch.nn.Module, cell: Any, inputs: Sequence[np.ndarray[Any, Any]] = ()) -> list[str]:
    """The differences that apply to a pair of layers, one line each, with the values of both sides.

    Args:
        module: of the reference.
        cell: its counterpart: a Cell of ours or of MindSpore.
        inputs: the tensors that `module` was called with first, in order; empty if it wasn't called.

    Returns:
        Lines for a reader: what changes the shape of the output first, else in the order of the table. Empty if no
        entry of it applies.
    """
    pair = Pair(module, cell, tuple(inputs))
    found = _findings(pair, (entry for family in LAYER_TABLE.values() for entry in family))
    found += [finding for function in FUNCTIONS for finding in function.find(pair)]
    return _lines(pair, found)


def explain_optimizer(reference: torch.optim.Optimizer, optimizer: Any) -> list[str]:
    """The differences between two optimizers, one line each, with the values of both sides.

    Args:
        reference: of torch.
        optimizer: its counterpart: an optimizer of ours or of MindSpore.

    Returns:
        Lines for a reader, in the order of the table; empty if both make the same steps.
    """
    pair = Pair(reference, optimizer)
    return _lines(pair, _findings(pair, OPTIMIZER_TABLE))


def _findings(pair: Pair, entries: Iterable[Difference]) -> list[Finding]:
    return [found for entry in entries if entry.concerns(pair) and (found := entry.find(pair)) is not None]


def _lines(pair: Pair, found: list[Finding]) -> list[str]:
    return [finding.line(pair.name) for finding in sorted(found, key=lambda finding: not finding.reshapes)]
