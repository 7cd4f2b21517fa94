"""Values that the candidate detaches, so that no gradient passes, where the reference's network passes one."""

from __future__ import annotations

from collections.abc import Iterator

from ...results.comparison import FAIL, Comparison
from ...sides.records import INPUT, OUTPUT, Key, Records, gradient_key
from .sources import Sources

DETACHED = "it is detached in the candidate: no gradient passes through it, and one does in the reference"


def missing_gradients(truth: Records, records: Records) -> set[Key]:
    """Return the boundaries of the reference's gradients that the candidate doesn't compute, by its own account."""
    values = (key for key in records.boundaries.untracked if key in truth.values)
    return {gradient_key(key) for key in values if gradient_key(key) in truth.values} - records.values.keys()


def detachments(
    side: str, check: str, feeding: str, truth: Records, missing: set[Key]
) -> Iterator[tuple[str, Comparison]]:
    """Yield a failure, with the path of its Cell, where a value is detached that is computed from others that aren't.

    Args:
        side: name of the candidate.
        check: "meaning" or "rounding".
        feeding: the feeding of the comparisons that judge a Cell itself.
        truth: the reference's records.
        missing: the boundaries of the gradients that the candidate lacks.
    """
    untracked = {key for key in truth.values if key.kind in (INPUT, OUTPUT) and gradient_key(key) in missing}
    sources = Sources(truth, truth.values.keys())
    for key in untracked:
        call = sources.computing(key)
        if call is None or not untracked.isdisjoint(sources.before(key)):
            continue
        kind = "output" if key.kind == OUTPUT else "passed value"
        name = key.slot if key.kind == OUTPUT else f"{key.path} {key.slot}"
        yield call.path, Comparison(side, check, feeding, kind, name, key.call, FAIL, DETACHED)
