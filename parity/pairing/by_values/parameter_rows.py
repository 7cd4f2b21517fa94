"""Parameters that consist of rows of a module's: fused, divided, in another order, or with other axes.

A file has queries, keys and values in one product, or head by head; its rotary embedding pairs other rows; a weight of
a convolution over single pixels is that of a linear layer; experts are stacked. Each is an arrangement of rows of the
module's own parameters. The program is rewritten to hold those and to arrange them, so gradients are theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ...correspondence.layouts import Layout
from ...sides.records import Array
from ...sides.side import ParameterInfo
from .arrangements import Arrangement, Source, rewrite
from .fingerprints import row_fingerprints
from .tied_parameters import same_numbers

PartsOf = Callable[[str], Sequence[str]]
"""The names of a module's parameters that the Cell at a path holds and that no other Cell uses."""

MOST_AXES = 4


def with_rows_of_the_module(
    program: Program,
    infos: Mapping[str, ParameterInfo],
    users: Mapping[Value, Collection[str]],
    parts_of: PartsOf,
    as_they_are: Collection[str] = (),
) -> Program:
    """Return the program with parameters of a module in place of those that consist of their rows.

    Args:
        program: the program.
        infos: the module's parameters by name.
        users: paths of the Cells that use a parameter.
        parts_of: see `PartsOf`.
        as_they_are: parameters of the program that are left alone.
    """
    by_paths: dict[frozenset[str], list[str]] = {}
    for name, parameter in program.parameters.items():
        paths = frozenset(users.get(parameter.value, ()))
        has_partner = name in infos and infos[name].data.shape == parameter.data.shape
        if paths and not has_partner and parameter.data.size and name not in as_they_are:
            by_paths.setdefault(paths, []).append(name)
    arrangements: list[Arrangement] = []
    for paths, names in sorted(by_paths.items(), key=lambda item: len(item[0])):
        used = {source.name for arrangement in arrangements for source in arrangement.sources}
        free = {other: infos[other].data for path in sorted(paths) for other in parts_of(path)}
        free = {other: data for other, data in free.items() if other not in used | program.parameters.keys()}
        call = next(iter(paths)) if len(paths) == 1 else ""
        number = next(number for number, other in enumerate(program.calls) if other.path == call)
        of_cell = _of_cell({name: program.parameters[name].data for name in names}, free)
        arrangements += [replace(arrangement, cell=number) for arrangement in of_cell]
    return (
        rewrite(program, {name: info.data for name, info in infos.items()}, arrangements) if arrangements else program
    )


def _of_cell(parameters: Mapping[str, Array], free: Mapping[str, Array]) -> list[Arrangement]:
    """Return the arrangements of a Cell's parameters that take every row of the module's parameters that they use."""
    whole = {o for o, data in free.items() if any(same_numbers(data, other) for other in parameters.values())}
    of_rows = {other: data for other, data in free.items() if other not in whole}
    arrangements: list[Arrangement] = []
    for name in sorted(parameters, key=lambda name: -parameters[name].ndim):  # weights before biases
        data = parameters[name]
        arrangement = _like_the_weight(name, data, free, arrangements)  # first: biases may all be 0
        if arrangement is None and any(same_numbers(free[other], data) for other in whole):
            continue
        arrangement = arrangement or _arranged(name, data, of_rows) or _in_another_shape(name, parameters, of_rows)
        if arrangement is not None:
            arrangements.append(arrangement)
    while True:
        taken: dict[str, set[int]] = {}
        for arrangement in arrangements:
            for number, source in enumerate(arrangement.sources):
                taken.setdefault(source.name, set()).update(arrangement.rows_of(number).tolist())
        sizes = {source.name: source.layout.target[0] for a in arrangements for source in a.sources}
        complete = [a for a in arrangements if all(len(taken[s.name]) == sizes[s.name] for s in a.sources)]
        if len(complete) == len(arrangements):
            return arrangements
        arrangements = complete


def _arranged(name: str, data: Array, free: Mapping[str, Array]) -> Arrangement | None:
    """Return how an array is made of rows of others; None if a row is none of theirs, or several."""
    # a single row: the column of a weight that multiplies one feature
    rows_of_one = [_as_matrix(data.shape, ())] if sum(size > 1 for size in data.shape) == 1 else []
    for layout in (*readings(data.shape), *rows_of_one):
        matrix = layout.read(data)
        sources = [
            Source(other, reading)
            for other, array in free.items()
            for reading in readings_of_the_module(array.shape)
            if reading.target[1] == matrix.shape[1]
        ]
        count = sum(source.layout.target[0] for source in sources)
        if not sources or (matrix.shape[1] == 1 and len(matrix) > count):
            continue
        joined = np.concatenate([source.layout.read(free[source.name]) for source in sources])
        rows = _rows_among(matrix, joined)
        if rows is None:
            continue
        starts = np.cumsum([0, *(source.layout.target[0] for source in sources)])
        numbers = np.searchsorted(starts, rows, side="right") - 1
        kept = [sources[number] for number in dict.fromkeys(numbers.tolist())]  # in order of use
        if len({source.name for source in kept}) < len(kept):
            continue
        moved = {n: sum(s.layout.target[0] for s in kept[: kept.index(sources[n])]) for n in set(numbers.tolist())}
        rows = rows - starts[numbers] + np.array([moved[number] for number in numbers.tolist()])
        joined = np.concatenate([source.layout.read(free[source.name]) for source in kept])
        columns = _columns_among(matrix, joined[rows])
        if columns is not None:
            return Arrangement(name, tuple(kept), rows, columns, layout)
    return None


def _like_the_weight(
    name: str, data: Array, free: Mapping[str, Array], arrangements: Sequence[Arrangement]
) -> Arrangement | None:
    """Return how a bias is made of those of the modules whose weights were joined, though others have its numbers."""
    holder = name.rpartition(".")[0]
    for weight in arrangements:
        if weight.name.rpartition(".")[0] != holder or data.size != len(weight.rows):
            continue
        biases = []
        for source in weight.sources:
            module = source.name.rpartition(".")[0]
            fitting = (o for o, array in free.items() if array.shape == (source.layout.target[0],))
            biases.append(next((o for o in fitting if o.rpartition(".")[0] == module), ""))
        if all(biases) and same_numbers(np.concatenate([free[bias] for bias in biases])[weight.rows], data.reshape(-1)):
            sources = tuple(Source(bias, _as_column(free[bias].shape)) for bias in biases)
            return Arrangement(name, sources, weight.rows, np.zeros(1, int), _as_column(data.shape))
    return None


def _in_another_shape(name: str, parameters: Mapping[str, Array], free: Mapping[str, Array]) -> Arrangement | None:
    """Return the only array with the same numbers in the same order.

    Where numbers repeat, as the scales of a norm that are all 1 at first, rows can't be told from one another.
    """

    def same(array: Array, other: Array) -> bool:
        return array.size == other.size and same_numbers(array.reshape(-1), other.reshape(-1))

    data = parameters[name]
    partners = [other for other, array in free.items() if same(array, data)]
    if len(partners) != 1 or sum(same(array, data) for array in parameters.values()) > 1:
        return None
    (source,) = partners
    layouts = _as_column(free[source].shape), _as_column(data.shape)
    return Arrangement(name, (Source(source, layouts[0]),), np.arange(data.size), np.zeros(1, int), layouts[1])


def _rows_among(matrix: Array, joined: Array) -> Array | None:
    """Return for each row the number of the only row of `joined` with its numbers, in any order; None if one lacks."""
    row_prints, joined_prints = row_fingerprints(matrix), row_fingerprints(joined)
    unique, first, counts = np.unique(joined_prints, return_index=True, return_counts=True)
    places = np.minimum(np.searchsorted(unique, row_prints), len(unique) - 1)
    if not np.array_equal(unique[places], row_prints) or np.any(counts[places] > 1):
        return None
    return first[places]


def _columns_among(matrix: Array, rows: Array) -> Array | None:
    """Return for each column the number of the column of `rows` that is equal; None if one has none, or several."""
    if same_numbers(rows, matrix):
        return np.arange(matrix.shape[1])
    weights = 1 + 2 * np.arange(len(matrix), dtype=np.uint64)  # the order of rows counts
    column_prints, source_prints = row_fingerprints(matrix.T, weights), row_fingerprints(rows.T, weights)
    order = np.argsort(source_prints)
    places = np.minimum(np.searchsorted(source_prints[order], column_prints), len(order) - 1)
    columns = order[places]
    is_permutation = len(set(columns.tolist())) == len(columns)
    return columns if is_permutation and same_numbers(rows[:, columns], matrix) else None


def readings(shape: tuple[int, ...]) -> Iterator[Layout]:
    """Yield the ways to read an array as a matrix: some of its axes are rows, or all are, the others columns."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if len(axes) == 1:
        yield _as_column(shape)
    if not 2 <= len(axes) <= MOST_AXES:
        return
    for count in range(1, len(axes)):
        for rows in itertools.combinations(axes, count):
            yield _as_matrix(shape, rows)
    yield _as_column(shape)  # a bias of several heads


def readings_of_the_module(shape: tuple[int, ...]) -> Iterator[Layout]:
    """Yield the ways to read a module's array: the first axis, all but the last, or the last are rows."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if len(axes) == 1:
        yield _as_column(shape)
        if shape[0] == 1:
            yield _as_matrix(shape, (0,))  # a layer with one output
    elif axes:
        yield _as_matrix(shape, axes[:1])
        if len(axes) > 2:
            yield _as_matrix(shape, axes[:-1])
        yield _as_matrix(shape, axes[-1:])


def _as_column(shape: tuple[int, ...]) -> Layout:
    return Layout(shape, shape, tuple(range(len(shape))), (int(np.prod(shape)), 1))


def _as_matrix(shape: tuple[int, ...], rows: Sequence[int]) -> Layout:
    columns = [axis for axis in range(len(shape)) if axis not in rows]
    count = int(np.prod([shape[axis] for axis in rows]))
    return Layout(shape, shape, (*rows, *columns), (count, int(np.prod([shape[axis] for axis in columns]))))
