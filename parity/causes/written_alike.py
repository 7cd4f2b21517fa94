"""Two programs of a Cell written more alike, so that fewer nodes differ without computing anything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...runtime.ir.types import Node
from ..sides.records import Key
from .cell_program import CellProgram
from .differences import Comparison
from .fixed_values import with_tables
from .linear_forms import as_linear
from .orders import without_orders


def comparisons(cell: CellProgram, candidate: CellProgram) -> Iterator[Comparison]:
    """Yield the two programs of a Cell as they are, with their tables computed, and in one order of nodes, too.

    The last are yielded if they differ in fewer ways, and none that are too large.

    Raises:
        CellbridgeError: a table can't be computed, or types don't fit.
    """
    if any(node.op == "linear" for node in cell.program.nodes):
        candidate = as_linear(candidate)
    if not any(node.op == "take" for node in cell.program.nodes):
        candidate = without_orders(candidate)
    comparison = Comparison.of(cell, candidate)
    if comparison is None:
        return
    yield comparison
    tables = with_tables(cell), with_tables(candidate)
    cell, candidate = tables[0] or cell, tables[1] or candidate
    if tables != (None, None) and (in_tables := Comparison.of(cell, candidate)) is not None:
        comparison = in_tables
        yield comparison
    in_order = _in_order_of_use(cell, cell.output_keys), _in_order_of_use(candidate, cell.output_keys)
    fewer = Comparison.of(*in_order)
    if fewer is not None and len(fewer.differences) < len(comparison.differences):
        yield fewer


def _in_order_of_use(cell: CellProgram, keys: Sequence[Key]) -> CellProgram:
    """Return a Cell that computes what its outputs take, in the order of their keys, before all else.

    Which of two operands is computed first is a matter of writing.
    """
    producers = cell.program.producers
    outputs = dict(zip(cell.output_keys, cell.program.outputs, strict=True))
    nodes: dict[int, Node] = {}
    for output in (outputs[key] for key in keys if key in outputs):
        pending = [(producers[output], False)] if output in producers else []
        while pending:
            node, is_ready = pending.pop()
            if is_ready:
                nodes[id(node)] = node
            elif id(node) not in nodes:
                pending.append((node, True))
                pending += [(producers[v], False) for v in reversed(node.inputs) if v is not None and v in producers]
    rest = [node for node in cell.program.nodes if id(node) not in nodes]
    return replace(cell, program=cell.program.replace(nodes=(*nodes.values(), *rest)))
