"""Possible causes of a port's failures: the differences between the two APIs that apply to a pair of layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from .entry import Difference, Finding, LayerPair
from .table import FUNCTIONS, LAYER_TABLE, OPTIMIZER_TABLE


def explain(module: torch.nn.Module, cell: Any, inputs: Sequence[np.ndarray[Any, Any]] = ()) -> list[str]:
    """Return the differences that apply to a pair of layers, one line each, with the values of both sides.

    Args:
        module: the reference's layer.
        cell: its counterpart, a Cell of the runtime or of MindSpore.
        inputs: the tensors of the first call of `module`, in order; empty if it wasn't called.

    Returns:
        Lines for a reader: those that change the shape of the output first, else in the order of the table. Empty if no
        entry applies.
    """
    pair = LayerPair(module, cell, tuple(inputs))
    findings = _findings(pair, (entry for family in LAYER_TABLE.values() for entry in family))
    findings += [finding for function in FUNCTIONS for finding in function.find(pair)]
    return _lines(pair, findings)


def explain_optimizer(reference: torch.optim.Optimizer, optimizer: Any) -> list[str]:
    """Return the differences between two optimizers, one line each, with the values of both sides.

    Args:
        reference: torch's optimizer.
        optimizer: its counterpart, an optimizer of the runtime or of MindSpore.

    Returns:
        Lines for a reader, in the order of the table; empty if both make the same steps.
    """
    pair = LayerPair(reference, optimizer)
    return _lines(pair, _findings(pair, OPTIMIZER_TABLE))


def _findings(pair: LayerPair, entries: Iterable[Difference]) -> list[Finding]:
    return [finding for entry in entries if entry.concerns(pair) and (finding := entry.find(pair)) is not None]


def _lines(pair: LayerPair, findings: list[Finding]) -> list[str]:
    return [finding.line(pair.name) for finding in sorted(findings, key=lambda finding: not finding.reshapes)]
