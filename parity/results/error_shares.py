"""`ErrorShares`: how much each Cell contributes to the error of a whole network, to first order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .comparison import json_value


@dataclass(frozen=True)
class ErrorShares:
    """The error of a scalar at the end of the network, and the share of it that each Cell's own error explains.

    The scalar is the sum of all outputs times their cotangents: with a loss, the loss to first order in the outputs;
    otherwise the cotangents are random. A Cell's share is the inner product of its own error, isolated, with the
    gradient of the scalar with respect to what it returns and passes to the Cells inside it.

    Attributes:
        side: the side that fails.
        check: the check in which errors were taken: "meaning" (in float64), or another for a side without it.
        loss: whether the cotangents are the gradient of a loss.
        total: the scalar, end to end, minus that of the float64 truth.
        cells: the shares by path; a Cell without an entry has none.
        end_to_end: by path, in the order in which Cells first return, the largest error of a Cell's outputs end to end,
            relative to the largest element of the tensor; empty if it wasn't recorded.
    """

    side: str
    check: str
    loss: bool
    total: float
    cells: dict[str, float]
    end_to_end: dict[str, float] = field(default_factory=dict)

    @property
    def unexplained(self) -> float:
        """What the shares leave of the error: effects of higher order, and errors where no gradient is known."""
        return self.total - sum(self.cells.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "side": self.side,
            "check": self.check,
            "loss": self.loss,
            "total": json_value(self.total),
            "unexplained": json_value(self.unexplained),
            "cells": {path: json_value(share) for path, share in self.cells.items()},
            "end_to_end": {path: json_value(error) for path, error in self.end_to_end.items()},
        }
