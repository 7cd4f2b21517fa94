"""Models in, models out: torch modules become programs, programs become ONNX models.

Importing this package is cheap: torch and onnx load with the first function that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capture.export import from_torch
    from .onnx_out.export import to_onnx

_HOMES = {"from_torch": "capture.export", "to_onnx": "onnx_out.export"}

__all__ = ["from_torch", "to_onnx"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
