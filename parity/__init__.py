"""Run both sides of a network, judge Cell by Cell, report; the command line and the pytest plugin.

Importing this package is cheap: torch and ONNX Runtime load with the first function that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .results import CellReport, Comparison, Report

if TYPE_CHECKING:
    from .assertions import assert_parity
    from .engine import check, compare

_HOMES = {"assert_parity": "assertions", "check": "engine", "compare": "engine"}

__all__ = ["CellReport", "Comparison", "Report", "assert_parity", "check", "compare"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
