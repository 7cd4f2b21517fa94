"""Parameters in another layout, or exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import is_floating
from ....runtime.ops import slicing
from ....runtime.tracing import SymbolicTensor
from ....runtime.visible import visible_name
from ...results.cause import Cause
from ...sides.records import Array
from ..array_relations import relation
from ..cell_program import CellProgram
from ..evidence import Evidence
from .hypothesis import Hypothesis, with_changed_value, with_values

BLOCKS = (2, 3, 4)
"""The numbers of blocks that rows consist of: queries, keys and values, or the gates of a recurrent layer."""

MAX_LISTED = 4
"""The most parameters of which each one's relation to the reference's is listed."""

Change = Callable[[Array], Array]


def values(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield the parameters whose values in the candidate are known and differ, each and all together."""
    own_arrays = {name: p.data for name, p in cell.program.parameters.items()}
    candidate_arrays = {name: array for name, array in evidence.parameters.items() if name in own_arrays}
    other = {
        n: a
        for n, a in candidate_arrays.items()
        if a.shape == own_arrays[n].shape and not np.array_equal(a, own_arrays[n])
    }
    for name, array in other.items():
        shown = visible_name(name)
        others = {n: a for n, a in evidence.reference_parameters.items() if n != name}
        summary = f"{shown} {relation(own_arrays[name], array, others) or 'has other values'} in the candidate"
        cause = Cause("weight", summary, f"copy {shown} from the reference", attribute=name)
        yield Hypothesis(cause, partial(_with_arrays, cell.program, {name: array}))
    if len(other) > 1:
        cause = Cause("weight", _together(other, own_arrays, evidence), "copy them from the reference")
        yield Hypothesis(cause, partial(_with_arrays, cell.program, other))


def _together(other: Mapping[str, Array], own_arrays: Mapping[str, Array], evidence: Evidence) -> str:
    """Return what several parameters of the candidate are to the reference's, in words."""
    relations = {}
    for name, array in other.items():
        others = {n: a for n, a in evidence.reference_parameters.items() if n != name}
        relations[name] = relation(own_arrays[name], array, others)
    shown = [visible_name(name) for name in other]
    if len(set(relations.values())) == 1:
        how = relations.popitem()[1]
        return f"{_listed(shown)} {f'each {how}' if how else 'have other values'} in the candidate"
    if len(relations) > MAX_LISTED or not all(relations.values()):
        return f"{_listed(shown)} have other values in the candidate"
    parts = [f"{name} {how}" for name, how in zip(shown, relations.values(), strict=True)]
    return f"in the candidate, {_listed(parts)}"


def buffers(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield the buffers whose values in the candidate are known and differ, and those of another name that fit."""
    candidate_buffers = evidence.candidate.state.buffers
    for name, buffer in cell.program.buffers.items():
        array = candidate_buffers.get(name)
        if array is None:
            yield from _buffers_of_another_name(cell, name, candidate_buffers)
        if array is not None and array.shape == buffer.data.shape and not np.array_equal(array, buffer.data):
            shown = visible_name(name)
            summary = f"{shown} {relation(buffer.data, array, {}) or 'has other values'} in the candidate"
            cause = Cause("state", summary, f"copy {shown} from the reference", attribute=name)
            changed = {**cell.program.buffers, name: replace(buffer, data=array.astype(buffer.data.dtype))}
            yield Hypothesis(cause, partial(cell.program.replace, buffers=changed))


def _buffers_of_another_name(
    cell: CellProgram, name: str, candidate_buffers: Mapping[str, Array]
) -> Iterator[Hypothesis]:
    """Yield each buffer of the candidate that is the reference's but for a relation which has a name.

    That it has the values of another parameter or buffer of the Cell is such a relation.
    """
    buffer, shown = cell.program.buffers[name], visible_name(name)
    others = {n: parameter.data for n, parameter in cell.program.parameters.items()}
    others |= {n: other.data for n, other in cell.program.buffers.items() if n != name}
    for array in candidate_buffers.values():
        is_alike = array.shape == buffer.data.shape and is_floating(array.dtype) and is_floating(buffer.data.dtype)
        if is_alike and (how := relation(buffer.data, array, others)):
            cause = Cause(
                "state", f"{shown} {how} in the candidate", f"copy {shown} from the reference", attribute=name
            )
            changed = {**cell.program.buffers, name: replace(buffer, data=array.astype(buffer.data.dtype))}
            yield Hypothesis(cause, partial(cell.program.replace, buffers=changed))


def layouts(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each parameter in each other layout of the same shape."""
    for name, parameter in cell.program.parameters.items():
        for how, change in _changes(parameter.data):
            shown = visible_name(name)
            cause = Cause(
                "weight", f"{shown} {how} in the candidate", f"copy {shown} from the reference", attribute=name
            )
            yield Hypothesis(cause, partial(_with_data, cell.program, name, change))


def _changes(data: Array) -> Iterator[tuple[str, Change]]:
    if data.ndim >= 2 and data.shape[0] == data.shape[1]:
        yield "is transposed", lambda x: np.swapaxes(x, 0, 1)
    yield "is negated", lambda x: -x
    yield "is all zeros", np.zeros_like
    yield "is all ones", np.ones_like
    for axis, size in enumerate(data.shape):
        if size > 1:
            yield f"is reversed along axis {axis}", partial(np.flip, axis=axis)
        if size % 2 == 0:
            yield f"has its halves exchanged along axis {axis}", partial(np.roll, shift=size // 2, axis=axis)
            yield f"is interleaved along axis {axis}", partial(_interleave, axis=axis)
        if size % 3 == 0:
            yield f"has its thirds in the order 1, 0, 2 along axis {axis}", partial(_thirds, axis=axis)


def _interleave(data: Array, axis: int) -> Array:
    """Halves side by side as pairs: 0, n/2, 1, n/2 + 1, ..."""
    halves = np.split(data, 2, axis)
    return np.stack(halves, axis + 1).reshape(data.shape)


def _thirds(data: Array, axis: int) -> Array:
    first, second, third = np.split(data, 3, axis)
    return np.concatenate([second, first, third], axis)


def blocks(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield the blocks of rows of parameters, such as gates, read in each other order: of all parameters, and of each.

    Of each, the blocks of columns, too: a matrix may be multiplied from the other side. With all parameters of a norm,
    its statistics have the order of the channels.

    The candidate's parameters are the reference's, and so are the places of their gradients: what differs is the code.
    """
    program = cell.program
    rows: dict[int, list[str]] = {}
    arrays = {name: p.data for name, p in program.parameters.items()} | {n: b.data for n, b in program.buffers.items()}
    for name, array in arrays.items():
        if array.ndim:
            rows.setdefault(array.shape[0], []).append(name)
    several = [(names, 0) for names in rows.values() if len(names) > 1]
    alone = [([name], axis) for name, p in program.parameters.items() for axis in range(min(p.data.ndim, 2))]
    for names, axis in (*several, *alone):
        for order in orders_of_blocks(arrays[names[0]].shape[axis]):
            shown = _listed([visible_name(name) for name in names])
            what = "rows" if axis == 0 else "columns"
            of_which = f"the {len(order)} blocks of {what} of {shown}"
            summary = f"{of_which} are read in the order {_in_words(order)} in the candidate"
            attribute = names[0] if len(names) == 1 else ""
            yield Hypothesis(
                Cause("weight", summary, attribute=attribute),
                partial(_with_blocks, program, tuple(names), axis, order),
            )


def orders_of_blocks(rows: int) -> Iterator[tuple[int, ...]]:
    """Yield the orders, but the own, of as many blocks as a recurrent or attention layer stacks in its rows."""
    for count in BLOCKS:
        if rows % count == 0 and rows > count:
            yield from (order for order in permutations(range(count)) if order != tuple(range(count)))


def _with_blocks(program: Program, names: tuple[str, ...], axis: int, order: tuple[int, ...]) -> Program:
    def reordered(x: SymbolicTensor) -> SymbolicTensor:
        size = x.value.type.sizes[axis] // len(order)  # type: ignore[index]
        parts = [slicing.slice(x, starts=(n * size,), stops=((n + 1) * size,), steps=(1,), axes=(axis,)) for n in order]
        result: SymbolicTensor = slicing.concat(*parts, axis=axis)
        return result

    for name in names:
        stored = program.parameters.get(name) or program.buffers[name]
        program = with_changed_value(program, stored.value, reordered)
    return program


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _in_words(order: tuple[int, ...]) -> str:
    return ", ".join(map(str, order))


def exchanges(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield each two parameters of the Cell, of one shape, in each other's place: their numbers, then what uses them.

    Where the candidate's parameters are known to be the reference's, each has its own gradient, at the other's place.
    """
    parameters = cell.program.parameters
    for first, second in combinations(parameters, 2):
        data = [parameters[name].data for name in (first, second)]
        if data[0].shape == data[1].shape:
            summary = f"{visible_name(first)} and {visible_name(second)} are exchanged in the candidate"
            cause = Cause("weight", summary, attribute=first)
            yield Hypothesis(cause, partial(_exchanged, cell.program, first, second))
            known = [evidence.parameters.get(name) for name in (first, second)]
            if all(a is not None and np.array_equal(a, own) for a, own in zip(known, data, strict=True)):
                one, other = parameters[first].value, parameters[second].value
                yield Hypothesis(cause, partial(with_values, cell.program, {one: other, other: one}))


def _with_arrays(program: Program, arrays: Mapping[str, Array]) -> Program:
    changed = {name: replace(program.parameters[name], data=array) for name, array in arrays.items()}
    return program.replace(parameters={**program.parameters, **changed})


def _with_data(program: Program, name: str, change: Change) -> Program:
    parameter = program.parameters[name]
    changed = replace(parameter, data=np.ascontiguousarray(change(parameter.data)))
    return program.replace(parameters={**program.parameters, name: changed})


def _exchanged(program: Program, first: str, second: str) -> Program:
    return _with_arrays(program, {first: program.parameters[second].data, second: program.parameters[first].data})
