"""The uses of the parts of a tensor that meet: in a value that joins them, or in a sum of products with them.

A product of joined tensors is the sum of a product with each. Where a file computes these, each of its sums says which
uses of a tensor belong together: a recurrence joins what it sees with its state for one gate and with another state for
the next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get

PRODUCTS = ("linear", "matmul", "conv", "mul")
SUMS = ("add", "sub")


@dataclass(frozen=True)
class Meeting:
    """Where the uses of parts meet.

    Attributes:
        uses: the nodes of which the results meet, and those that join all parts; none if nothing uses all parts so.
        moved: the parts, and the values that only have elements of theirs in other places.
    """

    uses: frozenset[Node]
    moved: frozenset[Value]


NO_MEETING = Meeting(frozenset(), frozenset())


def uses_that_meet(program: Program, parts: Collection[Value]) -> Meeting:
    """Return the uses of parts that meet, also of parts with their elements in other places.

    Args:
        program: the program.
        parts: values of it.
    """
    stored = program.constant_data.keys()
    everything = frozenset(parts)
    consumers: dict[Value, list[Node]] = {}
    origins: dict[Value, frozenset[Value]] = {value: frozenset([value]) for value in parts}
    uses: set[Node] = set()
    for node in program.nodes:
        operands = dict.fromkeys(value for value in node.inputs if value is not None)
        for value in operands:
            consumers.setdefault(value, []).append(node)
        varying = [value for value in operands if value not in stored]
        if get(node.op).traits.moves and varying and all(value in origins for value in varying):
            joined = frozenset().union(*(origins[value] for value in varying))
            if joined == everything:
                uses.add(node)
            elif node.outputs[0] not in origins:
                origins[node.outputs[0]] = joined
    terms: dict[Node, dict[Node, frozenset[Value]]] = {}
    for value, of_parts in origins.items():
        for node in consumers.get(value, []):
            if node.op in PRODUCTS and all(x is value or x is None or x in stored for x in node.inputs):
                for total in _sums(node, consumers):
                    terms.setdefault(total, {})[node] = of_parts
    for products in terms.values():
        if frozenset().union(*products.values()) == everything:
            uses.update(products)
    return Meeting(frozenset(uses), frozenset(origins))


def _sums(product: Node, consumers: Mapping[Value, Sequence[Node]]) -> set[Node]:
    """Return the sums of which a product is a term, up to a value that several nodes use, as a residual is."""
    sums: set[Node] = set()
    waiting = [product]
    while waiting:
        node = waiting.pop()
        following = consumers.get(node.outputs[0], [])
        if node.op == "add" and len(following) > 1:
            continue
        adding = [other for other in following if other.op in SUMS or get(other.op).traits.moves == "first"]
        sums.update(other for other in adding if other.op in SUMS)
        waiting += adding
    return sums
