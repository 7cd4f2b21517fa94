"""`ErrorMap`: where in a tensor it is wrong, in the little space of a picture."""

from __future__ import annotations

from dataclasses import dataclass

LIMITS = (0.0, 0.01, 0.1, 1.0, 10.0, 1e3, 1e6)
"""Upper limits of the intervals of the histogram, in units of the bar; the last interval has none."""

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Plane:
    """The largest errors along two axes, over all others, in tiles.

    Attributes:
        axes: the axis of the rows and that of the columns; a tensor of one axis has (0, 0) and one row.
        sizes: the tensor's sizes along both.
        tiles: the largest error in each tile, in units of the bar; equal parts of each axis, as far as they go.
    """

    axes: tuple[int, int]
    sizes: tuple[int, int]
    tiles: Rows


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """Where a tensor is wrong.

    Attributes:
        counts: number of elements whose error is in each interval of `LIMITS`.
        planes: one for each pair of the largest axes.
        corner: index of the first element of the window around the worst element, along the last two axes.
        reference_values: the values of the reference in this window.
        candidate_values: the values of the other side.
    """

    counts: tuple[int, ...]
    planes: tuple[Plane, ...]
    corner: tuple[int, int]
    reference_values: Rows
    candidate_values: Rows
