"""The tables of ONNX operators, one module per family."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Fill the table: import every module of this package."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
