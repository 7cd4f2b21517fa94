"""What the reference has to offer: its units by the values that enter them, and how each may be folded or merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....runtime.ir.types import Node, Value, is_floating
from ....runtime.ops.registry import get
from ...sides.records import Array
from ...weights.computed import Computed
from .added_biases import AddedBiases
from .agreement import ValueIndex
from .network import MOST_KEPT, Network, Signature
from .pieces import Piece, head_sizes, pieces_of
from .sources import Sources, numbers_of
from .units import MATRIX, TABLE, VECTOR, Unit, units_of

MOST_FOLLOWED = 8
"""The most nodes behind a unit that may be folded into it."""


Key = tuple[str, int]
"""A stored tensor, and the position of an element in it."""


@dataclass(frozen=True)
class Offer:
    """Numbers of elements that a port's unit may hold to compute what a unit of the reference does.

    Attributes:
        weight: of the weight, with its features along the first axis.
        bias: of the bias; None if there is none.
        folded: whether stored tensors of other units are in it.
    """

    weight: Array
    bias: Array | None = None
    folded: bool = False


class Reference:
    """The reference: its values, units and elements.

    Args:
        network: the reference.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.units = units_of(network)
        self.sources = Sources(network.stored)
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
            yield from self._folded(unit, plain)
        if unit.kind == MATRIX:
            yield from self._with_added_biases(unit, plain)

    def _with_added_biases(self, unit: Unit, plain: Offer) -> Iterator[Offer]:
        """Yield offers with a bias that is added to another product, and then to this one's result."""
        own = self._name(unit.bias_operand)
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
                is_zero = not self._static(value).any()
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

    def _name(self, value: Value | None) -> str | None:
        """Return the name of the stored tensor that a value is, as it is or in another shape."""
        trace = None if value is None else self.network.trace(value)
        if trace is None or trace.signature:
            return None
        is_whole = np.array_equal(trace.places.reshape(-1), np.arange(self.network.stored[trace.name].size))
        return trace.name if is_whole else None

    def _folded(self, unit: Unit, plain: Offer) -> Iterator[Offer]:
        """Yield offers with what follows the unit: what is multiplied or added, a batch norm, a LoRA."""
        weight, bias = self._name(unit.operand), self._name(unit.bias_operand)
        if weight is None or (unit.bias_operand is not None and bias is None):
            return
        shape = [int(str(dim)) for dim in unit.output.shape]
        along = [1] * len(shape)
        along[unit.feature_axis] = -1
        features: Array = np.broadcast_to(np.arange(unit.size).reshape(along), shape)
        value = unit.output
        for _ in range(MOST_FOLLOWED):
            following = self.network.consumers.get(value, [])
            merged = next((self._merged(unit, node, value, weight) for node in following if node.op == "add"), None)
            if merged is not None:
                yield Offer(self._as_weight(unit, merged), plain.bias, True)
            if len(following) != 1:
                return
            (node,) = following
            others = [v for v in node.inputs if v is not None and v is not value]
            if (
                get(node.op).traits.moves == "first"
                and node.inputs[0] is value
                and all(v in self.network.static for v in others)
            ):
                statics = [None if v is None or v is value else self._static(v) for v in node.inputs]
                features = self.network.moved(node, {0: features}, statics)
                value = node.outputs[0]
                continue
            if node.op == "sub" and node.inputs[0] is value:
                yield from self._with_batch_norm(unit, node, weight, bias)
            elif len(others) == 1 and others[0] in self.network.static and not self.network.names_in.get(others[0]):
                yield from self._with_number(unit, node, features, weight, bias)
            elif node.op == "mul" and len(others) == 1:
                yield from self._with_scale(unit, others[0], features, weight, bias)
            return

    def _static(self, value: Value) -> Array:
        return self.network.static_array(value, self.network.stored, {})

    def _as_weight(self, unit: Unit, computed: Computed) -> Array:
        """Return the numbers of a weight that is computed, in the layout of the unit's own."""
        first = self.sources.computed(computed)
        trace = self.network.trace(unit.operand)
        assert trace is not None, "it is a stored tensor"
        return unit.canonical(first + trace.places)

    def _as_vector(self, computed: Computed, size: int) -> Array:
        first = self.sources.computed(computed)
        return np.arange(first, first + size)

    def _with_number(self, unit: Unit, node: Node, features: Array, weight: str, bias: str | None) -> Iterator[Offer]:
        """Yield the unit with numbers that are multiplied with its result, or added to it."""
        (operand_beside,) = [v for v in node.inputs if v is not None and v in self.network.static]
        constant = np.asarray(self._static(operand_beside), np.float64)
        if constant.size == 1 and (node.op == "mul" or (node.op == "div" and node.inputs[1] is operand_beside)):
            factor = float(constant.reshape(-1)[0])
            numbers = (("times", factor if node.op == "mul" else 1.0 / factor),)
            of_bias = None if bias is None else self._as_vector(Computed("affine", (bias,), numbers), unit.size)
            yield Offer(self._as_weight(unit, Computed("affine", (weight,), numbers)), of_bias)
        elif node.op == "add" and bias is not None and np.all(np.isfinite(constant)):
            full = np.broadcast_to(constant, features.shape)
            added = np.zeros(unit.size)
            added[features.reshape(-1)] = full.reshape(-1)
            if np.array_equal(added[features], full) and self.network.stored[bias].shape == (unit.size,):
                computed = Computed("affine", (bias,), (("plus", tuple(added.tolist())),))
                plain = self.numbers(unit.operand, ())
                assert plain is not None, "it is a stored tensor"
                yield Offer(unit.canonical(plain), self._as_vector(computed, unit.size))

    def _with_scale(self, unit: Unit, factor: Value, features: Array, weight: str, bias: str | None) -> Iterator[Offer]:
        """Yield the unit with a stored factor for each of its features, such as a layer scale."""
        name, trace = self._name(factor), self.network.trace(factor)
        if name is None or trace is None or self.network.stored[weight].shape[0] != unit.size:
            return
        if self.network.stored[name].size == unit.size and np.array_equal(
            np.broadcast_to(trace.places, features.shape), features
        ):
            yield Offer(
                self._as_weight(unit, Computed("scaled", (weight, name))),
                None if bias is None else self._as_vector(Computed("scaled", (bias, name)), unit.size),
                True,
            )

    def _with_batch_norm(self, unit: Unit, node: Node, weight: str, bias: str | None) -> Iterator[Offer]:
        """Yield the unit with a batch norm behind it."""
        names = {"sub": self._name(node.inputs[1])}
        eps = 0.0
        current = node
        for op in ("div", "mul", "add"):
            following = self.network.consumers.get(current.outputs[0], [])
            if len(following) != 1 or following[0].op != op or following[0].inputs[0] is not current.outputs[0]:
                return
            (current,) = following
            operand = current.inputs[1]
            trace = None if operand is None else self.network.trace(operand)
            if op == "div":
                ops = () if trace is None else tuple(step[0] for step in trace.signature)
                if trace is None or ops != ("add", "sqrt"):
                    return
                names[op], eps = trace.name, float(trace.signature[0][2])
            else:
                names[op] = self._name(operand)
        mean, variance, gain, offset = (names[op] for op in ("sub", "div", "mul", "add"))
        if mean is None or variance is None or gain is None or offset is None or unit.node.op not in ("conv", "linear"):
            return
        numbers = (("eps", eps),)
        of_bias = (offset, gain, mean, variance, *(() if bias is None else (bias,)))
        yield Offer(
            self._as_weight(unit, Computed("batch_norm", (weight, gain, variance), numbers)),
            self._as_vector(Computed("batch_norm_bias", of_bias, numbers), unit.size),
            True,
        )

    def _merged(self, unit: Unit, node: Node, value: Value, weight: str) -> Computed | None:
        """Return the weight with a LoRA beside it: two products of the same data, whose result is added."""
        (operand_beside,) = [v for v in node.inputs if v is not value] or [None]
        times = 1.0
        producer = None if operand_beside is None else self.network.program.producers.get(operand_beside)
        if producer is not None and producer.op == "mul":
            (factor, *data) = sorted(
                (v for v in producer.inputs if v is not None), key=lambda v: v not in self.network.static
            )
            if not data or factor not in self.network.static or self.network.names_in.get(factor):
                return None
            constant = self._static(factor)
            if constant.size != 1:
                return None
            times = float(constant.reshape(-1)[0])
            producer = self.network.program.producers.get(data[0])
        matrices = []
        for _ in range(2):
            if producer is None or producer.op != "linear" or producer.inputs[2] is not None:
                return None
            matrices.append(self._name(producer.inputs[1]))
            entering = producer.inputs[0]
            producer = None if entering is None else self.network.program.producers.get(entering)
        up, down = matrices
        if up is None or down is None or entering is not unit.data or unit.node.op != "linear":
            return None
        return Computed("lora", (weight, up, down), (("times", times),))


def _varies(arrays: Sequence[Array]) -> bool:
    return len(arrays) < 2 or any(not np.array_equal(arrays[0], operand_beside) for operand_beside in arrays[1:])
