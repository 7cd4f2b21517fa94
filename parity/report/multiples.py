"""Errors as multiples of the reference's own, as the terminal and the page write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..results.comparison import (
    FAIL,
    NOT_COMPARED,
    NOT_KNOWN,
    PASS,
    REFERENCE_WRONG,
    Comparison,
    times,
    worst_ratio,
)
from .layout import Piece

DOUBLE = "what double precision allows"
"""The unit of errors where both sides are compared in float64 alone."""
NOT_ROUNDING = (
    "≠ isn't rounding: it differs in float64 too, or in shape, or is missing; the number only says how large the "
    "difference is."
)


def worst_in_words(comparisons: Sequence[Comparison]) -> Piece:
    """Return the largest error, with `≠ ` where it isn't rounding, and a style; empty if nothing was compared.

    The number is in the unit of `legend` in both cases. Behind `≠` it says how large the difference is, not whether it
    passes.
    """
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


def rounding_of(reference: str) -> str:
    """Return the unit of errors in the working dtype, in words."""
    return f"{'the reference' if reference == 'reference' else reference}'s own rounding error"


def legend(comparisons: Iterable[Comparison], reference: str, tolerance: str) -> str:
    """Return in words what `1.0×` is, and what `≠` means where it occurs."""
    compared = list(comparisons)
    in_double = all(c.check == "meaning" for c in compared)
    unit = tolerance or (DOUBLE if in_double else f"{rounding_of(reference)}, measured against float64")
    return f"1.0× is {unit}." + f" {NOT_ROUNDING}" * any(differs_in_meaning(c) for c in compared)
