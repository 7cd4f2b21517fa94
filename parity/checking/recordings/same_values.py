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
        reference: the reference's Cells.
        candidate: the recording's.

    Attributes:
        partners: for each of the reference's tensors, by id, those of the recording that have its values.
    """

    def __init__(self, reference: Cells, candidate: Cells) -> None:
        self.reference, self.candidate = reference, candidate
        self._orders: Counter[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = Counter()
        self.partners = self._find_partners()
        self._known_there = {id(array) for pairs in self.partners.values() for array, view in pairs if not view.index}

    def _find_partners(self) -> dict[int, list[tuple[Array, View]]]:
        """Return, by id of each of the reference's tensors, those of the recording with its values."""
        wide = [
            (a, a.astype(np.float64)) for a in {id(a): a for s in self.candidate.tensors.values() for a in s}.values()
        ]
        norms = {id(array): float(np.linalg.norm(value)) for array, value in wide}
        partners: dict[int, list[tuple[Array, View]]] = {}
        for own in {id(array): array for several in self.reference.tensors.values() for array in several}.values():
            value = own.astype(np.float64)
            norm = float(np.linalg.norm(value))
            if not np.isfinite(norm):
                continue
            own_partners: list[tuple[Array, View]] = []
            for other, other_value in wide:
                if other_value.size < value.size or (
                    other_value.size == value.size and not abs(norms[id(other)] - norm) <= SIMILAR * norm
                ):
                    continue
                if (view := view_of(value, other_value, closeness(own, other))) is not None:
                    own_partners.append((other, view))
                    if not view.index:
                        self._orders[own.shape, other.shape, view.transpose] += 1
            if own_partners:
                partners[id(own)] = own_partners
        return partners

    def view(self, path: str, other: str) -> View | None:
        """Return as which part of what another Cell returns a Cell's first value is there; None if it isn't."""
        own = self.reference.of(path, OUTPUT)[:1]
        other_ids = {id(array) for array in self.candidate.of(other, OUTPUT)}
        views = [
            view for array in own for partner, view in self.partners.get(id(array), []) if id(partner) in other_ids
        ]
        return next(iter(views), None)

    def agrees(self, path: str, other: str, kind: str) -> bool | None:
        """Whether the first values at the boundaries of two Cells agree; None if the other network has neither."""
        own, other_arrays = self.reference.of(path, kind), self.candidate.of(other, kind)
        if not own or not other_arrays:
            return None
        ids = {id(array) for array in other_arrays}
        if any(id(partner) in ids for partner, _ in self.partners.get(id(own[0]), [])):
            return True
        backward = {
            id(array) for array in own if any(p is other_arrays[0] for p, _ in self.partners.get(id(array), []))
        }
        if backward:
            return True
        return False if id(own[0]) in self.partners or id(other_arrays[0]) in self._known_there else None

    def are_equal(self, array: Array, other: Array) -> bool:
        """Whether a tensor of the reference has the values of one of the recording, in any layout."""
        return any(partner is other for partner, _ in self.partners.get(id(array), [])) or is_close(array, other)

    def same_size(self, path: str, other: str) -> bool:
        """Whether two Cells return as many numbers."""
        sizes, other_sizes = (
            [array.size for array in cells.of(p, OUTPUT)[:1]]
            for cells, p in ((self.reference, path), (self.candidate, other))
        )
        return sizes == other_sizes

    def likely_view(self, path: str, other: str) -> View:
        """Return the order of axes that most tensors of these shapes have that both networks have, or one that fits.

        Behind a first fault there are none: then channels may be last on one side.
        """
        own, other_arrays = self.reference.of(path, OUTPUT)[:1], self.candidate.of(other, OUTPUT)[:1]
        if not own or not other_arrays:
            return WHOLE
        for (shape, other_shape, transpose), _ in self._orders.most_common():
            if (shape, other_shape) == (own[0].shape, other_arrays[0].shape):
                return View((), transpose)
        if own[0].shape == other_arrays[0].shape:
            return WHOLE
        rank = other_arrays[0].ndim
        known = [transpose for (_, _, transpose), _ in self._orders.most_common() if len(transpose) == rank]
        channels = [(0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))] if rank > 2 else []
        fitting = (o for o in [*known, *channels] if tuple(other_arrays[0].shape[axis] for axis in o) == own[0].shape)
        return next((View((), order) for order in fitting), WHOLE)

    def is_rounded(self, path: str, other: str) -> bool:
        """Whether the first values that two Cells return differ by no more than rounding."""
        own = self.reference.of(path, OUTPUT)[:1]
        other_ids = {id(array) for array in self.candidate.of(other, OUTPUT)}
        partners = [pair for array in own for pair in self.partners.get(id(array), []) if id(pair[0]) in other_ids]
        return any(is_rounded(own[0], view.of(array, other)) for array, view in partners)

    def numbers(self, path: str, other: str, kind: str) -> tuple[str, str] | None:
        """Return the numbers that first cross a boundary of two Cells; None if either's are unknown."""
        own, other_arrays = self.reference.of(path, kind), self.candidate.of(other, kind)
        return (
            (self.reference.numbers_of(own[0]), self.candidate.numbers_of(other_arrays[0]))
            if own and other_arrays
            else None
        )
