"""Warnings of a conversion, at the line of the person's code that asked for it."""

from __future__ import annotations

import sys
import warnings

from ..runtime.errors import ConversionWarning

PACKAGE = __name__.partition(".")[0]
PASSED_OVER = (PACKAGE, "contextlib")
"""Packages whose frames stand between a warning and the code that it is for."""


def warn(message: str) -> None:
    """Issue a `ConversionWarning` for the innermost line of code outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ConversionWarning, stacklevel=level)
