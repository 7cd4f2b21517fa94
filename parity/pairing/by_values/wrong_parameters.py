"""Parameters of wrong Cells, paired by what they do: with the module's in their place, the Cell is right.

Where a port has its weights wrong, a transposed matrix or two norms exchanged, no numbers tell which parameter of the
file is which of the module's. The code of the Cell tells: it computes what the module does as soon as it is given the
module's parameters in the right arrangement.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ...causes.cell_program import Network
from ...correspondence.layouts import Layout
from ...sides.interpreter_side import InterpreterSide
from ...sides.records import Array, Records
from ...sides.run import FORWARD, ReferenceRun, Run
from .arrangements import Arrangement, Source, divided, rewrite
from .exchanged_parameters import with_exchanged_parameters
from .parameter_rows import readings, readings_of_the_module
from .parameters import ModuleParameters, PairedParameters, judged_holder, pair_parameters, users_of
from .right_cells import is_right, wrong_cells

MOST_TRIALS = 100
"""The most arrangements that are tried in a Cell."""
MOST_STEPS = 2000
"""The most steps of the search for them."""
MOST_ALONE = 32
"""The most parameters of a Cell that are tried alone."""
MOST_JOINED = 8
"""The most parameters of the module of which several are tried as one."""
MOST_NUMBERED = 1 << 20
"""The most elements of a parameter of which equal arrangements are told."""
MOST_BLOCKS = 4
"""The most blocks of rows of which each head has a part."""
MOST_OFFSETS = 16
"""The most rows, or blocks of them, by which a part of a table may begin too late."""
MOST_HEADS = 128
"""The most heads of which each has a part of each block."""
MOST_PARTS = 3
"""The most parameters of the module that one of the file's is made of."""

Row = tuple[str, int]
"""A parameter of the module, and the number of a row."""


def pair_all_parameters(
    program: Program, module: ModuleParameters, side_of: Callable[[PairedParameters], InterpreterSide], truth: Records
) -> PairedParameters:
    """Pair parameters by their numbers, and those of wrong Cells by what they do.

    In a wrong Cell, numbers in another arrangement may be a fault of the weights or of the code. If the Cell is right
    with the module's parameters, in whatever arrangement, the weights are at fault.

    Args:
        program: the file's program, with the module's boundaries.
        module: the module's parameters.
        side_of: makes a side of the program with paired parameters.
        truth: the records of the module in float64.
    """
    paired = pair_parameters(program, module)
    side = side_of(paired)
    wrong = wrong_cells(side, truth)
    if not wrong:
        return paired
    values = {parameter.value for name, parameter in paired.program.parameters.items() if name in paired.paired}
    changed = {name for name, parameter in program.parameters.items() if parameter.value not in values}
    users = users_of(program)
    suspects: dict[str, list[str]] = {}  # by a wrong Cell that uses them
    for name in sorted(changed):
        if of_cells := sorted(wrong.intersection(users.get(program.parameters[name].value, ()))):
            suspects.setdefault(of_cells[0], []).append(name)

    def put_right(names: Iterable[str]) -> tuple[PairedParameters, set[str]]:
        as_they_are = set(names)
        kept = {name for of_cell in suspects.values() for name in of_cell} - as_they_are
        while as_they_are:
            again = pair_parameters(program, module, as_they_are)
            rearranged, arranged = _with_wrong_parameters(again, kept, side_of(again), truth, module)
            if as_they_are <= arranged | again.paired:
                return rearranged, as_they_are
            as_they_are &= arranged | again.paired  # of the others, numbers decide
        return paired, as_they_are

    result, right = put_right(itertools.chain.from_iterable(suspects.values()))
    # those with rows of the module may be in another order beside weights that others are folded into
    in_rows = {
        cell: [name for name in names if name not in paired.program.parameters] for cell, names in suspects.items()
    }
    mixed = [rows for cell, rows in in_rows.items() if right.isdisjoint(rows) and len(rows) < len(suspects[cell])]
    if reordered := put_right(itertools.chain.from_iterable(mixed))[1]:
        result, right = put_right(reordered | right)
    rest = [names for names in suspects.values() if right.isdisjoint(names)]
    # in a Cell of many parameters the arrangements of all are too many: most often a single one is wrong
    rounds = itertools.islice(itertools.zip_longest(*rest), MOST_ALONE)
    alone = {name for names in rounds for name in put_right(filter(None, names))[0].corrected}
    if alone:
        result, _ = put_right(alone | right)
    names = {parameter.value: name for name, parameter in program.parameters.items()}
    return with_exchanged_parameters(result, names, _network(side_of(result), truth), wrong, truth, module)


def _network(side: InterpreterSide, truth: Records) -> Network:
    return Network.of(side, Run("float64", FORWARD, ReferenceRun.of(truth), feed=truth))


def _with_wrong_parameters(
    paired: PairedParameters, kept: Collection[str], side: InterpreterSide, truth: Records, module: ModuleParameters
) -> tuple[PairedParameters, set[str]]:
    """Return the parameters with those paired, too, that make a wrong Cell right if they are the module's.

    The second value has the names of these in the file. The parameters `kept` have the numbers that they have.
    """
    lacking = {name: info.data for name, info in module.infos.items() if name not in paired.paired}
    fixed = {*paired.paired, *kept}
    additional = {name: p for name, p in paired.program.parameters.items() if name not in fixed}
    if not lacking or not additional:
        return paired, set()
    network = _network(side, truth)
    judged = {call.path for call in paired.program.calls}
    used: dict[str, Arrangement] = {}
    for number, call in enumerate(paired.program.calls):
        free = {n: a for n, a in lacking.items() if judged_holder(n, judged) == call.path and n not in _sources(used)}
        if free:
            used |= _of_call(network, number, truth, free, additional.keys() - used.keys())
    if not used:
        return paired, set()
    numbers = divided(list(used.values()), {name: additional[name].data for name in used}, lacking)
    values = {paired.program.parameters[name].value.name for name in used}
    result = replace(
        paired,
        program=rewrite(paired.program, numbers, list(used.values())),
        paired=paired.paired | numbers.keys(),
        rounded=paired.rounded - values,
        computed=paired.computed - values,
        corrected={name: arrangement.arrange(lacking) for name, arrangement in used.items()},
        wrong=frozenset(numbers),
    )
    return result, set(used)


def _sources(used: Mapping[str, Arrangement]) -> set[str]:
    return {source.name for arrangement in used.values() for source in arrangement.sources}


def _of_call(
    network: Network, number: int, truth: Records, free: Mapping[str, Array], additional: Collection[str]
) -> dict[str, Arrangement]:
    """Return the arrangements of the module's parameters with which a call is right; none if it is right as it is."""
    try:
        cell = network.cut(number)
    except CellbridgeError:  # it can't be run alone
        return {}
    parameters = {n: p.data for n, p in cell.program.parameters.items() if n in additional}
    if not parameters or is_right(cell, {}, truth):
        return {}
    for arrangements in _arrangements(parameters, free):
        given = {name: arrangement.arrange(free) for name, arrangement in arrangements.items()}
        if is_right(cell, given, truth):
            return {name: replace(arrangement, cell=number) for name, arrangement in arrangements.items()}
    return {}


def _arrangements(parameters: Mapping[str, Array], free: Mapping[str, Array]) -> Iterator[dict[str, Arrangement]]:
    """Yield arrangements for all of these parameters that take each row of some of the module's once.

    First those in which matrices are read alike and biases are in the order of their matrices: one mistake moves both.
    Of these, half have matrices as they are first, and half in another layout: one framework lays all out alike.
    """
    ways = {name: list(_ways(name, array.shape, free)) for name, array in parameters.items()}
    possible = {name: options for name, options in ways.items() if options}
    turned = {name: sorted(options, key=_is_upright) for name, options in possible.items()}
    tried = set[tuple[int, ...]]()
    for options, alike, trials in (
        (possible, True, MOST_TRIALS // 2),
        (turned, True, MOST_TRIALS // 2),
        (possible, False, MOST_TRIALS),
    ):
        for arrangements in itertools.islice(_combined(options, alike=alike), trials):
            identity = tuple(map(id, arrangements.values()))
            if identity not in tried:
                tried.add(identity)
                yield arrangements


def _is_upright(way: Arrangement) -> bool:
    """Whether a parameter is read with its axes in their order."""
    return way.layout.permutation == tuple(sorted(way.layout.permutation))


def _combined(possible: Mapping[str, Sequence[Arrangement]], *, alike: bool) -> Iterator[dict[str, Arrangement]]:
    """Yield one of the arrangements for each parameter, together."""
    steps = itertools.count()

    def extended(
        names: Sequence[str], chosen: dict[str, Arrangement], taken: set[Row]
    ) -> Iterator[dict[str, Arrangement]]:
        if not names:
            uses = Counter(source.name for way in chosen.values() for source in way.sources)
            single = (way for way in chosen.values() if way.is_part and uses[way.sources[0].name] == 1)
            parts = {way.sources[0].name: len(way.rows) for way in single}
            sizes = {s.name: s.layout.target[0] for way in chosen.values() for s in way.sources} | parts
            if len(taken) == sum(sizes.values()):
                yield dict(chosen)
            return
        for way in possible[names[0]]:
            if alike and not _goes_with(way, list(chosen.values())):
                continue
            rows = {(s.name, row) for n, s in enumerate(way.sources) for row in way.rows_of(n).tolist()}
            if next(steps) < MOST_STEPS and taken.isdisjoint(rows):
                yield from extended(names[1:], {**chosen, names[0]: way}, taken | rows)

    if possible:
        by_width = sorted(possible, key=lambda name: len(possible[name][0].columns) == 1)  # biases after their matrices
        yield from extended(by_width, {}, set())


def _goes_with(way: Arrangement, chosen: Sequence[Arrangement]) -> bool:
    """Whether a matrix is read as those of its shape before it, or a bias has the rows of the matrix of its number."""
    if len(way.columns) > 1:
        return all(way.layout == other.layout for other in chosen if other.layout.source == way.layout.source)
    matrices = [other for other in chosen if len(other.columns) > 1 and len(other.rows) == len(way.rows)]
    number = sum(len(other.columns) == 1 and len(other.rows) == len(way.rows) for other in chosen)
    return number >= len(matrices) or np.array_equal(matrices[number].rows, way.rows)


def _ways(name: str, shape: tuple[int, ...], free: Mapping[str, Array]) -> Iterator[Arrangement]:
    """Yield the arrangements of one parameter or more, one after the other, in a shape; the simplest first."""
    identities = set[tuple[object, ...]]()
    joined = (itertools.permutations(free, n) for n in range(2, (MOST_PARTS if len(free) <= MOST_JOINED else 1) + 1))
    for of_count in (itertools.permutations(free, 1), _stacked(shape, free), *joined):
        for names in of_count:
            count = len(names)
            for layout, *of_sources in itertools.product(
                readings(shape), *(readings_of_the_module(free[other].shape) for other in names)
            ):
                rows = [reading.target[0] for reading in of_sources]
                columns = {reading.target[1] for reading in (layout, *of_sources)}
                row_count = layout.target[0]
                is_part = count == 1 and 1 < row_count < sum(rows) and min(columns) > 1
                if (
                    len(columns) > 1
                    or (sum(rows) % row_count and not is_part)
                    or (count > 1 and sum(rows) != row_count)
                ):
                    continue
                sources = tuple(Source(other, reading) for other, reading in zip(names, of_sources, strict=True))
                orders = _orders_of_columns(of_sources[0]) if count == 1 else [np.arange(columns.pop())]
                orders_of_both = itertools.product(_blocks(sum(rows), row_count), orders)
                for number, (taken, places) in enumerate(orders_of_both):
                    arrangement = Arrangement(name, sources, taken, places, layout)
                    identity: tuple[object, ...] = (names, number, layout, *of_sources)
                    if math.prod(shape) <= MOST_NUMBERED:  # other readings may be the same arrangement
                        identity = (names, arrangement.arrange(_numbered(free, names)).tobytes())
                    if identity not in identities:
                        identities.add(identity)
                        yield arrangement


def _stacked(shape: tuple[int, ...], free: Mapping[str, Array]) -> Iterator[tuple[str, ...]]:
    """Yield parameters of one shape in the module's order that have as many elements: experts, stacked."""
    of_shape: dict[tuple[int, ...], list[str]] = {}
    for name, array in free.items():
        of_shape.setdefault(array.shape, []).append(name)
    kinds: dict[tuple[tuple[int, ...], str], list[str]] = {}
    for other, names in of_shape.items():
        for name in names:
            kinds.setdefault((other, re.sub(r"\d+", "", name)), []).append(name)
    for (other, _), names in kinds.items():
        if len(names) > MOST_PARTS and len(names) * math.prod(other) == math.prod(shape):
            yield tuple(names)


def _blocks(count: int, block_size: int) -> Iterator[Array]:
    """Yield the rows of a block, of which there are several; then those with which each block has a part of each head.

    Where the rows aren't those of several blocks, they are a part of a table that begins at one of its first rows.

    Args:
        count: the number of all rows.
        block_size: the number of rows of a block.
    """
    if count % block_size:
        yield from (np.arange(start, start + block_size) for start in range(count - block_size + 1)[:MOST_OFFSETS])
        return
    parts = count // block_size
    for start in range(0, count, block_size)[:MOST_OFFSETS]:
        yield np.arange(start, start + block_size)
    for heads in (
        n for n in range(2, min(block_size, MOST_HEADS) + 1) if block_size % n == 0 and 1 < parts <= MOST_BLOCKS
    ):
        by_heads = np.arange(count).reshape(heads, parts, -1)
        for part in range(parts):
            yield by_heads[:, part].reshape(-1)


def _orders_of_columns(reading: Layout) -> list[Array]:
    """Return the orders in which a matrix may have its columns, whose numbers count along several axes: a patch's."""
    sizes = [reading.divided[axis] for axis in reading.permutation]
    rows = next(count for count in range(len(sizes) + 1) if math.prod(sizes[:count]) == reading.target[0])
    along = [size for size in sizes[rows:] if size > 1]
    numbers = np.arange(reading.target[1]).reshape(along)
    return [numbers.transpose(axes).reshape(-1) for axes in itertools.permutations(range(len(along)))]


def _numbered(free: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """Return arrays of the same shapes in which each element has another number."""
    sizes = np.cumsum([0, *(free[name].size for name in names)])
    return {
        name: np.arange(start, start + free[name].size).reshape(free[name].shape)
        for name, start in zip(names, sizes, strict=False)
    }
