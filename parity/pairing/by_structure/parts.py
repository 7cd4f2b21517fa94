"""Rows of the reference's matrices and tables that a unit of the candidate may hold, or a piece of one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...sides.records import Array
from .folding import Offer
from .network import Trace
from .pieces import Piece, Role
from .reference import Key, Reference
from .units import MATRIX, Unit


@dataclass(frozen=True)
class Part:
    """Rows of one or more units of the reference.

    Attributes:
        unit: the unit, or the first of them.
        offer: the rows.
        role: what uses them.
        taken: the first element of each piece.
    """

    unit: Unit
    offer: Offer
    role: Role
    taken: frozenset[Key]

    @classmethod
    def of(cls, reference: Reference, unit: Unit, offer: Offer, piece: Piece) -> Part:
        """Return rows that are a piece of a unit."""
        return cls(unit, offer, piece.role, frozenset((reference.key(unit, int(piece.features[0])),)))


def divided(reference: Reference, original: Unit, offer: Offer, features: Array) -> Iterator[Part]:
    """Yield a unit of the reference, or its pieces, if they have as many features as these of the candidate.

    Features are in the order in which they are used, which may differ where a rotary embedding turns others. Then
    they are in the order in which they are stored, too.
    """
    pieces, size = reference.pieces(original), len(features)
    if original.size == size:
        yield Part.of(reference, original, offer, pieces[0])
        return
    places = np.argsort(np.argsort(features))
    for piece in pieces:
        if len(piece.features) % size == 0:  # a piece, or one part of it for each expert
            for used in piece.features.reshape(-1, size):
                part = Part.of(reference, original, _rows(offer, used), Piece(used, piece.role))
                yield part
                stored = np.sort(used)[places]
                if not np.array_equal(used, stored):
                    yield replace(part, offer=_rows(offer, stored))


def runs(
    reference: Reference, originals: Sequence[Unit], trace: Trace, size: int, taken: Collection[Key]
) -> Iterator[Part]:
    """Yield rows of several units that together are as many: each second one, or one after the other."""
    by_size: dict[int, list[Part]] = {}
    for original in originals:
        if original.kind != MATRIX:
            continue
        for offer in reference.offers(original, trace.signature)[:1]:
            for piece in reference.pieces(original):
                part = Part.of(reference, original, _rows(offer, piece.features), piece)
                if part.taken.isdisjoint(taken):
                    by_size.setdefault(len(piece.features), []).append(part)
    for part_size, parts in by_size.items():
        count, rest = divmod(size, part_size)
        if rest or count < 2 or len(parts) < count:
            continue
        steps = len(parts) // count
        arranged = [parts[j::steps][:count] for j in range(steps)] + [
            parts[j * count : (j + 1) * count] for j in range(steps)
        ]
        for run in arranged:
            weights, biases = [p.offer.weight for p in run], [p.offer.bias for p in run]
            if len({w.shape for w in weights}) == 1:
                known = [b for b in biases if b is not None]
                bias = np.concatenate(known) if len(known) == len(biases) else None
                yield Part(
                    run[0].unit,
                    Offer(np.concatenate(weights), bias),
                    run[0].role,
                    frozenset().union(*(p.taken for p in run)),
                )


def _rows(offer: Offer, rows: Array) -> Offer:
    return Offer(offer.weight[rows], None if offer.bias is None else offer.bias[rows], offer.folded)
