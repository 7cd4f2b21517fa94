"""Which elements of the reference a unit of the candidate may hold, the likeliest first."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from ...sides.records import Array
from .absorbed import Absorbed
from .added_numbers import number_added
from .features import Arrays, same_features
from .fillings import Filling, Option
from .folding import Offer
from .joined_tables import readings, rows_of
from .network import Network, Trace
from .parts import Part, divided, runs
from .pieces import Piece, head_sizes, is_in_order, pieces_of
from .reference import Key, Reference
from .units import MATRIX, OTHER, TABLE, VECTOR, Unit, without_copies
from .vectors import in_order, same_elements, same_shape

MOST_AXES = 4
MOST_SIZES = 3
"""The most sizes of heads for which rows in pairs, and in halves, are tried."""
Rank = tuple[bool, bool, int, int, int]
"""Whether a bias has no counterpart, or is one; whether rows are in another order; how much of what uses the result is
something else; position of the unit; foldings."""


class Options:
    """Finds the options of the candidate's units.

    Args:
        reference: the reference.
        network: the candidate.
    """

    def __init__(self, reference: Reference, network: Network) -> None:
        self.reference = reference
        self.network = network
        self.absorbed = Absorbed(reference, network)
        self._pieces: dict[Unit, list[Piece]] = {}

    def pieces(self, unit: Unit) -> list[Piece]:
        """Return the pieces of a unit's product."""
        if unit not in self._pieces:
            self._pieces[unit] = pieces_of(self.network, unit)
        return self._pieces[unit]

    def whole(self, unit: Unit, originals: Sequence[Unit], data: Arrays | None, taken: Collection[Key]) -> list[Option]:
        """Return the options that fill a unit as a whole.

        Args:
            unit: the unit of the candidate.
            others: units of the reference, the likeliest first.
            data: what enters the unit, if it is what enters `others`, too; None if that isn't known.
            taken: first elements of the reference's pieces that are used already.
        """
        trace = self.network.trace(unit.operand)
        if trace is None:
            return [option for original in originals if (option := self._several(unit, original)) is not None]
        if unit.kind in (VECTOR, OTHER):
            ranked = self._vectors(unit, trace, originals, data)
        else:
            parts = [
                (rank, Part.of(self.reference, original, offer, self.reference.pieces(original)[0]))
                for original in originals
                if original.kind == unit.kind and original.size == unit.size
                for rank, offer in enumerate(self._offers(unit, trace, original))
            ]
            whole = Piece(np.arange(unit.size), self.pieces(unit)[0].role)
            ranked = self._filled(unit, trace, whole, parts, data)
        return _sorted(ranked, taken)

    def zeros(self, unit: Unit) -> list[Option]:
        """Return the option that a vector which is added to a value of the reference is zero."""
        trace = self.network.trace(unit.operand)
        matrix = next((original for original in self.reference.units if original.kind == MATRIX), None)
        if trace is None or trace.signature or matrix is None or unit.kind != VECTOR or unit.node.op != "add":
            return []
        places = unit.canonical(trace.places).reshape(-1)
        numbers = self.reference.zeros(matrix, len(places))
        return [Option((Filling(trace.name, *_inside(places, numbers)),), frozenset(), True)]

    def distances(self, unit: Unit, data: Arrays) -> list[Option]:
        """Return the options that fill a table whose rows are subtracted from data with a matrix the data enter.

        A distance |x - c|² is |x|² - 2 x c + |c|², too: then there is a product with the table.
        """
        trace = self.network.trace(unit.operand)
        places = None if trace is None else unit.canonical(trace.places)
        if trace is None or places is None or unit.node.op != "sub" or places.ndim != 2:
            return []
        return [
            Option((Filling(trace.name, places, weight),), frozenset((self.reference.key(original),)))
            for original in self.reference.units_of_data(data)
            if original.kind == MATRIX
            for offer in self.reference.offers(original, trace.signature)[:1]
            for weight in same_shape(unit, original, offer.weight, places.shape, None)
        ]

    def joined(self, unit: Unit, data: Arrays) -> list[Option]:
        """Return the options that fill a table with several of the reference's, one below the other."""
        trace = self.network.trace(unit.operand)
        if trace is None or unit.kind != TABLE or unit.bias is not None or trace.places.ndim != 2:
            return []
        places = unit.canonical(trace.places)
        arrays = {
            original: self.reference.arrays[original.data]
            for original in self.reference.units
            if original.data in self.reference.arrays and original.bias is None
        }
        options = []
        for rows in readings(data, unit.size, places.shape[-1], self.reference.units, arrays):
            offers = [self.reference.offers(part.original, trace.signature) for part in rows]
            if all(offers):
                fillings = tuple(
                    Filling(trace.name, places[:, part.start : part.start + rows_of(part.original)], offer[0].weight)
                    for part, offer in zip(rows, offers, strict=True)
                )
                options.append(Option(fillings, frozenset(self.reference.key(part.original) for part in rows)))
        return options

    def in_another_association(
        self, unit: Unit, values: Mapping[Value, Arrays], taken: Collection[Key]
    ) -> list[Option]:
        """Return the options that fill a matrix with one by which the reference multiplies another factor.

        Args:
            unit: the unit of the candidate; no value of the reference enters it that enters a unit there.
            values: the candidate's values, as far as they are computed.
            taken: first elements of the reference's pieces that are used already.
        """
        trace = self.network.trace(unit.operand)
        places = None if trace is None else unit.canonical(trace.places)
        if trace is None or places is None or unit.kind != MATRIX or unit.bias is not None or places.ndim != 2:
            return []  # a convolution multiplies a neighbourhood
        parts: list[tuple[int, Part]] = []
        for is_turned, originals in enumerate((self.absorbed.before(unit, values), self.absorbed.behind(unit, values))):
            rows, columns = places.shape[::-1] if is_turned else places.shape
            for original in originals:
                for offer in self.reference.offers(original, trace.signature)[:1]:
                    if offer.weight.ndim != 2 or offer.weight.shape[1] != columns:
                        continue
                    for part in divided(self.reference, original, offer, np.arange(rows)):
                        weight = part.offer.weight
                        turned = replace(part, offer=Offer(weight.T if is_turned else weight))
                        parts.append((0, turned))
        whole = Piece(np.arange(unit.size), self.pieces(unit)[0].role)
        return _sorted(self._filled(unit, trace, whole, parts, None), taken)

    def piece(
        self, unit: Unit, number: int, originals: Sequence[Unit], data: Arrays | None, taken: Collection[Key]
    ) -> list[Option]:
        """Return the options that fill a piece of a unit; arguments as of `whole`."""
        trace = self.network.trace(unit.operand)
        if trace is None or unit.kind not in (MATRIX, TABLE):
            return []
        piece = self.pieces(unit)[number]
        parts: list[tuple[int, Part]] = []
        for original in originals:
            if original.kind == unit.kind:
                offers = self._different(unit, self.reference.offers(original, trace.signature))
                for rank, offer in enumerate(offers):
                    parts += [(rank, part) for part in divided(self.reference, original, offer, piece.features)]
        if not parts:
            parts = [(0, part) for part in runs(self.reference, originals, trace, len(piece.features), taken)]
        added = number_added(self.network, unit, piece) if self._bias(unit) is not None else None
        if added is not None:
            parts += [(rank, less) for rank, part in parts if (less := self._less(part, added)) is not None]
        return _sorted(self._filled(unit, trace, piece, parts, data), taken)

    def _offers(self, unit: Unit, trace: Trace, original: Unit) -> list[Offer]:
        """Return what a unit may hold to do the work of one of the reference's, also if its result is scaled then."""
        offers = self._different(unit, self.reference.offers(original, trace.signature))
        following = self.network.consumers.get(unit.output, [])
        if unit.bias is not None or len(following) != 1 or following[0].op != "mul":
            return offers
        for position, value in enumerate(following[0].inputs):
            if value is not None and value in self.network.static and not self.network.names_in.get(value):
                factor = self.network.static_array(value, {}, {})
                if factor.size == 1:
                    scaled = (*trace.signature, ("mul", 1 - position, float(factor.reshape(-1)[0])))
                    return [*offers, *self.reference.offers(original, scaled)]
        return offers

    def _different(self, unit: Unit, offers: Sequence[Offer]) -> list[Offer]:
        """Return offers without those that differ only in a bias, which a unit doesn't have."""
        if self._bias(unit) is not None:
            return list(offers)
        weights: list[Array] = []
        different = []
        for offer in offers:
            if not any(offer.weight is weight for weight in weights):
                different.append(offer)
            weights.append(offer.weight)
        return different

    def _less(self, part: Part, number: float) -> Part | None:
        """Return rows with a bias that lacks a number, which the candidate adds; None if there is none."""
        offer = part.offer
        bias = None if offer.bias is None else self.reference.sources.moved(offer.bias, -number)
        return None if bias is None else replace(part, offer=replace(offer, bias=bias))

    def _several(self, unit: Unit, original: Unit) -> Option | None:
        """Return the option for a weight that both sides compute from several tensors, in the same way."""
        network = self.reference.network
        if network.trace(original.operand) is not None:
            return None
        names = [name for name in self.network.value_of if name in self.network.names_in[unit.operand]]
        original_names = [name for name in network.value_of if name in network.names_in[original.operand]]
        shapes = [self.network.stored[name].shape for name in names]
        if shapes != [network.stored[name].shape for name in original_names]:
            return None
        fillings = tuple(
            Filling(name, places, self.reference.sources.numbers(original_name, places))
            for name, original_name in zip(names, original_names, strict=True)
            for places in (np.arange(network.stored[original_name].size),)
        )
        bias = self._bias(unit)
        offered = None if original.bias_operand is None else network.trace(original.bias_operand)
        if bias is not None and offered is not None and bias.places.size == offered.places.size:
            numbers = self.reference.sources.numbers(offered.name, offered.places.reshape(-1))
            fillings += (Filling(bias.name, bias.places.reshape(-1), numbers),)
        return Option(fillings, frozenset((self.reference.key(original),)))

    def _bias(self, unit: Unit) -> Trace | None:
        trace = None if unit.bias_operand is None else self.network.trace(unit.bias_operand)
        return trace if trace is not None and not trace.signature else None

    def _filled(
        self, unit: Unit, trace: Trace, piece: Piece, parts: Sequence[tuple[int, Part]], data: Arrays | None
    ) -> Iterator[tuple[Rank, Option]]:
        """Yield options with a rank for rows of the reference, in their order and in that of a rotary embedding."""
        features = piece.features
        places = unit.canonical(trace.places)[features]
        bias = self._bias(unit)
        bias_places = None if bias is None else np.broadcast_to(bias.places.reshape(-1), (unit.size,))[features]
        is_followed = any(node.op in ("sub", "div", "mul") for node in self._following(unit))
        places_of: dict[Unit, int] = {}
        for place, (rank, part) in enumerate(parts):
            offer = part.offer
            lacking = (offer.bias is None) != (bias_places is None)
            deep = 0 if rank == 0 else 2 if is_followed else -1 if offer.folded else 1
            for number, order in enumerate(self._orders(unit, part.unit, len(features))):
                for columns, weight in enumerate(self._columns(unit, part, places.shape, data)):
                    ordered = weight if order is None else weight[order]
                    fillings = [Filling(trace.name, *_inside(places, ordered))]
                    if bias is not None and bias_places is not None:
                        numbers = self.reference.zeros(part.unit, len(features)) if offer.bias is None else offer.bias
                        fillings.append(Filling(bias.name, bias_places, numbers if order is None else numbers[order]))
                    fits = is_in_order(self.pieces(unit), self.reference.pieces(part.unit))
                    option = Option(tuple(fillings), part.taken, number > 0 or columns > 0, fits)
                    distance = part.role.distance(piece.role)
                    yield (lacking, option.is_reordered, distance, places_of.setdefault(part.unit, place), deep), option

    def _following(self, unit: Unit) -> list[Node]:
        """Return what uses a unit's result, also after it was moved."""
        nodes = self.network.consumers.get(unit.output, [])
        while len(nodes) == 1 and get(nodes[0].op).traits.moves == "first":
            nodes = self.network.consumers.get(nodes[0].outputs[0], [])
        return nodes

    def _orders(self, unit: Unit, original: Unit, size: int) -> Iterator[Array | None]:
        """Yield orders of rows: as they are, and those of a rotary embedding that turns others, or the other way."""
        yield None
        if unit.kind != MATRIX:
            return
        heads = dict.fromkeys([*self.reference.heads(original), *head_sizes(self.network, unit)])
        sizes = [head for head in list(heads)[:MOST_SIZES] if size % head == 0]
        for direction in (1, -1):
            for head in sizes:
                halves = np.arange(size).reshape(-1, 2, head // 2)[:, ::direction]
                pairs = np.arange(size).reshape(-1, head // 2, 2)[..., ::direction]
                yield halves.transpose(0, 2, 1).reshape(-1)
                yield pairs.transpose(0, 2, 1).reshape(-1)
                if direction < 0:
                    yield halves.reshape(-1)
                    yield pairs.reshape(-1)

    def _columns(self, unit: Unit, part: Part, shape: tuple[int, ...], data: Arrays | None) -> Iterator[Array]:
        """Yield the weight with its columns in the order of the candidate's data."""
        weight = part.offer.weight
        if unit.kind == TABLE:
            yield from self._table(part, shape, data)
            return
        if weight.size != np.prod(shape):
            return
        axes = (unit.data_axis, part.unit.data_axis)
        original_data = None if part.unit.data is None else self.reference.arrays.get(part.unit.data)
        if (
            data is not None
            and original_data is not None
            and axes[0] is not None
            and axes[1] is not None
            and weight.shape[1] == shape[1]
        ):
            order = same_features(data, axes[0], original_data, axes[1])
            if order is not None and len(order) == shape[1]:
                yield weight[:, order].reshape(shape)
                return
        if weight.shape[1:] == shape[1:]:
            yield weight.reshape(shape)
            return
        digests = set()
        for permutation in itertools.permutations(range(1, min(weight.ndim, MOST_AXES))):
            axes_in_order = (0, *permutation, *range(MOST_AXES, weight.ndim))
            arranged = weight.transpose(axes_in_order).reshape(shape)
            if (digest := arranged.tobytes()) not in digests:
                digests.add(digest)
                yield arranged

    def _table(self, part: Part, shape: tuple[int, ...], data: Arrays | None) -> Iterator[Array]:
        """Yield a table, or the rows of it that the candidate has: the first ones, or those from an offset on."""
        weight = part.offer.weight
        rows, row_count = weight.shape[-1], shape[-1]
        original_data = None if part.unit.data is None else self.reference.arrays.get(part.unit.data)
        start = 0
        if data is not None and original_data is not None and original_data[0].size == data[0].size:
            apart = original_data[0].reshape(-1) - data[0].reshape(-1)
            start = int(apart[0]) if np.all(apart == apart[0]) else 0
        if weight.shape[:-1] == shape[:-1] and start >= 0 and start + row_count <= rows:
            yield weight[..., start : start + row_count]

    def _vectors(
        self, unit: Unit, trace: Trace, originals: Sequence[Unit], data: Arrays | None
    ) -> Iterator[tuple[Rank, Option]]:
        places = unit.canonical(trace.places)
        inside = places >= 0
        for original in originals:
            if original.kind not in (VECTOR, OTHER):
                continue
            taken = frozenset((self.reference.key(original),))
            original_data = None if original.data is None else self.reference.arrays.get(original.data)
            entering = None if data is None or original_data is None else (data, original_data)
            by_elements = None
            if entering is not None:
                numbers = self.reference.numbers(original.operand, trace.signature)
                by_elements = None if numbers is None else same_elements(trace.places, numbers, *entering)
                if numbers is not None and without_copies(numbers).size != places.size:  # other axes are one
                    by_elements = by_elements or in_order(trace.places, numbers)
            if by_elements is not None:
                filling = Filling(trace.name, *by_elements)
                yield (original.node.op != unit.node.op, False, 0, 0, 0), Option((filling,), taken)
                continue
            for offer in self.reference.offers(original, trace.signature):
                for rank, weight in enumerate(same_shape(unit, original, offer.weight, places.shape, entering)):
                    filling = Filling(trace.name, places[inside], weight[inside])
                    yield (original.node.op != unit.node.op, rank > 0, 0, 0, 0), Option((filling,), taken, rank > 0)


def _inside(places: Array, numbers: Array) -> tuple[Array, Array]:
    """Return the places that are in a tensor, and their numbers."""
    inside = places >= 0
    return (places, numbers) if inside.all() else (places[inside], numbers[inside])


def _sorted(ranked: Iterable[tuple[Rank, Option]], taken: Collection[Key]) -> list[Option]:
    """Return options by rank; those that use again what is used already only if there are no others."""
    options = [option for _, option in sorted(ranked, key=lambda item: item[0])]
    return [option for option in options if option.taken.isdisjoint(taken)] or options
