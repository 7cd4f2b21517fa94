"""`SameValues`: which tensors at the boundaries of two networks have the same values."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ...sides.records import OUTPUT, Array
from .equal_parts import closeness, is_close, is_rounded, view_of
from .recorded_cells import Cells
from .views import WHOLE, View

SIMILAR = 1e-2
"""How far the norms of tensors that are compared may be apart, relative to one of them."""


class SameValues:
    """The tensors of the reference that a recording has, whole or as parts, with other axes or in another shape.

    Args:
        ours: the reference's Cells.
        theirs: the recording's.

    Attributes:
        partners: for each of the reference's tensors, by id, those of the recording that have its values.
    """

    def __init__(self, ours: Cells, theirs: Cells) -> None:
        self.ours, self.theirs = ours, theirs
        self._orders: Counter[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = Counter()
        self.partners = self._find_partners()
        self._known_there = {id(there) for found in self.partners.values() for there, view in found if not view.index}

    def _find_partners(self) -> dict[int, list[tuple[Array, View]]]:
        """Return, by id of each of the reference's tensors, those of the recording with its values."""
        wide = [(a, a.astype(np.float64)) for a in {id(a): a for s in self.theirs.tensors.values() for a in s}.values()]
        norms = {id(array): float(np.linalg.norm(value)) for array, value in wide}
        partners: dict[int, list[tuple[Array, View]]] = {}
        for own in {id(array): array for several in self.ours.tensors.values() for array in several}.values():
            value = own.astype(np.float64)
            norm = float(np.linalg.norm(value))
            if not np.isfinite(norm):
                continue
            found: list[tuple[Array, View]] = []
            for other, there in wide:
                if there.size < value.size or (
                    there.size == value.size and not abs(norms[id(other)] - norm) <= SIMILAR * norm
                ):
                    continue
                if (view := view_of(value, there, closeness(own, other))) is not None:
                    found.append((other, view))
                    if not view.index:
                        self._orders[own.shape, other.shape, view.transpose] += 1
            if found:
                partners[id(own)] = found
        return partners

    def view(self, path: str, other: str) -> View | None:
        """Return as which part of what another Cell returns a Cell's first value is there; None if it isn't."""
        own = self.ours.of(path, OUTPUT)[:1]
        there = {id(array) for array in self.theirs.of(other, OUTPUT)}
        views = [view for array in own for partner, view in self.partners.get(id(array), []) if id(partner) in there]
        return next(iter(views), None)

    def agrees(self, path: str, other: str, kind: str) -> bool | None:
        """Whether the first values at the boundaries of two Cells agree; None if the other network has neither."""
        own, there = self.ours.of(path, kind), self.theirs.of(other, kind)
        if not own or not there:
            return None
        ids = {id(array) for array in there}
        if any(id(partner) in ids for partner, _ in self.partners.get(id(own[0]), [])):
            return True
        backward = {id(array) for array in own if any(p is there[0] for p, _ in self.partners.get(id(array), []))}
        if backward:
            return True
        return False if id(own[0]) in self.partners or id(there[0]) in self._known_there else None

    def are_equal(self, array: Array, other: Array) -> bool:
        """Whether a tensor of the reference has the values of one of the recording, in any layout."""
        return any(partner is other for partner, _ in self.partners.get(id(array), [])) or is_close(array, other)

    def same_size(self, path: str, other: str) -> bool:
        """Whether two Cells return as many numbers."""
        own, there = (
            [array.size for array in cells.of(p, OUTPUT)[:1]] for cells, p in ((self.ours, path), (self.theirs, other))
        )
        return own == there

    def likely_view(self, path: str, other: str) -> View:
        """Return the order of axes that most tensors of these shapes have that both networks have, or one that fits.

        Behind a first fault there are none: then channels may be last on one side.
        """
        own, there = self.ours.of(path, OUTPUT)[:1], self.theirs.of(other, OUTPUT)[:1]
        if not own or not there:
            return WHOLE
        for (shape, other_shape, transpose), _ in self._orders.most_common():
            if (shape, other_shape) == (own[0].shape, there[0].shape):
                return View((), transpose)
        if own[0].shape == there[0].shape:
            return WHOLE
        rank = there[0].ndim
        known = [transpose for (_, _, transpose), _ in self._orders.most_common() if len(transpose) == rank]
        channels = [(0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))] if rank > 2 else []
        fitting = (o for o in [*known, *channels] if tuple(there[0].shape[axis] for axis in o) == own[0].shape)
        return next((View((), order) for order in fitting), WHOLE)

    def is_rounded(self, path: str, other: str) -> bool:
        """Whether the first values that two Cells return differ by no more than rounding."""
        own = self.ours.of(path, OUTPUT)[:1]
        there = {id(array) for array in self.theirs.of(other, OUTPUT)}
        partners = [pair for array in own for pair in self.partners.get(id(array), []) if id(pair[0]) in there]
        return any(is_rounded(own[0], view.of(array, other)) for array, view in partners)

    def numbers(self, path: str, other: str, kind: str) -> tuple[str, str] | None:
        """Return the numbers that first cross a boundary of two Cells; None if either's are unknown."""
        own, there = self.ours.of(path, kind), self.theirs.of(other, kind)
        return (self.ours.numbers_of(own[0]), self.theirs.numbers_of(there[0])) if own and there else None
