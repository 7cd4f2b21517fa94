"""Gated recurrent units whose reset gate is applied on the other side of the product with the state's weights.

Cho et al. (2014) reset the state before the product, as Keras with `reset_after=False` and ONNX with
`linear_before_reset=0`; torch resets after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops import elementwise, linear, shaping, slicing, trigonometry
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import Results, append
from .hypothesis import Hypothesis, Lookup, with_lookup

MAX_STEPS = 200
"""The longest sequence that is computed step by step."""
GATES = ("sigmoid", "hardsigmoid")
PARTS = ("slice", "reshape")
"""Ops that take a part of gates, or of a product, that are computed together."""
PRODUCTS = ("linear", "matmul")


def reset_gates(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield all reset gates applied before the product, and all of them after it."""
    program = cell.program
    layers = [node for node in program.nodes if node.op == "gru" and _is_short(node)]
    if layers:
        yield Hypothesis(_cause("before", "after"), partial(with_lookup, program, _before_in_layers))
    after, before = _gates_after(program), _gates_before(program)
    if after:
        yield Hypothesis(_cause("before", "after"), partial(with_lookup, program, partial(_before, after)))
    if before:
        yield Hypothesis(_cause("after", "before"), partial(with_lookup, program, partial(_after, before)))


def _cause(in_candidate: str, in_reference: str) -> Cause:
    product = "the product with the state's weights"
    sides = f"{in_candidate} {product} in the candidate, {in_reference} it in the reference"
    summary = f"the reset gate of the GRU is applied {sides}"
    option = f"reset_after={in_reference == 'after'}, linear_before_reset={int(in_reference == 'after')}"
    return Cause(
        "structure", f"{summary} (reset_after, linear_before_reset)",
        f"apply it {in_reference} the product ({option})", op="gru",
    )  # fmt: skip


def _is_short(node: Node) -> bool:
    x, *_, lengths = node.inputs
    steps = None if x is None else x.shape[0]
    return lengths is None and isinstance(steps, int) and steps <= MAX_STEPS


def _before_in_layers(_: int, node: Node, lookup: Lookup) -> Results | None:
    """The results of a layer, step by step, with the reset before the product."""
    if node.op != "gru" or not _is_short(node):
        return None
    x, h, weight_ih, weight_hh, bias_ih, bias_hh = (None if v is None else lookup(v) for v in node.inputs[:6])
    assert x is not None
    assert h is not None
    assert weight_ih is not None
    assert weight_hh is not None
    size = h.value.shape[1]
    assert isinstance(size, int)
    parts = [_rows(weight_hh, number * size, size) for number in range(3)]
    biases = [None if bias_hh is None else _rows(bias_hh, number * size, size) for number in range(3)]
    steps = x.value.shape[0]
    assert isinstance(steps, int)
    outputs: list[SymbolicTensor] = []
    for step in range(steps)[:: -1 if node.attributes["reverse"] else 1]:
        now = shaping.reshape(_rows(x, step, 1), shape=x.value.shape[1:])
        gates = linear.linear(now, weight_ih, bias_ih)
        a = [_part(gates, 1, number * size, (number + 1) * size) for number in range(3)]
        reset, update = (
            elementwise.sigmoid(elementwise.add(a[n], linear.linear(h, parts[n], biases[n]))) for n in (0, 1)
        )
        inner = linear.linear(elementwise.mul(reset, h), parts[2], biases[2])
        new = trigonometry.tanh(elementwise.add(a[2], inner))
        h = elementwise.add(new, elementwise.mul(update, elementwise.sub(h, new)))
        outputs.append(shaping.reshape(h, shape=(1, *h.value.shape)))
    ordered = outputs[:: -1 if node.attributes["reverse"] else 1]
    return slicing.concat(*ordered, axis=0), h


def _rows(x: SymbolicTensor, start: int, count: int) -> SymbolicTensor:
    return _part(x, 0, start, start + count)


def _part(x: SymbolicTensor, axis: int, start: int, stop: int) -> SymbolicTensor:
    result: SymbolicTensor = slicing.slice(x, starts=(start,), stops=(stop,), steps=(1,), axes=(axis,))
    return result


def _gates_after(program: Program) -> dict[int, tuple[Value, Node, Node | None]]:
    """Return the positions of gates that multiply a product: gate, product, and the part that is taken of it."""
    gates = {}
    for position, node in enumerate(program.nodes):
        for gate, other in _gated(program, node):
            part = program.producers.get(other)
            is_part = part is not None and part.op == "slice" and len(part.attributes["axes"]) == 1
            inner = program.producers.get(part.inputs[0]) if is_part and part is not None and part.inputs[0] else part
            state = inner.inputs[0] if inner is not None and inner.op == "linear" else None
            if inner is not None and state is not None and state.shape == gate.shape:
                gates[position] = gate, inner, part if is_part else None
    return gates


def _before(
    gates: dict[int, tuple[Value, Node, Node | None]], position: int, _: Node, lookup: Lookup
) -> Results | None:
    """The product of the state that was multiplied by the gate."""
    if position not in gates:
        return None
    gate, product, part = gates[position]
    state, weight, bias = (None if v is None else lookup(v) for v in (*product.inputs, None)[:3])
    assert state is not None
    if part is not None:
        (start,), (stop,) = part.attributes["starts"], part.attributes["stops"]
        weight, bias = (None if tensor is None else _part(tensor, 0, start, stop) for tensor in (weight, bias))
    return append(state.builder, "linear", [elementwise.mul(lookup(gate), state), weight, bias], {})


def _gates_before(program: Program) -> dict[int, tuple[Value, Value]]:
    """Return the positions of products of a state that was multiplied by a gate: the gate and the state."""
    products = {}
    for position, node in enumerate(program.nodes):
        if node.op in PRODUCTS and node.inputs[0] is not None and node.inputs[0].shape == node.outputs[0].shape:
            producer = program.producers.get(node.inputs[0])
            for gate, state in _gated(program, producer) if producer is not None else ():
                products[position] = gate, state
    return products


def _after(products: dict[int, tuple[Value, Value]], position: int, node: Node, lookup: Lookup) -> Results | None:
    """The product of the state, multiplied by the gate."""
    if position not in products:
        return None
    gate, state = (lookup(value) for value in products[position])
    others = [None if v is None else lookup(v) for v in node.inputs[1:]]
    (result,) = append(state.builder, node.op, [state, *others], node.attributes)
    return (elementwise.mul(gate, result),)


def _gated(program: Program, node: Node) -> Iterator[tuple[Value, Value]]:
    """Yield the gate and the other operand of a product of elements, of which one is a gate."""
    if node.op == "mul" and None not in node.inputs:
        first, second = node.inputs
        for gate, other in ((first, second), (second, first)):
            if gate is not None and other is not None and _is_gate(program, gate):
                yield gate, other


def _is_gate(program: Program, value: Value) -> bool:
    node = program.producers.get(value)
    while node is not None and node.op in PARTS and node.inputs[0] is not None:
        node = program.producers.get(node.inputs[0])
    return node is not None and node.op in GATES
