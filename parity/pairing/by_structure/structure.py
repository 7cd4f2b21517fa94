"""Units of two networks aligned by structure alone: the same operations on the same sizes, in the same order."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

from ....runtime.ir.types import Value
from .units import MATRIX, TABLE, Unit

SKIP = 1.0
"""Cost of a unit without a partner."""
FUSED = 0.3
"""Cost of units that are one on the other side, such as queries, keys and values."""
OTHER_KIND = 0.6
MOST_FUSED = 4
NAMES = 0.1
"""The most that names may cost: they break ties."""


class Partners:
    """The partners of the candidate's units.

    Args:
        reference: the reference's units in order.
        candidate: the candidate's.
    """

    def __init__(self, reference: Sequence[Unit], candidate: Sequence[Unit]) -> None:
        self.reference = reference
        self.candidate = candidate
        self.aligned = _align(_first_uses(reference), _first_uses(candidate))

    def of(self, unit: Unit) -> list[Unit]:
        """Return the units of the reference that may do a unit's work: its partners, then others, the nearest first."""
        partners = self.aligned.get(unit.number, [])
        place = partners[0].number if partners else unit.number * len(self.reference) / max(1, len(self.candidate))
        originals = [original for original in self.reference if original not in partners and _is_alike(original, unit)]
        return [*partners, *sorted(originals, key=lambda original: abs(original.number - place))]

    def sorted(self, unit: Unit, originals: Sequence[Unit]) -> list[Unit]:
        """Return units of the reference with those first whose names are a unit's."""
        return sorted(originals, key=lambda original: _leaf(original) != _leaf(unit))


def _first_uses(units: Sequence[Unit]) -> list[Unit]:
    """Return units without those that have the weights of one before: a loop uses its cell's again and again."""
    uses: dict[tuple[Value, str, Value | None], Unit] = {}
    for unit in units:
        uses.setdefault((unit.operand, unit.kind, unit.bias_operand), unit)
    return list(uses.values())


def _leaf(unit: Unit) -> str:
    return unit.path.rpartition(".")[2]


def _is_alike(unit: Unit, original: Unit) -> bool:
    products = (MATRIX, TABLE)
    return (unit.kind in products) == (original.kind in products) and (
        unit.kind not in products or unit.kind == original.kind
    )


def may_share_work(unit: Unit, original: Unit) -> bool:
    """Whether two units may do the same work, or one of them a part of the other's."""
    small, large = sorted((unit.size, original.size))
    return _is_alike(unit, original) and _columns(unit) == _columns(original) and large % max(1, small) == 0


def _columns(unit: Unit) -> int:
    total = int(np.prod([int(str(dim)) for dim in unit.operand.shape], dtype=int))
    return total // unit.size if unit.kind in (MATRIX, TABLE) and unit.size else 1


def _cost(units: Sequence[Unit], originals: Sequence[Unit]) -> float:
    """Return the cost of a pair; infinite if the sizes don't fit."""
    if not all(_is_alike(unit, original) for unit in units for original in originals):
        return np.inf
    if sum(unit.size for unit in units) != sum(original.size for original in originals):
        return np.inf
    if len({_columns(unit) for unit in (*units, *originals)}) > 1:
        return np.inf
    kinds = OTHER_KIND * (units[0].node.op != originals[0].node.op and units[0].kind not in (MATRIX, TABLE))
    likeness = difflib.SequenceMatcher(None, _leaf(units[0]), _leaf(originals[0])).ratio()
    return kinds + FUSED * (len(units) + len(originals) - 2) / 2 + NAMES * (1 - likeness)


def _align(reference: Sequence[Unit], candidate: Sequence[Unit]) -> dict[int, list[Unit]]:
    """Return the partners with the least cost in all, by number of the candidate's unit; their order is the same."""
    rows, columns = len(reference), len(candidate)
    best = np.full((rows + 1, columns + 1), np.inf)
    best[0, 0] = 0.0
    step: dict[tuple[int, int], tuple[int, int]] = {}
    ways = [(1, 1), *((n, 1) for n in range(2, MOST_FUSED + 1)), *((1, n) for n in range(2, MOST_FUSED + 1))]
    for i in range(rows + 1):
        for j in range(columns + 1):
            for a, b in ((1, 0), (0, 1)):
                if i >= a and j >= b and best[i - a, j - b] + SKIP < best[i, j]:
                    best[i, j], step[i, j] = best[i - a, j - b] + SKIP, (a, b)
            for a, b in ways:
                if i >= a and j >= b and best[i - a, j - b] < best[i, j]:
                    cost = best[i - a, j - b] + _cost(candidate[j - b : j], reference[i - a : i])
                    if cost < best[i, j]:
                        best[i, j], step[i, j] = cost, (a, b)
    partners: dict[int, list[Unit]] = {}
    i, j = rows, columns
    while (i, j) in step:
        a, b = step[i, j]
        if a and b:
            partners.update({unit.number: list(reference[i - a : i]) for unit in candidate[j - b : j]})
        i, j = i - a, j - b
    return partners
