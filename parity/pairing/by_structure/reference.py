"""What the reference has to offer: its units by the values that enter them, and what a port may hold for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from ....runtime.ir.types import Node, Value, is_floating
from ...sides.records import Array
from ...weights.computed import Computed
from .added_biases import AddedBiases
from .agreement import ValueIndex
from .folding import Folding, Offer
from .joined_constants import numbers_of_sum
from .network import MOST_KEPT, Network, Signature
from .pieces import Piece, head_sizes, pieces_of
from .sources import Sources, numbers_of
from .units import MATRIX, TABLE, VECTOR, Unit, units_of

Key = tuple[str, int]
"""A stored tensor, and the position of an element in it."""


class Reference:
    """The reference: its values, units and elements.

    Args:
        network: the reference.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.units = units_of(network)
        self.sources = Sources(network.stored)
        self.folding = Folding(network, self.sources)
        runs = network.run()
        self.arrays = {value: [run[value] for run in runs] for value in runs[0]}
        self.index = ValueIndex({v: a for v, a in self.arrays.items() if is_floating(a[0].dtype) and _varies(a)})
        self.outputs = [value for value in network.program.outputs if value in self.arrays]
        self._pieces: dict[Unit, list[Piece]] = {}
        self._offers: dict[tuple[Unit, Signature], list[Offer]] = {}

    @cached_property
    def by_data(self) -> dict[Value, list[Unit]]:
        """The units that a value enters."""
        units_by_value: dict[Value, list[Unit]] = {}
        for unit in self.units:
            if unit.data is not None:
                units_by_value.setdefault(unit.data, []).append(unit)
            if unit.bias is not None:  # a port may add it elsewhere
                node, position = unit.bias
                units_by_value.setdefault(unit.product, []).append(
                    Unit(unit.number, node, position, VECTOR, unit.product)
                )
        return units_by_value

    def units_of_data(self, arrays: Sequence[Array]) -> list[Unit]:
        """Return the units that a value with these numbers enters, in order."""
        units = {unit for value in self.index.find(arrays) for unit in self.by_data.get(value, [])}
        return sorted(units, key=lambda unit: unit.number)

    def pieces(self, unit: Unit) -> list[Piece]:
        """Return the pieces of a unit's product."""
        if unit not in self._pieces:
            self._pieces[unit] = pieces_of(self.network, self._in_use(unit))
        return self._pieces[unit]

    def _in_use(self, unit: Unit) -> Unit:
        """Return a unit with the same weights whose result is used, if a unit's isn't."""
        if self.network.consumers.get(unit.output) or unit.output in self.network.program.outputs:
            return unit
        operands = unit.operand, unit.bias_operand
        same = [
            u for u in self.units if (u.operand, u.bias_operand) == operands and self.network.consumers.get(u.output)
        ]
        return same[-1] if same else unit

    def key(self, unit: Unit, feature: int = 0) -> Key:
        """Return what tells a feature of a unit from those of others, in whatever way it is folded."""
        trace = self.network.trace(unit.operand)
        if trace is None:
            return " ".join(sorted(self.network.names_in[unit.operand])), feature
        places = unit.canonical(trace.places)
        return trace.name, int(places[feature].flat[0] if unit.kind in (MATRIX, TABLE) else places.flat[0])

    def heads(self, unit: Unit) -> list[int]:
        """Return the sizes into which features of a unit are divided."""
        return head_sizes(self.network, unit)

    def offers(self, unit: Unit, port_signature: Signature) -> list[Offer]:
        """Return what a port's unit may hold that does the work of a unit, the plainest first.

        Args:
            unit: the unit of the reference.
            port_signature: what the port does with each element of its weight on the way.
        """
        key = (unit, port_signature)
        if key in self._offers:
            return self._offers[key]
        offers = list(self._find_offers(unit, port_signature))
        if sum(offer.weight.size for offer in offers) <= MOST_KEPT:
            self._offers[key] = offers
        return offers

    def _find_offers(self, unit: Unit, port_signature: Signature) -> Iterator[Offer]:
        weight = self.numbers(unit.operand, port_signature)
        if weight is None:
            return
        weight = unit.canonical(weight)
        bias = None
        if unit.bias_operand is not None:
            bias = self.numbers(unit.bias_operand, ())
            if bias is None:
                return
            bias = np.broadcast_to(bias.reshape(-1), (unit.size,))
        plain = Offer(weight, bias)
        yield plain
        if unit.kind in (MATRIX, TABLE) and not port_signature:
            yield from self.folding.offers(unit, plain)
        if unit.kind == MATRIX:
            yield from self._with_added_biases(unit, plain)

    def _with_added_biases(self, unit: Unit, plain: Offer) -> Iterator[Offer]:
        """Yield offers with a bias that is added to another product, and then to this one's result."""
        own = self.network.whole_tensor(unit.bias_operand)
        for name in self.added_biases.of(self._in_use(unit)):
            if self.network.stored[name].shape != (unit.size,) or (plain.bias is not None and own is None):
                continue
            source = name if own is None else Computed("sum", (own, name))
            if isinstance(source, Computed):
                self.sources.computed(source)
            yield Offer(plain.weight, self.sources.numbers(source, np.arange(unit.size)))

    @cached_property
    def added_biases(self) -> AddedBiases:
        """The biases that are added to the results of other products."""
        return AddedBiases(self.network, self.units)

    def numbers(self, value: Value, port_signature: Signature) -> Array | None:
        """Return the numbers of what a port's tensor must hold in place of a value; None if no tensor does."""
        trace = self.network.trace(value)
        if trace is not None:
            return numbers_of(self.network, self.sources, trace, port_signature)
        names = self.network.names_in.get(value, frozenset())
        joining = self.network.program.producers.get(value)
        if joining is not None and joining.op == "concat" and names and not port_signature:
            return self._joined(joining, min(names))
        if port_signature or len(names) != 2:
            return None
        summed = numbers_of_sum(self.network, self.sources, value)
        if summed is not None:
            return summed
        array = self.network.static_array(value, self.network.stored, {})
        for gain, direction in (sorted(names), sorted(names, reverse=True)):
            if self.network.stored[direction].shape != array.shape:
                continue
            computed = Computed("weight_norm", (gain, direction))
            first = self.sources.computed(computed)
            numbers = first + np.arange(array.size).reshape(array.shape)
            if np.allclose(self.sources.values(numbers), array, rtol=1e-9):
                return numbers
        return None

    def _joined(self, node: Node, name: str) -> Array | None:
        """Return the numbers of tensors that are joined, and of zeros; None if something else is joined to them."""
        parts = []
        for value in node.inputs:
            assert value is not None, "a concat has no absent operand"
            if self.network.names_in.get(value):
                numbers = self.numbers(value, ())
            else:
                is_zero = not self.network.static_array(value, self.network.stored, {}).any()
                zero = self.sources.computed(Computed("zeros", (name,))) if is_zero else None
                numbers = None if zero is None else np.full([int(str(dim)) for dim in value.shape], zero)
            if numbers is None:
                return None
            parts.append(numbers)
        return np.concatenate(parts, node.attributes["axis"])

    def zeros(self, unit: Unit, size: int) -> Array:
        """Return the numbers of the elements of a bias that the reference doesn't have."""
        zeros = Computed("zeros", (min(self.network.names_in[unit.operand]),))
        first = self.sources.computed(zeros)
        return first + (np.arange(size) if self.sources.shape(zeros) == (size,) else np.zeros(size, np.int64))


def _varies(arrays: Sequence[Array]) -> bool:
    return len(arrays) < 2 or any(not np.array_equal(arrays[0], operand_beside) for operand_beside in arrays[1:])
