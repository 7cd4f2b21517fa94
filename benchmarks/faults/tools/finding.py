"""`Finding`: what a tool says of a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """What a tool says of a pair.

    Attributes:
        found: it says that the two differ.
        accused: the Cells that it calls wrong; None if it doesn't say.
        causes: by Cell, the causes that it names, the most likely first: objects with the attributes `kind`,
            `summary`, `attribute`, `reference_value` and `candidate_value`.
        texts: by Cell, sentences on the cause.
        error: what stopped it; empty if it came to a verdict.
        said: its own words, for the list of what went wrong.
    """

    found: bool
    accused: frozenset[str] | None = None
    causes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    error: str = ""
    said: str = ""
