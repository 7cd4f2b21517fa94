"""Fewer nodes: the smallest part of two programs in which they still differ.

From the end: the first value that differs becomes the output. From the beginning: values that are the same in both
programs become inputs, the last ones first, so that often a single node remains.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.programs.interpreter import execute
from ...sides.records import Array
from ..alignment import align
from ..budget import BudgetSpentError
from ..rebuilding import INVALID
from .case import INPUT, Case, Tensor, part, values_of
from .gaps import difference
from .search import Search

SAME = 1e-10
"""Values are the same in both programs up to this difference, relative to the largest element."""

FED = "fed"
"""The name of a value that is put in the place of another."""

ValuePair = tuple[Value, Value]


@dataclass(frozen=True)
class _Pairs:
    """The values that correspond in the two programs of a case, in the order of the nodes."""

    values: list[tuple[ValuePair, Array, Array]]

    @classmethod
    def of(cls, case: Case) -> _Pairs:
        first, second = case.programs
        nodes = align(first, second, _leaves(first), _leaves(second))
        reference_values, candidate_values = (values_of(program, case.arrays(program)) for program in case.programs)
        pairs = [
            (v, w)
            for i, j in nodes or []
            if i is not None and j is not None
            for v, w in zip(first.nodes[i].outputs, second.nodes[j].outputs, strict=True)
        ]
        return cls([((v, w), reference_values[v], candidate_values[w]) for v, w in pairs])

    @property
    def same(self) -> list[tuple[ValuePair, Array]]:
        return [(pair, a) for pair, a, b in self.values if _agree(a, b)]

    @property
    def floating(self) -> list[ValuePair]:
        return [pair for pair, a, b in self.values if is_floating(a.dtype) and is_floating(b.dtype)]

    def are_one_place(self, case: Case, pair: ValuePair) -> bool:
        """Whether two values are the same place of both programs, so that a difference between them is the failure.

        They are if the candidate computes the reference's result from the reference's value. Where it is the gradients
        that differ, the values of one place are the same.
        """
        if pair == (case.reference.outputs[0], case.candidate.outputs[0]):
            return True
        reference_value, candidate_value = next((a, b) for other, a, b in self.values if other == pair)
        if reference_value.shape != candidate_value.shape:
            return False
        if case.gradients:
            return _agree(reference_value, candidate_value)
        rest = part(case.candidate, case.candidate.outputs[0], {pair[1]: Value(FED, pair[1].type)})
        arrays = [reference_value if value.name == FED else case.tensors[value.name].data for value in rest.inputs]
        try:
            (result,), (expected,) = execute(rest, arrays), execute(case.reference, case.arrays(case.reference))
        except INVALID:  # the candidate needs a value of another kind there
            return False
        return result.shape == expected.shape and _agree(expected, result)


def fewer_nodes(case: Case, search: Search) -> Case:
    """Return the case with fewer nodes, as far as the search comes."""
    pairs = _Pairs.of(case)

    def holds(candidate: Case) -> bool:
        try:
            return search.fails(candidate)
        except INVALID:
            return False

    output = (case.reference.outputs[0], case.candidate.outputs[0])
    with suppress(BudgetSpentError):
        for pair in pairs.floating:
            search.spend(case)
            if pairs.are_one_place(case, pair) and holds(_cut(case, pair, [])):
                output = pair
                break
    cuts: list[tuple[ValuePair, Array]] = []
    best = _cut(case, output, cuts)
    with suppress(BudgetSpentError):
        for pair, array in reversed(pairs.same):
            if pair[0] is output[0] or pair[1] is output[1] or not _computes(best.reference, pair[0]):
                continue
            attempt = _cut(case, output, [*cuts, (pair, array)])
            if _has_one_source(case, attempt, pair) and holds(attempt):
                cuts, best = [*cuts, (pair, array)], attempt
    return best


def _cut(case: Case, output: ValuePair, cuts: list[tuple[ValuePair, Array]]) -> Case:
    """Return the case with another output, and with values as inputs."""
    start = sum(name[0] == INPUT for name in case.tensors)
    tensors, reference_inputs, candidate_inputs = dict(case.tensors), {}, {}
    for number, ((v, w), array) in enumerate(cuts, start):
        new = Value(f"{INPUT}{number}", v.type)
        reference_inputs[v] = candidate_inputs[w] = new
        tensors[new.name] = Tensor(array, "a value that both sides compute alike")
    return Case(
        part(case.reference, output[0], reference_inputs),
        part(case.candidate, output[1], candidate_inputs),
        tensors,
        case.gradients,
    )


def _has_one_source(case: Case, attempt: Case, cut: ValuePair) -> bool:
    """Whether no program takes a cut value while the other one takes what it is computed from.

    Both would then start from numbers of their own, and differ for no reason of the candidate's.
    """
    *_, name = attempt.tensors  # the last one that was cut
    sources = {value.name for program, v in zip(case.programs, cut, strict=True) for value in part(program, v).inputs}
    input_names = [{value.name for value in program.inputs} for program in attempt.programs]
    return not any(
        name in other and name not in names and sources & names for names, other in (input_names, input_names[::-1])
    )


def _computes(program: Program, value: Value) -> bool:
    return any(value in node.outputs for node in program.nodes)


def _agree(a: Array, b: Array) -> bool:
    if a.dtype != b.dtype:
        return False
    size = float(np.abs(a).max(initial=0.0)) if is_floating(a.dtype) else 0.0
    return difference(a, b) <= SAME * size


def _leaves(program: Program) -> dict[Value, Hashable]:
    leaves: dict[Value, Hashable] = {value: value.name for value in program.inputs}
    return leaves | {c.value: ("constant", c.data.item()) for c in program.constants}
