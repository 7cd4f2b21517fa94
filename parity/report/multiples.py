"""Errors as multiples of the reference's own, as the terminal and the page write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..results.comparison import FAIL, NOT_COMPARED, NOT_KNOWN, PASS, REFERENCE_WRONG, Comparison, worst_ratio
from .layout import Piece


def worst_in_words(comparisons: Sequence[Comparison]) -> Piece:
    """Return the largest error, with `≠ ` where it isn't rounding, and a style; empty if nothing was compared."""
    if not comparisons:
        return "", ""
    failed = [c for c in comparisons if c.status != PASS]
    if failed and all(c.status == NOT_COMPARED for c in failed):
        return "?", "bold red"
    if failed and all(c.status == NOT_KNOWN for c in failed):
        return "?", "bold yellow"
    ratio, is_different = worst_ratio(comparisons), any(differs_in_meaning(c) for c in failed)
    if is_different and not math.isfinite(ratio):
        return "≠", "red"  # a gradient that one side lacks, or infinity, is no multiple of anything
    return ("≠ " if is_different else "") + times(ratio), "red" if failed else ""


def differs_in_meaning(c: Comparison) -> bool:
    """Whether it fails for a reason other than rounding."""
    return c.status in (FAIL, REFERENCE_WRONG) and (c.check == "meaning" or c.index is None)


def times(ratio: float) -> str:
    """Format a ratio in at most five characters: `1.3×`, `41×`, `3e5×`."""
    if not math.isfinite(ratio):
        return "inf×"
    if ratio == 0:
        return "0×"
    if ratio < 9.95:
        return f"{ratio:.1f}×"
    if ratio < 999.5:
        return f"{ratio:.0f}×"
    mantissa, exponent = f"{ratio:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}×"
