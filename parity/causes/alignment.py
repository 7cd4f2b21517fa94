"""Pairs the nodes of two programs of one Cell, by an alignment that prefers the same op, attributes and operands."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ...runtime.ir.printer import text
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value

Pair = tuple[int | None, int | None]
"""Positions of a node of the reference and of its partner; None for a node without one."""

SAME_OP, SAME_ATTRIBUTES, SAME_OPERAND, SAME_SHAPE = 4.0, 1.0, 1.0, 0.5
MAX_CELLS_OF_TABLE = 4_000_000


def align(
    reference: Program, candidate: Program, leaves: Mapping[Value, Hashable], other_leaves: Mapping[Value, Hashable]
) -> list[Pair] | None:
    """Return the pairs in an order that suits both programs (Needleman and Wunsch, 1970); None if they are too large.

    Args:
        reference: the reference's program.
        candidate: the candidate's.
        leaves: names of the values that no node of the reference computes; equal names in both programs correspond.
        other_leaves: the same for the candidate.
    """
    first, second = reference.nodes, candidate.nodes
    if len(first) * len(second) > MAX_CELLS_OF_TABLE:
        return None
    best = [[0.0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i in range(len(first) - 1, -1, -1):
        for j in range(len(second) - 1, -1, -1):
            score = _similarity(first[i], second[j], leaves, other_leaves)
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + score if score else 0.0)
    pairs: list[Pair] = []
    i = j = 0
    while i < len(first) and j < len(second):
        score = _similarity(first[i], second[j], leaves, other_leaves)
        if score and best[i][j] == best[i + 1][j + 1] + score:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            pairs.append((i, None))
            i += 1
        else:
            pairs.append((None, j))
            j += 1
    pairs += [(rest, None) for rest in range(i, len(first))]
    pairs += [(None, rest) for rest in range(j, len(second))]
    return pairs


def _similarity(
    first: Node, second: Node, leaves: Mapping[Value, Hashable], other_leaves: Mapping[Value, Hashable]
) -> float:
    """How alike two nodes are; 0 for nodes that can't be a pair."""
    if first.op != second.op or len(first.outputs) != len(second.outputs):
        return 0.0
    score = SAME_OP
    if comparable(first.attributes) == comparable(second.attributes):
        score += SAME_ATTRIBUTES
    if [value.shape for value in first.outputs] == [value.shape for value in second.outputs]:
        score += SAME_SHAPE
    for a, b in zip(first.inputs, second.inputs, strict=False):
        if a is not None and b is not None and a in leaves and leaves[a] == other_leaves.get(b):
            score += SAME_OPERAND
    return score


def comparable(item: Any) -> Any:
    """Return an attribute, or a dict of them, so that equal ones compare equal: a sub-program as its text."""
    if isinstance(item, Program):
        return text(item)
    if isinstance(item, dict):
        return {name: comparable(value) for name, value in item.items()}
    if isinstance(item, Sequence) and not isinstance(item, str):
        return tuple(map(comparable, item))
    return item
