"""A network in elementary steps, what it computes on samples, and what its stored tensors go through before use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ....runtime.errors import ProgramError, UsageError
from ....runtime.ir.program import Program
from ....runtime.ir.types import FLOAT64, Node, Value, is_floating
from ....runtime.ops.registry import evaluate, get
from ....runtime.programs.interpreter import FAILURES, failure
from ...dtypes import cast_floating
from ...sides.records import Array
from .elementary import elementary
from .learned_inputs import NUMBERS, with_learned_inputs
from .lookups import with_lookups
from .rewriting import consumers_of, shape_of, static_values
from .written_norms import with_norms_in_one_form
from .written_sums import with_sums_at_layers
from .zeros import WithoutZeros

MOST_KEPT = 1 << 16
"""The most elements of a tensor whose places are kept; those of larger ones are found anew when they are needed."""
Signature = tuple[tuple[Any, ...], ...]
"""What is done with each element of a stored tensor: an op, the operand's position, and a digest of the other one."""


@dataclass(frozen=True)
class Trace:
    """A value that has the elements of one stored tensor in other places.

    Attributes:
        name: name of the tensor.
        places: for each element of the value, the position in the tensor; -1 for a constant.
        signature: what is done with each element on the way.
    """

    name: str
    places: Array
    signature: Signature = ()


class Network:
    """A program of known sizes and without boundaries, in float64.

    Attributes:
        program: in elementary steps, without boundaries.
        stored: its parameters, and the buffers that are statistics of norms, by name, in the dtype that they have.
        samples: its inputs on each sample.
        zero_products: products of zeros with its matrices, which aren't in the program.

    Raises:
        UsageError: it draws random numbers.
    """

    def __init__(self, program: Program, samples: Sequence[Sequence[Array]]) -> None:
        if any(get(node.op).traits.draws for node in program.nodes):
            raise UsageError("it draws random numbers")
        nonzero = WithoutZeros(elementary(with_lookups(program.astype("float64"))))
        self.zero_products = list(nonzero.products.values())
        divided = with_learned_inputs(nonzero.program())
        self.program = with_norms_in_one_form(with_sums_at_layers(divided))
        self.samples = [[cast_floating(array, FLOAT64) for array in arrays] for arrays in samples]
        if len(divided.inputs) > len(program.inputs):
            for arrays, number in zip(self.samples, NUMBERS, strict=False):
                arrays.append(np.asarray(number))
        self.value_of = {name: parameter.value for name, parameter in self.program.parameters.items()}
        self.value_of |= statistics(self.program)
        stored = {name: buffer.data for name, buffer in program.buffers.items()}
        stored |= {name: parameter.data for name, parameter in program.parameters.items()}
        self.stored: dict[str, Array] = {name: np.asarray(stored[name]) for name in self.value_of}
        self.index = index_type(sum(array.size for array in self.stored.values()))
        data, known = self.program.constant_data, set(self.value_of.values())
        self.constants: dict[Value, Array] = {v: np.asarray(data[v]) for v in data if v not in known}
        self.program = self.program.without_data()
        self.rank = {value: n for n, node in enumerate(self.program.nodes) for value in node.outputs}
        self._traces: dict[Value, Trace | None] = {}
        self._static_results: dict[Value, Array] = dict(self.constants)

    @cached_property
    def static(self) -> frozenset[Value]:
        """The values that don't depend on the inputs."""
        return static_values(self.program)

    @cached_property
    def names_in(self) -> dict[Value, frozenset[str]]:
        """The stored tensors that each static value is computed from."""
        result_by_name = {value: frozenset((name,)) for name, value in self.value_of.items()}
        for node in self.program.nodes:
            if node.outputs and node.outputs[0] in self.static:
                names = frozenset[str]().union(
                    *(result_by_name.get(v, frozenset()) for v in node.inputs if v is not None)
                )
                result_by_name |= dict.fromkeys(node.outputs, names)
        return result_by_name

    @cached_property
    def consumers(self) -> dict[Value, list[Node]]:
        """The nodes that use each value, in order."""
        return consumers_of(self.program)

    def apply(self, node: Node, operands: Sequence[Array | None]) -> tuple[Array, ...]:
        """Return the outputs of a node on operands; raise `CellbridgeError` if it can't be computed."""
        types = tuple(value.type for value in node.outputs)
        try:
            with np.errstate(all="ignore"):
                return evaluate(get(node.op), list(operands), node.attributes, types)
        except ProgramError:
            raise
        except FAILURES as error:
            raise failure(self.program, node, operands, error) from error

    def whole_tensor(self, value: Value | None) -> str | None:
        """Return the name of the stored tensor that a value is, as it is or in another shape."""
        trace = None if value is None else self.trace(value)
        if trace is None or trace.signature:
            return None
        is_whole = np.array_equal(trace.places.reshape(-1), np.arange(self.stored[trace.name].size))
        return trace.name if is_whole else None

    def static_array(self, value: Value, stored: Mapping[str, Array], known: dict[Value, Array]) -> Array:
        """Return a static value, computed from stored tensors; `known` holds what was computed from them before."""
        names = self.names_in.get(value, frozenset())
        results = known if names else self._static_results
        if value in results:
            return results[value]
        node = self.program.producers.get(value)
        if node is None:
            (name,) = names
            return stored[name].astype(value.dtype, copy=False)
        operands = [None if x is None else self.static_array(x, stored, known) for x in node.inputs]
        results.update(zip(node.outputs, self.apply(node, operands), strict=True))
        return results[value]

    def trace(self, value: Value) -> Trace | None:
        """Return of which stored tensor a static value has the elements; None if it is of none, or of several."""
        if value in self._traces:
            return self._traces[value]
        trace = self._trace(value)
        if trace is None or trace.places.size <= MOST_KEPT:
            self._traces[value] = trace
        return trace

    def _trace(self, value: Value) -> Trace | None:
        names = self.names_in.get(value, frozenset())
        node = self.program.producers.get(value)
        if len(names) != 1:
            return None
        if node is None:
            (name,) = names
            return Trace(name, np.arange(self.stored[name].size, dtype=self.index).reshape(self.stored[name].shape))
        positions = [p for p, x in enumerate(node.inputs) if x is not None and self.names_in.get(x)]
        if len(positions) != 1:
            return None
        (position,) = positions
        operand = node.inputs[position]
        inner = self.trace(operand) if operand is not None else None
        return None if inner is None else self._through(node, position, inner)

    def _through(self, node: Node, position: int, inner: Trace) -> Trace | None:
        """Return the trace of a node's result, of which one operand is traced."""
        traits = get(node.op).traits
        others = [
            None if x is None or p == position else self.static_array(x, {}, {}) for p, x in enumerate(node.inputs)
        ]
        if node.op == "cast" or (traits.moves and not (traits.moves == "first" and position)):
            return Trace(inner.name, self.moved(node, {position: inner.places}, others), inner.signature)
        if traits.elementwise and len(node.outputs) == 1:
            shape = np.broadcast_shapes(inner.places.shape, *(x.shape for x in others if x is not None))
            done = _signature(node, position, others)
            return Trace(inner.name, np.broadcast_to(inner.places, shape), (*inner.signature, *done))
        return None

    def moved(self, node: Node, numbered: Mapping[int, Array], others: Sequence[Array | None]) -> Array:
        """Return the numbers of a moving node's elements, from those of its operands; -1 for others."""
        if node.op == "cast":
            return next(iter(numbered.values()))
        op = get(node.op)
        if op.traits.view and op.kernel_rule is not None and numbered.keys() == {0} and len(node.inputs) == 1:
            return np.asarray(op.kernel_rule(numbered[0], **node.attributes))
        operands: list[Array | None] = []
        for position, value in enumerate(node.inputs):
            if position in numbered:
                operands.append(numbered[position] + 1.0)
            elif value is not None and is_floating(value.dtype):
                operands.append(np.zeros(shape_of(value)))
            else:
                operands.append(others[position])
        result = self.apply(node, operands)[0]
        return np.where(np.isfinite(result) & (result > 0), result, 0.0).astype(np.int64) - 1

    def features_behind(self, node: Node, features: Array) -> Array | None:
        """Return the features in a node's result; None if it does anything but move them, or add data to them.

        Args:
            node: a node that uses the features.
            features: the number of the feature that each element of its operand is one of.
        """
        if node.op == "add" and shape_of(node.outputs[0]) == features.shape:
            return features
        if len(node.inputs) == 1 and get(node.op).traits.moves == "first":
            return self.moved(node, {0: features}, [None])
        return None

    def run(self) -> list[dict[Value, Array]]:
        """Return all values that depend on the inputs, on each sample."""
        runs = []
        for inputs in self.samples:
            values: dict[Value, Array] = dict(zip(self.program.inputs, inputs, strict=True))
            for node in self.program.nodes:
                if node.outputs and node.outputs[0] not in self.static:
                    operands = self.operands(node, values, self.stored, {})  # weights are computed anew, not kept
                    values.update(zip(node.outputs, self.apply(node, operands), strict=True))
            runs.append(values)
        return runs

    def operands(
        self, node: Node, values: Mapping[Value, Array], stored: Mapping[str, Array], known: dict[Value, Array]
    ) -> list[Array | None]:
        """Return the operands of a node: values, or static ones."""
        return [
            None
            if value is None
            else self.static_array(value, stored, known)
            if value in self.static
            else values[value]
            for value in node.inputs
        ]


def index_type(count: int) -> np.dtype[Any]:
    """Return the dtype of numbers of so many elements, and of as many that are computed from them."""
    return np.dtype(np.int32 if count < 1 << 29 else np.int64)


def statistics(program: Program) -> dict[str, Value]:
    """Return the buffers that are statistics of norms, by name: what is subtracted, or divided by, or its root."""
    name_of = {b.value: name for name, b in program.buffers.items() if is_floating(b.value.dtype) and b.data.ndim}
    roots: set[Value] = set()
    result_by_name: dict[str, Value] = {}
    for node in program.nodes:
        of_buffers = [value for value in node.inputs if value is not None and value in name_of]
        traits = get(node.op).traits
        keeps_statistics = traits.moves == "first" or (traits.elementwise and node.op not in ("sub", "mul", "div"))
        if of_buffers and keeps_statistics:
            name_of.update(dict.fromkeys(node.outputs, name_of[of_buffers[0]]))
            if node.op in ("sqrt", "rsqrt") or of_buffers[0] in roots:
                roots.update(node.outputs)
        elif len(node.inputs) == 2 and len(of_buffers) == 1:
            (value,) = of_buffers
            if (node.op in ("sub", "div") and node.inputs[1] is value) or (node.op == "mul" and value in roots):
                name = name_of[value]
                result_by_name[name] = program.buffers[name].value
    return result_by_name


def _signature(node: Node, position: int, others: Sequence[Array | None]) -> Signature:
    """Return what an elementwise node does; nothing if it changes no number."""
    constants = [x for x in others if x is not None]
    if node.op in ("stop_gradient", "boundary", "positive"):
        return ()
    if len(constants) == 1:
        (constant,) = constants
        neutral = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}.get(node.op)
        if neutral is not None and (position == 0 or node.op in ("add", "mul")) and np.all(constant == neutral):
            return ()
        if constant.size == 1:
            return ((node.op, position, float(constant.reshape(-1)[0])),)
    digest = hashlib.blake2b(b"".join(x.tobytes() for x in constants), digest_size=8).hexdigest() if constants else ""
    return ((node.op, position, digest, repr(sorted(node.attributes.items()))),)
