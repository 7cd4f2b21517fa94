"""Cell IR, its ops, autodiff and the interpreter; needs no torch."""

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
