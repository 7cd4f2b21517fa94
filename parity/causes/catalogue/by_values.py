"""Outputs in the place of which the candidate has another value of the Cell, changed or combined with a second one.

The recorded values say which: the changes are computed for every value of the reference's Cell, and compared with
what the candidate has at the outputs that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice, permutations, product

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Type, Value, is_floating
from ....runtime.ops import elementwise, reduction, shaping, slicing
from ....runtime.ops.registry import get
from ....runtime.programs.interpreter import execute
from ....runtime.tracing import Builder, SymbolicTensor
from ....runtime.visible import visible_name
from ...results.cause import Cause
from ...sides.records import OUTPUT, Array, Key
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import Passed, called_elsewhere, in_another_place, inner_cell_returning, name_of_value, returning_cell
from ..rebuilding import INVALID, append
from .dependencies import needed
from .hypothesis import Hypothesis
from .structure import ACTIVATIONS

MAX_ELEMENTS = 2**20
"""The largest output that is explained so."""
MAX_VALUES = 60
"""The most values of a Cell that are tried."""
MAX_TERMS = 3
"""The most terms of one output that are tried."""
MAX_CHOICES = 20
"""The most choices among the terms of several outputs."""
EQUAL = 1e-10
"""The largest difference of equal values, relative to the largest element."""
PAIRS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}

Change = Callable[[SymbolicTensor], SymbolicTensor]


@dataclass(frozen=True)
class Term:
    """What the candidate has at an output: a value that is changed, or two that are combined.

    Attributes:
        words: what it is, in words.
        values: the values of the Cell.
        combine: returns it, of these values.
    """

    words: str
    values: tuple[Value, ...]
    combine: Callable[..., SymbolicTensor]


def outputs(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield what explains all outputs and passed values that differ, if there are such terms for each of them."""
    program = cell.program
    values = _values(program)
    arrays = dict(zip(values, execute(program, cell.arrays, wanted=values), strict=True))
    terms: dict[int, list[Term]] = {}
    called = {(key.path, key.call) for key in evidence.candidate.values}
    not_called: list[str] = []
    for position, (value, key) in enumerate(zip(program.outputs, cell.output_keys, strict=True)):
        expected = evidence.candidate.values.get(key)
        if expected is None and key.kind != OUTPUT and (key.path, key.call) not in called:
            not_called.append(visible_name(key.path))
        if expected is None or not 0 < expected.size <= MAX_ELEMENTS:
            continue
        if value in arrays and _equal(arrays[value], expected):
            continue
        known = [v for v in arrays if position not in needed(cell, program, v)[1]]
        later = [v for v in arrays if v not in known]  # it is computed from what is passed here
        terms[position] = [*islice(_terms(cell, value, arrays, expected, known, later), MAX_TERMS)]
    if not terms:
        return
    for chosen in islice(product(*terms.values()), MAX_CHOICES):
        by_position = dict(zip(terms, chosen, strict=True))
        summary = _summary(cell, by_position, dict.fromkeys(not_called))
        yield Hypothesis(Cause("structure", summary), partial(_with_outputs, program, by_position))


def _summary(cell: CellProgram, terms: dict[int, Term], not_called: Iterable[str]) -> str:
    """Say which Cells are called elsewhere or not at all, and what is passed on."""
    parts = [f"{name} is left out of the candidate" for name in not_called]
    own_outputs = cell.program.outputs
    passed = []
    for n, term in terms.items():
        key = cell.output_keys[n]
        if (inner := inner_cell_returning(cell, own_outputs[n])) and own_outputs[n] not in term.values:
            parts.append(f"{visible_name(inner)} is left out of the candidate")
        paths = (returning_cell(cell, value) for value in (own_outputs[n], *term.values))
        passed.append(Passed(None if key.kind == OUTPUT else key.path, frozenset(p for p in paths if p is not None)))
    if moved := called_elsewhere(passed):
        parts.append(in_another_place(moved))
    for n, term in terms.items():
        output_name = place_of(cell.output_keys[n])
        parts.append(
            f"{output_name} is {term.words} in the candidate, {name_of_value(cell, own_outputs[n])} in the reference"
        )
    return "; ".join(parts)


def place_of(key: Key) -> str:
    """Return what an output of a Cell's program is, in words."""
    return "the result" if key.kind == OUTPUT else f"the value passed to {visible_name(key.path)}"


def _values(program: Program) -> list[Value]:
    """Return values of a Cell: what Cells inside it return, what it computes, the last first, and its parameters."""
    computed = [v for node in reversed(program.nodes) for v in node.outputs]
    values = [*reversed(program.inputs), *computed, *(p.value for p in program.parameters.values())]
    values += [constant.value for constant in program.constants if constant.data.size > 1]
    return [*dict.fromkeys(values)][:MAX_VALUES]


def _equal(array: Array, expected: Array) -> bool:
    if array.shape != expected.shape or is_floating(array.dtype) != is_floating(expected.dtype):
        return False
    if not is_floating(array.dtype):
        return np.array_equal(array, expected)
    with np.errstate(invalid="ignore"):
        off = np.abs(array - expected)
    return bool(np.all(off <= EQUAL * max(float(np.abs(expected).max(initial=0.0)), 1e-300)))


def _terms(
    cell: CellProgram,
    reference_value: Value,
    arrays: Mapping[Value, Array],
    expected: Array,
    known: Sequence[Value],
    later: Sequence[Value],
) -> Iterator[Term]:
    """Yield the terms with the candidate's value, the simplest first, and those of values known there before others."""
    in_order = {value: arrays[value] for value in (*known, *later)}
    for value, array in in_order.items():
        if value is not reference_value and _equal(array, expected):
            yield Term(name_of_value(cell, value), (value,), lambda x: x)
    for value, array in in_order.items():
        for words, change in _equal_changes(cell.program, value, array, expected):
            yield Term(f"{name_of_value(cell, value)} {words}", (value,), change)
    pairs = combinations([v for v in in_order if is_floating(v.dtype)], 2)
    for first, other in sorted(pairs, key=lambda pair: pair[1] in later):
        for op, function in PAIRS.items():
            for a, b in ((first, other), (other, first)) if op in ("sub", "div") else ((first, other),):
                if _could_give(arrays[a], arrays[b], expected):
                    with np.errstate(all="ignore"):
                        equal = _equal(function(arrays[a], arrays[b]), expected)
                    if equal:
                        words = f"{op} of {name_of_value(cell, a)} and {name_of_value(cell, b)}"
                        yield Term(words, (a, b), partial(_combined, op))


def _could_give(a: Array, b: Array, expected: Array) -> bool:
    """Whether two arrays can be combined to one of the expected shape."""
    try:
        shape: tuple[int, ...] = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return shape == tuple(expected.shape)


def _combined(op: str, a: SymbolicTensor, b: SymbolicTensor) -> SymbolicTensor:
    return append(a.builder, op, [a, b], get(op).attributes({}))[0]


def _equal_changes(program: Program, value: Value, array: Array, expected: Array) -> Iterator[tuple[str, Change]]:
    """Yield the changes of a value, in words, that give what is expected."""
    if array.size < expected.size:
        return
    entering = Value(value.name, Type(value.dtype, array.shape))
    builder = Builder.from_program(program.replace(nodes=(), inputs=(entering,)))
    tensor = SymbolicTensor(builder, entering)
    results: list[tuple[str, Change, Value]] = []
    for words, change in _changes(array.shape, expected.shape, is_floating(array.dtype)):
        try:
            result = change(tensor)
        except INVALID:
            continue
        if result.value.shape == expected.shape:
            results.append((words, change, result.value))
    changed = program.replace(
        inputs=(entering,), nodes=tuple(builder.nodes), constants=tuple(builder.constants), parameters={}, buffers={},
        outputs=tuple(result for _, _, result in results),
    )  # fmt: skip
    with np.errstate(all="ignore"):
        changed_arrays = execute(changed, (array,))
    for (words, change, _), changed_array in zip(results, changed_arrays, strict=True):
        if _equal(changed_array, expected):
            yield words, change


def _changes(shape: tuple[int, ...], target: tuple[int, ...], floating: bool) -> Iterator[tuple[str, Change]]:
    """Yield changes of a tensor of a shape, in words, after which it may have the wanted shape."""
    if shape == target:
        for axis, size in enumerate(shape):
            if size > 1:
                yield f"reversed along axis {axis}", partial(shaping.flip, axes=(axis,))
            for step in sorted({1, -1, size // 2} - {0}, key=abs) if size > 1 else ():
                yield f"rolled by {step} along axis {axis}", partial(shaping.roll, shifts=(step,), axes=(axis,))
        for op in ACTIVATIONS if floating else ():
            yield f"after {op}", partial(_activated, op)
        if floating:
            yield "negated", elementwise.neg
    if sorted(shape) == sorted(target):
        for order in permutations(range(len(shape))) if len(shape) <= 4 else ():
            if order != tuple(sorted(order)):
                yield f"with its axes in the order {order}", partial(shaping.transpose, permutation=order)
    for axes in _reduced(shape, target) if floating else ():
        along = f"axis {axes[0]}" if len(axes) == 1 else f"axes {axes}"
        for name, reduce in (
            ("mean", reduction.reduce_mean), ("sum", reduction.reduce_sum), ("largest element", reduction.reduce_max),
        ):  # fmt: skip
            yield f"as its {name} along {along}", partial(_reduced_to, target, partial(reduce, axes=axes))
        for which in ("first", "last"):
            change = partial(_reduced_to, target, partial(_element, axes, 0 if which == "first" else -1))
            yield f"as its {which} element along {along}", change


def _reduced(shape: tuple[int, ...], target: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield axes without which a shape has the wanted number of elements."""
    for count in (1, 2):
        for axes in combinations(range(len(shape)), count):
            sizes = [size for axis, size in enumerate(shape) if axis not in axes]
            if [size for size in sizes if size != 1] == [size for size in target if size != 1] and len(sizes) < len(
                shape
            ):
                yield axes


def _reduced_to(shape: tuple[int, ...], reduce: Change, x: SymbolicTensor) -> SymbolicTensor:
    result: SymbolicTensor = shaping.reshape(reduce(x), shape=shape)
    return result


def _element(axes: tuple[int, ...], position: int, x: SymbolicTensor) -> SymbolicTensor:
    starts = [0 if position == 0 else x.value.type.sizes[axis] - 1 for axis in axes]  # type: ignore[index]
    stops = [start + 1 for start in starts]
    result: SymbolicTensor = slicing.slice(
        x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * len(axes), axes=axes
    )
    return result


def _activated(op: str, x: SymbolicTensor) -> SymbolicTensor:
    return append(x.builder, op, [x], get(op).attributes({}))[0]


def _with_outputs(program: Program, terms: dict[int, Term]) -> Program:
    """Return the program with what the terms give in place of some outputs."""
    builder = Builder.from_program(program)
    outputs = list(program.outputs)
    for position, term in terms.items():
        outputs[position] = term.combine(*(SymbolicTensor(builder, value) for value in term.values)).value
    return program.replace(nodes=tuple(builder.nodes), constants=tuple(builder.constants), outputs=tuple(outputs))
