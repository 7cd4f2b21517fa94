"""Lookups that code writes as products: rows that are 1 in one place, multiplied with a table."""

from __future__ import annotations

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from .rewriting import Rewriting, shape_of


def with_lookups(program: Program) -> Program:
    """Return a program of known sizes in which `(x[..., None] == arange(n)) @ table` is a lookup of x in the table.

    An index outside the table, whose product is zero, has no row.
    """
    return _Lookups(program).program()


class _Lookups(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        for node in program.nodes:
            indices = self._indices(node)
            if indices is None:
                self.nodes.append(node)
                continue
            shape = node.outputs[0].shape[:-1]
            flat = self.add(node, "reshape", (indices,), indices.type.with_shape(shape), shape=shape)
            self.add(node, "embedding", (node.inputs[1], flat), node.outputs[0], padding_index=None)

    def _indices(self, node: Node) -> Value | None:
        """Return the whole numbers that say which row of a table is 1 in what a product has; None if it has others."""
        if node.op != "matmul":
            return None
        rows, table = node.inputs
        producer = None if rows is None else self.before.producers.get(rows)
        while producer is not None and producer.op == "cast" and producer.inputs[0] is not None:
            producer = self.before.producers.get(producer.inputs[0])
        if producer is None or producer.op != "equal" or table not in self.static or len(table.shape) != 2:
            return None
        size = shape_of(table)[0]
        for indices, numbers in (producer.inputs, producer.inputs[::-1]):
            if indices is None or indices in self.static or numbers not in self.static or indices.dtype.kind != "i":
                continue
            array = np.asarray(self.computed(numbers, {})).reshape(-1)
            if (*indices.shape[:-1], size) == producer.outputs[0].shape and np.array_equal(array, np.arange(size)):
                return indices
        return None
