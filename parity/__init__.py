"""Run both sides of a network, judge Cell by Cell, report; the command line and the pytest plugin.

Importing this package is cheap: torch and ONNX Runtime load with the first function that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazily

if TYPE_CHECKING:
    from .assertions import assert_parity
    from .engine import check, compare
    from .results import CellReport, Comparison, Report

__all__ = ["CellReport", "Comparison", "Report", "assert_parity", "check", "compare"]

__getattr__ = lazily(
    __name__,
    {
        "CellReport": "results",
        "Comparison": "results",
        "Report": "results",
        "assert_parity": "assertions",
        "check": "engine",
        "compare": "engine",
    },
)
