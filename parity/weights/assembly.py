"""A tensor of a port that is made of rows of the reference's: joined, divided, in another order, or with other axes.

In a map file it stands under the port's name:

    "attn.qkv.weight" = { from = ["q.weight", "k.weight", "v.weight"] }           # joined along axis 0
    "attn.q.weight" = { from = ["c_attn.weight"], from_axes = [1], rows = [[0, 24]] }  # columns 0 to 23, transposed
    "wq.weight" = { from = ["q.weight"], rows = [{ start = 0, sizes = [4, 4, 2], strides = [8, 1, 4] }] }
    "conv.weight" = { from = ["cat.weight"], columns = [[8, 16], [0, 8]] }        # halves of the columns exchanged
    "norm.weight" = { from = [{ computed = "affine", of = ["norm.weight"], plus = 1.0 }] }

Each tensor of `from` is read as a matrix whose rows run along its first axis, or along `from_axes`. The rows of all are
put one below the other. `rows` says which of them are taken, in order, and `columns` which columns: `[start, stop]`, or
a grid of `start + i * strides[0] + j * strides[1] ...`, the last index first. `padding` rows of zeros follow. The
result has the rows along its first axis, or along `axes`, and the given `shape`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from ..correspondence.name_patterns import fill_pattern
from .arrangements import Array, Arrays
from .computed import Computed, parse_computed

MOST_NUMBERS = 1 << 31
"""The most rows or columns that a line may ask for."""
_KEYS = {"from", "from_axes", "rows", "columns", "padding", "axes", "shape"}


@dataclass(frozen=True)
class Grid:
    """Numbers of rows or columns: `start` plus the sum of an index times a stride for each axis, in row-major order."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def numbers(self) -> Array:
        """Return the numbers."""
        result = np.asarray([self.start], np.int64)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            result = (result[:, None] + np.arange(size) * stride).reshape(-1)
        return result

    def as_toml(self) -> Any:
        """Return its value in a map file."""
        if len(self.sizes) == 1 and self.strides == (1,):
            return [self.start, self.start + self.sizes[0]]
        return {"start": self.start, "sizes": list(self.sizes), "strides": list(self.strides)}


@dataclass(frozen=True)
class Assembly:
    """How a tensor of a port is made of the reference's.

    Attributes:
        sources: names of the reference's tensors, or what is computed from them.
        shape: shape of the port's tensor.
        from_axes: the axes of each source along which its rows run.
        rows: the rows that are taken of all sources' rows; None for all.
        columns: the columns that are taken; None for all.
        axes: the axes of the port's tensor along which its rows run.
        padding: the number of rows of zeros after the others.
    """

    sources: tuple[str | Computed, ...]
    shape: tuple[int, ...] | None = None
    from_axes: tuple[int, ...] = (0,)
    rows: tuple[Grid, ...] | None = None
    columns: tuple[Grid, ...] | None = None
    axes: tuple[int, ...] = (0,)
    padding: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the reference's tensors that are used."""
        return tuple(dict.fromkeys(self.all_names))

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of the reference's tensors in the order in which they are used, each as often as it is."""
        return tuple(name for s in self.sources for name in (s.of if isinstance(s, Computed) else (s,)))

    def with_names(self, names: Iterable[str]) -> Assembly:
        """Return the assembly of other tensors, in the order of `all_names`."""
        new_names = iter(names)
        sources = tuple(
            replace(source, of=tuple(next(new_names) for _ in source.of))
            if isinstance(source, Computed)
            else next(new_names)
            for source in self.sources
        )
        return replace(self, sources=sources)

    def filled(self, texts: tuple[str, ...], pattern: str) -> Assembly:
        """Return the assembly with each `*` in its names filled by a text; `pattern` is the port's name."""
        return self.with_names(fill_pattern(name, texts, pattern) for name in self.all_names)

    def assemble(self, arrays: Arrays) -> Array:
        """Return the port's tensor; raise `UsageError` if the shapes don't fit."""
        read = [s.compute(arrays) if isinstance(s, Computed) else arrays[s] for s in self.sources]
        if self.is_plain:
            return read[0]
        matrices = [as_matrix(array, self.from_axes) for array in read]
        if len({matrix.shape[1] for matrix in matrices}) > 1:
            shapes = ", ".join(
                f"{source} {list(array.shape)}" for source, array in zip(self.sources, read, strict=True)
            )
            raise UsageError(f"tensors can't be joined, since their rows differ in length: {shapes}")
        matrix = np.concatenate(matrices)
        matrix = _taken(_taken(matrix, self.rows, 0), self.columns, 1)
        if self.padding:
            matrix = np.concatenate([matrix, np.zeros((self.padding, matrix.shape[1]), matrix.dtype)])
        if self.shape is None:
            is_vector = all(array.ndim == 1 for array in read)
            return matrix[:, 0] if is_vector else matrix
        if math.prod(self.shape) != matrix.size:
            raise UsageError(f"{matrix.shape[0]} rows of {matrix.shape[1]} don't fit the shape {list(self.shape)}")
        if not self.shape:
            return matrix.reshape(())
        order = (*self.axes, *(axis for axis in range(len(self.shape)) if axis not in self.axes))
        if any(axis >= len(self.shape) for axis in self.axes):
            raise UsageError(f"`axes` {list(self.axes)} don't fit the shape {list(self.shape)}")
        divided = matrix.reshape([self.shape[axis] for axis in order])
        return np.ascontiguousarray(divided.transpose(np.argsort(order)))

    @property
    def is_plain(self) -> bool:
        """Whether it is its only source as it is."""
        return len(self.sources) == 1 and replace(self, axes=(0,)) == Assembly(self.sources)

    def as_dict(self) -> dict[str, Any]:
        """Return its value in a map file."""
        sources = [source.as_dict() if isinstance(source, Computed) else source for source in self.sources]
        values: dict[str, Any] = {"from": sources}
        for key, axes in (("from_axes", self.from_axes), ("axes", self.axes)):
            if axes != (0,):
                values[key] = list(axes)
        for key, grids in (("rows", self.rows), ("columns", self.columns)):
            if grids is not None:
                values[key] = [grid.as_toml() for grid in grids]
        if self.padding:
            values["padding"] = self.padding
        if self.shape is not None:
            values["shape"] = list(self.shape)
        return values


def as_matrix(array: Array, row_axes: Sequence[int]) -> Array:
    """Return an array as a matrix whose rows run along some axes; a single number has one row."""
    if array.ndim == 0:
        return array.reshape(1, 1)
    if any(axis >= array.ndim for axis in row_axes):
        raise UsageError(f"rows along axes {list(row_axes)} need as many axes, given a tensor of {list(array.shape)}")
    order = (*row_axes, *(axis for axis in range(array.ndim) if axis not in row_axes))
    count = math.prod(array.shape[axis] for axis in row_axes)
    return array.transpose(order).reshape(count, -1)


def _taken(matrix: Array, grids: Sequence[Grid] | None, axis: int) -> Array:
    if grids is None:
        return matrix
    numbers = np.concatenate([grid.numbers() for grid in grids])
    what, size = ("rows", "columns")[axis], matrix.shape[axis]
    if numbers.size and (numbers.min() < 0 or numbers.max() >= size):
        raise UsageError(
            f"there are {what} 0 to {size - 1}, and {what} {numbers.min()} to {numbers.max()} are asked for"
        )
    return np.take(matrix, numbers, axis)


def parse_assembly(value: Mapping[str, Any], where: str) -> Assembly:
    """Return what a table of a map file with the key `from` says; raise `UsageError` if it has another form.

    Args:
        value: the table.
        where: the file and the line, for messages.
    """
    if unknown := value.keys() - _KEYS:
        raise UsageError(
            f"{where}: there are {', '.join(sorted(_KEYS))} beside `from`, given {', '.join(sorted(unknown))}"
        )
    origin = value["from"]
    items = [origin] if isinstance(origin, str) else origin
    if not isinstance(items, list) or not items:
        raise UsageError(f"{where}: `from` must be a name or a list of names, given {origin!r}")
    sources: list[str | Computed] = []
    for item in items:
        if isinstance(item, dict) and "computed" in item:
            sources.append(parse_computed(item, where))
        elif isinstance(item, str) and item and not item.endswith("."):
            sources.append(item)
        else:
            raise UsageError(f"{where}: `from` must have names, or tables with `computed`, given {item!r}")
    shape = value.get("shape")
    return Assembly(
        tuple(sources),
        None if shape is None else _integers("shape", shape, where),
        _axes("from_axes", value.get("from_axes", [0]), where),
        _grids("rows", value.get("rows"), where),
        _grids("columns", value.get("columns"), where),
        _axes("axes", value.get("axes", [0]), where),
        _padding(value.get("padding", 0), where),
    )


def _integers(key: str, value: Any, where: str, least: int = 0) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(item) is int and item >= least for item in value):
        raise UsageError(f"{where}: {key!r} must be a list of whole numbers, given {value!r}")
    return tuple(value)


def _axes(key: str, value: Any, where: str) -> tuple[int, ...]:
    axes = _integers(key, value, where)
    if not axes or len(set(axes)) < len(axes):
        raise UsageError(f"{where}: {key!r} must be different axes, given {value!r}")
    return axes


def _padding(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_NUMBERS:
        raise UsageError(f"{where}: 'padding' must be a number of rows up to {MOST_NUMBERS}, given {value!r}")
    return value


def _grids(key: str, value: Any, where: str) -> tuple[Grid, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        raise UsageError(f"{where}: {key!r} must be a list of [start, stop] or of grids, given {value!r}")
    grids = tuple(_grid(key, item, where) for item in value)
    if sum(math.prod(grid.sizes) for grid in grids) > MOST_NUMBERS:
        raise UsageError(f"{where}: {key!r} asks for more than {MOST_NUMBERS} of them")
    return grids


def _grid(key: str, item: Any, where: str) -> Grid:
    if isinstance(item, list) and len(item) == 2 and all(type(n) is int for n in item) and 0 <= item[0] < item[1]:
        return Grid(item[0], (item[1] - item[0],), (1,))
    if isinstance(item, dict) and item.keys() == {"start", "sizes", "strides"} and type(item["start"]) is int:
        sizes, strides = (
            _integers(part, item[part], where, least) for part, least in (("sizes", 1), ("strides", -MOST_NUMBERS))
        )
        if len(sizes) == len(strides) > 0:
            return Grid(item["start"], sizes, strides)
    raise UsageError(f"{where}: {key!r} has [start, stop], or a table with start, sizes and strides, given {item!r}")


def grids_of(numbers: Array) -> tuple[Grid, ...]:
    """Return the grids that numbers of rows or columns consist of, one after the other."""
    parts = [Grid(int(number), (), ()) for number in numbers]
    while True:
        joined = _joined(parts)
        if len(joined) == len(parts):
            return tuple(grid if grid.sizes else Grid(grid.start, (1,), (1,)) for grid in parts)
        parts = joined


def _joined(parts: Sequence[Grid]) -> list[Grid]:
    """Join neighbours of one form, whose starts are apart by one stride, to grids with an axis more."""
    joined: list[Grid] = []
    first = 0
    while first < len(parts):
        start = parts[first]
        last = first + 1
        if last < len(parts) and _is_alike(start, parts[last]) and (parts[last].start > start.start or not start.sizes):
            stride = parts[last].start - start.start
            while (
                last + 1 < len(parts)
                and _is_alike(start, parts[last + 1])
                and parts[last + 1].start - parts[last].start == stride
            ):
                last += 1
            count = last - first + 1
            if start.sizes and stride == start.strides[0] * start.sizes[0]:  # it goes on along its outermost axis
                joined.append(Grid(start.start, (start.sizes[0] * count, *start.sizes[1:]), start.strides))
            else:
                joined.append(Grid(start.start, (count, *start.sizes), (stride, *start.strides)))
            first = last + 1
        else:
            joined.append(start)
            first += 1
    return joined


def _is_alike(first: Grid, second: Grid) -> bool:
    return (first.sizes, first.strides) == (second.sizes, second.strides)
