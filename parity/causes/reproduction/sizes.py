"""Smaller tensors: fewer entries along each axis, while the case still fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Type, Value
from ....runtime.programs.interpreter import execute
from ..budget import BudgetSpentError
from ..rebuilding import INVALID, append, rebuild
from .case import Case, with_inputs
from .search import Search

Axis = tuple[str, int]
"""A tensor and one of its axes."""

Group = frozenset[tuple[Axis, int]]
"""Axes that are shortened together, each with the number of blocks that it consists of."""

GATES = (2, 3, 4)
"""Numbers of blocks that weights may be stacked in: those of an attention's queries, keys and values, those of an
LSTM's gates."""

FIRST = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
"""The sizes that are tried, the smallest first."""


def smaller(case: Case, search: Search) -> Case:
    """Return the case with the smallest tensors, as far as the search comes."""
    changed = True
    with suppress(BudgetSpentError):
        while changed:
            changed = False
            for group in list(_groups(case)):
                shrunk = _shrink(case, group, search)
                if shrunk is not None:
                    case, changed = shrunk, True
                    break
    return case


def _shrink(case: Case, group: Group, search: Search) -> Case | None:
    """Return the case with the fewest entries along a group of axes of one size; None if all are needed.

    Raises:
        BudgetSpentError: nothing may be computed any more.
    """
    size = _size(case, group)
    for few in [n for n in FIRST if n < size]:
        for start in dict.fromkeys((0, size - few, *(_worst_places(case, size) if few == 1 else ()))):
            for also_in_attributes in (False, True):
                try:
                    attempt = _take(case, group, slice(start, start + few), size, also_in_attributes)
                    if search.fails(attempt):
                        return attempt
                except INVALID:
                    continue
    return None


def _groups(case: Case) -> Iterator[Group]:
    """Yield groups of axes that may belong together, from the largest axes on."""
    axes = {(name, k): n for name, t in case.tensors.items() for k, n in enumerate(t.data.shape) if n > 1}
    groups: dict[Group, None] = {}
    for (name, k), size in sorted(axes.items(), key=lambda item: -item[1]):
        rank = case.tensors[name].data.ndim
        alike = [(axis, 1) for axis, n in axes.items() if n == size]
        groups[frozenset(a for a in alike if a[0][1] == k and case.tensors[a[0][0]].data.ndim == rank)] = None
        groups[frozenset([((name, k), 1)])] = None
        groups[frozenset(alike)] = None
        for other in alike:
            groups[frozenset([((name, k), 1), other])] = None
        for gates in GATES:
            if stacked := [(axis, gates) for axis, n in axes.items() if n == gates * size]:
                groups[frozenset([*alike, *stacked])] = None
    yield from groups


def _size(case: Case, group: Group) -> int:
    (name, axis), blocks = next(iter(group))
    return int(case.tensors[name].data.shape[axis]) // blocks


def _worst_places(case: Case, size: int) -> list[int]:
    """Return the place of the largest difference along the axes of the output that have this size."""
    if case.gradients:
        return []
    a, b = (execute(program, case.arrays(program))[0] for program in case.programs)
    if a.shape != b.shape or not a.size:
        return []
    apart = np.nan_to_num(np.abs(a.astype(np.float64) - b.astype(np.float64)))
    worst = np.unravel_index(int(apart.argmax()), a.shape)
    return [int(index) for index, n in zip(worst, a.shape, strict=True) if n == size]


def _take(case: Case, group: Group, entries: slice, size: int, also_in_attributes: bool) -> Case:
    """Return the case with some entries along axes, and with that size in the shapes that nodes are given."""
    count = entries.stop - entries.start
    tensors = dict(case.tensors)
    for (name, axis), blocks in group:
        places = np.concatenate([np.arange(size)[entries] + block * size for block in range(blocks)])
        tensors[name] = replace(tensors[name], data=np.take(tensors[name].data, places, axis))

    def attribute(item: Any) -> Any:
        if isinstance(item, tuple) and all(type(part) is int for part in item):
            return tuple(count if part == size else part for part in item)
        return item

    def rule(builder: Any, _: int, node: Node, operands: Any) -> Any:
        changed = {n: attribute(item) if n == "shape" else item for n, item in node.attributes.items()}
        return append(builder, node.op, operands, changed if also_in_attributes else node.attributes)

    if also_in_attributes and not any("shape" in node.attributes for p in case.programs for node in p.nodes):
        raise ValueError("no node is given a shape")
    shapes = {name: tensor.data.shape for name, tensor in tensors.items()}
    first, second = (rebuild(_with_shapes(program, shapes), rule) for program in case.programs)
    return Case(first, second, tensors, case.gradients)


def _with_shapes(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> Program:
    """Return a program whose inputs have other shapes; its nodes have the types of before."""
    return with_inputs(program, {v: Value(v.name, Type(v.dtype, shapes[v.name])) for v in program.inputs})
