"""What a port's unit may hold in place of a unit of the reference and of what follows that: a norm, a scale, a LoRA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from ...sides.records import Array
from ...weights.computed import Computed
from .network import Network
from .sources import Sources
from .units import Unit

MOST_FOLLOWED = 8
"""The most nodes behind a unit that may be folded into it."""


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


class Folding:
    """Folds what follows units of the reference into them.

    Args:
        network: the reference.
        sources: its elements.
    """

    def __init__(self, network: Network, sources: Sources) -> None:
        self.network = network
        self.sources = sources

    def offers(self, unit: Unit, plain: Offer) -> Iterator[Offer]:
        """Yield offers with what follows a unit: what is multiplied or added, a batch norm, a LoRA.

        Args:
            unit: the unit.
            plain: what holds the unit alone.
        """
        weight, bias = self.network.whole_tensor(unit.operand), self.network.whole_tensor(unit.bias_operand)
        if weight is None or (unit.bias_operand is not None and bias is None):
            return
        features = unit.features
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
                yield from self._with_number(unit, plain, node, features, weight, bias)
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

    def _with_number(
        self, unit: Unit, plain: Offer, node: Node, features: Array, weight: str, bias: str | None
    ) -> Iterator[Offer]:
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
                yield Offer(plain.weight, self._as_vector(computed, unit.size))

    def _with_scale(self, unit: Unit, factor: Value, features: Array, weight: str, bias: str | None) -> Iterator[Offer]:
        """Yield the unit with a stored factor for each of its features, such as a layer scale."""
        name, trace = self.network.whole_tensor(factor), self.network.trace(factor)
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
        names = {"sub": self.network.whole_tensor(node.inputs[1])}
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
                names[op] = self.network.whole_tensor(operand)
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
            matrices.append(self.network.whole_tensor(producer.inputs[1]))
            entering = producer.inputs[0]
            producer = None if entering is None else self.network.program.producers.get(entering)
        up, down = matrices
        if up is None or down is None or entering is not unit.data or unit.node.op != "linear":
            return None
        return Computed("lora", (weight, up, down), (("times", times),))
