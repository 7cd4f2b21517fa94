"""Warnings of a conversion, at the line of the user's code that called it."""

from __future__ import annotations

import sys
import warnings

from ..runtime.errors import ConversionWarning

PACKAGE = __name__.partition(".")[0]
SKIPPED = (PACKAGE, "contextlib")
"""Packages whose frames are skipped to find the user's code."""


def warn(message: str) -> None:
    """Issue a `ConversionWarning` at the innermost line of code outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in SKIPPED:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ConversionWarning, stacklevel=level)
