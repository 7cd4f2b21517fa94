"""What is wrong in a checkpoint, or looks so: a file for each kind of evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..derivation import Derivation
from .exchanges import exchanges
from .finding import RANKS, Finding
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
)


def findings(derivation: Derivation) -> list[Finding]:
    """Return what is wrong, or looks so, the worst first."""
    every = [finding for finder in FINDERS for finding in finder(derivation)]
    return sorted(every, key=lambda finding: RANKS.index(finding.rank))
