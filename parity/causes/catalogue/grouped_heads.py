"""Heads of queries that share keys and values: these repeated in another order, and groups of heads read in parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops import indexing, shaping
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from ..rebuilding import Operands, Results
from .features import returned
from .hypothesis import Hypothesis, with_changed_value, with_other_nodes
from .regrouping import merged_axes, merged_in_order

ONE_BY_ONE, AS_A_WHOLE = "each element by itself (0, 0, 1, 1)", "all of them in turn (0, 1, 0, 1)"


def repeats(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield the elements that are repeated along an axis, keys and values say, repeated one by one or as a whole."""
    for repeated, in_reference, in_candidate in ((1, ONE_BY_ONE, AS_A_WHOLE), (0, AS_A_WHOLE, ONE_BY_ONE)):
        nodes = enumerate(cell.program.nodes)
        positions = [at for at, node in nodes if repeated in _repeated_axes(cell.program, node)]
        if not positions:
            continue
        fix = f"use {'repeat_interleave' if repeated else 'repeat'}"
        words = f"elements are repeated {in_candidate} in the candidate, {in_reference} in the reference"
        cause = Cause("layout", words, fix, op="expand")
        yield Hypothesis(cause, partial(with_other_nodes, cell.program, positions, _repeated_otherwise), len(positions))


def _repeated_axes(program: Program, node: Node) -> list[int]:
    """Return which of two axes that a node merges, 0 or 1, repeats the elements along the other one."""
    axes = merged_axes(node)
    source = None if len(axes) != 2 or node.inputs[0] is None else program.producers.get(node.inputs[0])
    if source is None or source.op != "expand" or source.inputs[0] is None:
        return []
    before, after = source.inputs[0].type.sizes, source.outputs[0].type.sizes
    if before is None or after is None or len(before) != len(after):
        return []
    return [number for number, axis in enumerate(axes) if before[axis] == 1 < after[axis]]


def _repeated_otherwise(_: Builder, node: Node, operands: Operands) -> Results:
    axes = merged_axes(node)
    return merged_in_order(node, operands, axes, axes[::-1])


def groups(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield what Cells inside return, read as all heads of queries, of keys and of values, or group by group.

    A group is heads of queries that share one of keys and one of values, and these two. Without several heads of
    queries in a group, `by_heads` yields the same.
    """
    for value in returned(cell):
        for number, heads, size, in_groups in _groups(cell.program, value):
            orders = (f"in groups of {heads - 2} heads of queries, one of keys and one of values", "kind by kind")
            in_reference, in_candidate = orders if in_groups else orders[::-1]
            cause = Cause(
                "weight",
                f"the features of {name_of_value(cell, value)} are read {in_candidate} in the candidate, and "
                f"{in_reference} in the reference, as if rows of the weight were in another order",
                "permute the rows of the weight, or divide the features as the reference does",
            )
            order = _order_of_heads(number, heads)
            order = order if in_groups else np.argsort(order)
            change = partial(_with_heads, order, size)
            yield Hypothesis(cause, partial(with_changed_value, cell.program, value, change))


def _groups(program: Program, value: Value) -> Iterator[tuple[int, int, int, bool]]:
    """Yield number of groups, heads in each, size of a head, and whether the features lie in groups."""
    sizes = value.type.sizes or (0,)
    users = [node for node in program.nodes if node.inputs and node.inputs[0] is value]
    for node in users:
        shape = node.outputs[0].type.sizes or ()
        if node.op == "reshape" and len(shape) > 2 and math.prod(shape[-3:]) == sizes[-1] and shape[-2] > 3:
            number, heads, size = shape[-3:]
            yield number, heads, size, True
    parts = [node for node in users if node.op == "slice" and node.attributes["axes"] == (len(sizes) - 1,)]
    widths = [node.attributes["stops"][0] - node.attributes["starts"][0] for node in parts]
    if len(parts) == 3 and sum(widths) == sizes[-1] and widths[1] == widths[2] and widths[0] % widths[1] == 0:
        results = {result for node in parts for result in node.outputs}
        divided = [node.outputs[0].type.sizes or () for node in program.nodes if not results.isdisjoint(node.inputs)]
        for size in dict.fromkeys(shape[-1] for shape in divided if shape):
            if widths[1] % size == 0 and widths[0] > widths[1]:
                yield widths[1] // size, widths[0] // widths[1] + 2, size, False


def _order_of_heads(groups: int, heads: int) -> Array:
    """Return for each head, group by group, its place where they lie kind by kind."""
    queries = np.arange(groups * (heads - 2)).reshape(groups, heads - 2)
    others = groups * (heads - 2) + np.arange(2 * groups).reshape(2, groups).T
    order: Array = np.concatenate([queries, others], axis=1).reshape(-1)
    return order


def _with_heads(order: Array, size: int, x: SymbolicTensor) -> SymbolicTensor:
    shape = x.value.type.sizes
    assert shape is not None, "only values of known shapes have heads"
    wide = shaping.reshape(x, shape=(*shape[:-1], len(order), size))
    chosen = indexing.take(wide, x.builder.constant(order, "int64"), axis=len(shape) - 1)
    result: SymbolicTensor = shaping.reshape(chosen, shape=shape)
    return result
