"""`Conversion`: the result of the conversion of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .naming import Drop
from .transfer import Link


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Attributes:
        back: whether it was to torch.
        links: one link for each of torch's parameters.
        shapes: shapes by name on both sides, torch's first.
        drops: parameters without a counterpart.
        notes: remarks for the user.
        other: the framework of the parameters that aren't torch's, or its networks, or "the port".
    """

    back: bool
    links: tuple[Link, ...]
    shapes: tuple[Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]
    drops: tuple[Drop, ...]
    notes: tuple[str, ...]
    other: str = "Cells"
