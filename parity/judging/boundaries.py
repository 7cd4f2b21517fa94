"""The boundary that a comparison is about."""

from __future__ import annotations

from collections.abc import Iterable

from ..results.comparison import Comparison
from ..sides.records import INPUT, OUTPUT, Key

OUTPUTS = ("output", "passed value")
"""The kinds of comparisons of what a Cell computes forward."""


def boundary_of(path: str, c: Comparison, keys: Iterable[Key]) -> Key | None:
    """Return the boundary of a Cell's output or passed value, if it is among these."""
    if c.kind == "output":
        return next((key for key in keys if key == (path, c.call, OUTPUT, c.tensor)), None)
    passed = (key for key in keys if key.kind == INPUT and key.call == c.call)
    return next((key for key in passed if f"{key.path} {key.slot}" == c.tensor), None)
