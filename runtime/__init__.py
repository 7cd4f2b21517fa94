"""Cell IR, its ops, autodiff and the interpreter; needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazily

if TYPE_CHECKING:
    from . import ops
    from .calling import Gradients
    from .errors import (
        CellbridgeError,
        ConversionError,
        ParityError,
        ProgramError,
        ShapeError,
        UnsupportedOperators,
        UsageError,
    )
    from .interpreter import execute
    from .ir.program import Program
    from .ir.verify import verify
    from .saving import load

__all__ = [
    "CellbridgeError",
    "ConversionError",
    "Gradients",
    "ParityError",
    "Program",
    "ProgramError",
    "ShapeError",
    "UnsupportedOperators",
    "UsageError",
    "execute",
    "load",
    "ops",
    "verify",
]

__getattr__ = lazily(
    __name__,
    {
        "CellbridgeError": "errors",
        "ConversionError": "errors",
        "Gradients": "calling",
        "ParityError": "errors",
        "Program": "ir.program",
        "ProgramError": "errors",
        "ShapeError": "errors",
        "UnsupportedOperators": "errors",
        "UsageError": "errors",
        "execute": "interpreter",
        "load": "saving",
        "ops": "",
        "verify": "ir.verify",
    },
)
