"""Which Cells are wrong themselves, of two networks that ran end to end on values of their own.

A Cell is wrong itself if what it computes differs although all that it computes it from agrees: its inputs, and what
the Cells that it called returned; backward, the gradients that arrived, too. What agrees up to rounding may still bring
the error of another Cell, which shows where roundings average out. So a value that depends on a Cell that is wrong
counts as affected, unless it differs by far more than what it is computed from.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ...results.comparison import PASS, Comparison
from ...sides.records import Key, Records
from .sources import Sources

EQUAL_INPUTS, END_TO_END = "equal inputs", "end to end"
AGREES = 3.0
"""Units of the reference's rounding error up to which a value surely agrees; beyond, it may differ already."""
CLEAR, AMPLIFIED = 10.0, 1e4
"""By how many times more units than what it is computed from a value differs where its Cell is wrong: if all of that
agrees, and if it doesn't, or depends on a Cell that is wrong. Where terms cancel, a difference comes out as more units.
"""


def attribute(
    comparisons: Iterable[tuple[str, Comparison]], whole: Records, compared: Records, detached: Collection[Key]
) -> Iterator[tuple[str, Comparison]]:
    """Yield the comparisons as of "equal inputs" where they judge the Cell itself, and else as "end to end".

    Args:
        comparisons: the comparisons, by path of the Cell.
        whole: the reference's records.
        compared: those of them that were compared.
        detached: boundaries of gradients of the reference that the other side doesn't compute.
    """
    attribution = _Attribution(Sources(whole, compared.values.keys() | detached))
    attribution.affected.update(detached)
    attribution.ratios.update(dict.fromkeys(detached, math.inf))
    at_boundaries: dict[Key, list[tuple[str, Comparison]]] = {key: [] for key in whole.values}
    others: list[tuple[str, Comparison]] = []
    for path, c in comparisons:
        key = attribution.sources.key(path, c)
        (others if key is None else at_boundaries[key]).append((path, c))
    # in the order of the run, in which a value comes after those that it is computed from
    for path, c in [*(pair for several in at_boundaries.values() for pair in several), *others]:
        yield path, replace(c, feeding=EQUAL_INPUTS if attribution.is_own(path, c) else END_TO_END)


@dataclass
class _Attribution:
    """What is known of the values so far."""

    sources: Sources
    ratios: dict[Key, float] = field(default_factory=dict)
    affected: set[Key] = field(default_factory=set)  # values of a Cell that is wrong, and what depends on them

    def is_own(self, path: str, c: Comparison) -> bool:
        """Whether a comparison judges the Cell itself; of a later value than all before."""
        before = self.sources.of(path, c)
        largest = max((self.ratios.get(source, 0.0) for source in before), default=0.0)
        agrees, depends = largest <= AGREES, not self.affected.isdisjoint(before)
        is_number = c.status == PASS or c.index is not None
        own = agrees
        if c.status != PASS and is_number:
            own = c.ratio >= (CLEAR if agrees and not depends else AMPLIFIED) * max(1.0, largest)
        key = self.sources.key(path, c)
        if key is not None:
            self.ratios[key] = max(self.ratios.get(key, 0.0), c.ratio if is_number else math.inf)
            if depends or (own and c.status != PASS):
                self.affected.add(key)
        return own
