"""What is wrong in a checkpoint, or looks so: a file for each kind of evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..derivation import Derivation
from .by_map import unlike_the_map
from .exchanges import exchanges
from .finding import RANKS, WRONG, Finding
from .kinds import unlike_their_kind
from .layers import layers
from .missing import missing
from .numbers import numbers
from .rows import rows
from .unknown import unknown

FINDERS: tuple[Callable[[Derivation], Iterator[Finding]], ...] = (
    numbers,
    unknown,
    missing,
    exchanges,
    layers,
    unlike_their_kind,
    rows,
    unlike_the_map,
)


@np.errstate(all="ignore")  # a file may hold any numbers
def findings(derivation: Derivation) -> list[Finding]:
    """Return what is wrong, or looks so, the worst first; of several findings on the same tensors, the first.

    What a map says is meant: of tensors that are as it says, only the values are judged.
    """
    every: list[Finding] = []
    explained: set[str] = set()
    meant = {name for name in derivation.stated if derivation.is_as_stated(name)} | derivation.dropped
    for finder in FINDERS:
        of_finder = [f for f in finder(derivation) if f.rank != WRONG or not explained.issuperset(f.tensors)]
        if finder is not numbers:
            of_finder = [f for f in of_finder if not all(map(meant.__contains__, f.tensors))]
        explained |= {name for f in of_finder if f.rank == WRONG for name in f.tensors}
        every += of_finder
    return ranked(every)


def ranked(every: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of their ranks, the worst first."""
    return sorted(every, key=lambda finding: RANKS.index(finding.rank))
