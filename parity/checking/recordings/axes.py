"""Which axis of a recorded tensor holds the channels: the second, as in torch, or the last, as in JAX.

Shapes show it, unless all axes but the first are equally long, as in maps of 8 x 8 with 8 channels. Then the values
decide; where they agree in neither order, the other tensors of the network do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...sides.records import Array
from .views import WHOLE, View

Place = tuple[str, str]
"""The path of one of the reference's Cells, and whether it is its input or its output."""
CLEARLY = 0.1
"""How much closer the values must be in one order than in the other: a fault in a Cell shifts them a little."""


@dataclass(frozen=True)
class Pair:
    """A tensor at a boundary of both networks.

    Attributes:
        own: the reference's.
        shape: the shape of the one that was recorded.
        value: returns its values; None if they weren't recorded.
    """

    own: Array
    shape: tuple[int, ...]
    value: Callable[[], Array | None]

    @property
    def last(self) -> View:
        """The view of a tensor whose channels are last."""
        rank = self.own.ndim
        return View((), (0, rank - 1, *range(1, rank - 1)))

    def by_shape(self) -> list[View]:
        """The orders of axes that the shapes allow: one or two of them for tensors of three and more axes."""
        views = [WHOLE] if self.own.shape == self.shape else []
        if len(self.shape) == self.own.ndim >= 3:
            views += [self.last] if tuple(self.shape[axis] for axis in self.last.transpose) == self.own.shape else []
        return views

    def by_values(self) -> View | None:
        """The order in which the values agree; None if they agree in both or in neither."""
        value = self.value()
        if value is None or value.shape != self.own.shape:
            return None
        own, other = self.own.astype(np.float64), value.astype(np.float64)
        as_it_is, last = (float(np.linalg.norm(own - view.of(other, ""))) for view in (WHOLE, self.last))
        if as_it_is < CLEARLY * last:
            return WHOLE
        return self.last if last < CLEARLY * as_it_is else None


def views_of(pairs: Mapping[Place, Pair]) -> tuple[dict[Place, View], list[Place]]:
    """Return the view of each recorded tensor as the reference's, and the places whose order of axes isn't known.

    Args:
        pairs: the tensors.
    """
    allowed = {place: pair.by_shape() for place, pair in pairs.items()}
    views = {place: options[0] for place, options in allowed.items() if len(options) == 1}
    known = {place: view for place, view in views.items() if len(pairs[place].shape) >= 3}
    undecided = []
    for place in [place for place, options in allowed.items() if len(options) == 2]:
        view = pairs[place].by_values()
        if view is None:
            undecided.append(place)
        else:
            known[place] = views[place] = view
    unknown = []
    for place in undecided:
        path, role = place
        beside = [view for other, view in known.items() if other[0] == path and other[1] != role]
        orders = {view.is_whole for view in beside or known.values()}
        if len(orders) == 1:
            views[place] = WHOLE if orders == {True} else pairs[place].last
        elif orders or pairs[place].own.ndim > 3:  # without a sign of channels, three axes are tokens as they are
            unknown.append(place)
    return views, unknown
