"""Containers of Cells, in order or by name: `SequentialCell`, `CellList`, `CellDict`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, Self

from ..cell import Cell


class _Container(Cell):
    """The common part of the containers: children by name, and Parameters named after them."""

    def __len__(self) -> int:
        return len(self._cells)

    def _put(self, key: str, cell: Any) -> None:
        """Set `cell` as the child `key`, at the end if the key is new, and name its Parameters after the key."""
        self._check_cell(cell)
        self._cells[key] = cell
        self._name_parameters(key)

    def _name_parameters(self, key: str) -> None:
        if self._auto_prefix:
            self._cells[key].update_parameters_name(f"{self._parameter_prefix}{key}.")

    def _check_cell(self, cell: Any) -> None:
        if not isinstance(cell, Cell):
            raise TypeError(
                f"For '{self.cls_name}', each element must be a Cell, but got {type(cell).__name__}: {cell!r}"
            )


class _Ordered(_Container):
    """A container with ordered children; unnamed children are named by their position."""

    def __iter__(self) -> Iterator[Cell]:
        return iter(list(self._cells.values()))

    def __getitem__(self, index: Any) -> Any:
        """Return the child at an index (negative: from the end; `IndexError` beyond), or a container of a slice."""
        if isinstance(index, slice):
            part = SequentialCell() if isinstance(self, SequentialCell) else CellList()
            part._rearrange(list(self._cells.items())[index])
            return part
        return self._cells[self._key(index)]

    def __setitem__(self, index: int, cell: Cell) -> None:
        """Replace the child at an index."""
        self._put(self._key(index), cell)

    def __delitem__(self, index: Any) -> None:
        """Remove the child at an index, or a slice; later children move up, and their names change accordingly."""
        keys = list(self._cells)[index] if isinstance(index, slice) else [self._key(index)]
        self._rearrange([(key, cell) for key, cell in self._cells.items() if key not in keys], rename=True)

    def append(self, cell: Cell) -> None:
        """Add a Cell at the end; `TypeError` for anything else."""
        key = str(len(self))
        if key in self._cells:
            raise KeyError(f"For '{self.cls_name}', the new element would be named {key!r}, but that name is taken")
        self._put(key, cell)

    def _key(self, index: Any) -> str:
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError(f"For '{self.cls_name}', the index must be int or slice, but got {type(index).__name__}")
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"For '{self.cls_name}', the index must be in range [{-len(self)}, {len(self)}), but got {index}"
            )
        return list(self._cells)[index]

    def _rearrange(self, items: Iterable[tuple[str, Cell]], rename: bool = False) -> None:
        """Replace the children by `items`; numeric names become positions."""
        before = dict(self._cells)
        self._cells.clear()
        for position, (key, cell) in enumerate(items):
            name = str(position) if key.isdigit() else key
            self._cells[name] = cell
            if rename and before.get(name) is not cell:
                self._name_parameters(name)


class SequentialCell(_Ordered):
    """Runs Cells in sequence, each on the output of the previous one; without Cells, returns its input.

    Args:
        args: a list of Cells, the Cells themselves, or an `OrderedDict` of Cells by name.

    Inputs:
        - **x** - the input of the first Cell.

    Outputs:
        The output of the last Cell.

    Raises:
        TypeError: the argument has another type, or an element isn't a Cell.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        cells: Any = args[0] if len(args) == 1 and not isinstance(args[0], Cell) else list(args)
        if not isinstance(cells, (list, OrderedDict)):
            raise TypeError(
                f"For '{self.cls_name}', the argument must be a Cell, a list or an OrderedDict of Cells, but got "
                f"{type(cells).__name__}"
            )
        items = cells.items() if isinstance(cells, OrderedDict) else ((str(i), cell) for i, cell in enumerate(cells))
        for name, cell in items:
            self._check_cell(cell)
            self.insert_child_to_cell(name, cell)
            self._name_parameters(name)

    @property
    def cell_list(self) -> list[Cell]:
        """The Cells in order."""
        return list(self)

    def construct(self, input_data: Any) -> Any:
        """Run the Cells in order."""
        for cell in self._cells.values():
            input_data = cell(input_data)
        return input_data


class CellList(_Ordered):
    """A list of Cells. It can't be called: index it, or iterate over it.

    Args:
        args: the list; by default empty.
        auto_prefix: whether Parameters are named after their position.

    Raises:
        TypeError: the argument isn't a list, or an element isn't a Cell, or is a `CellDict`.
    """

    def __init__(self, *args: list[Cell], auto_prefix: bool = True) -> None:
        super().__init__(auto_prefix)
        if len(args) > 1:
            raise TypeError(f"For '{self.cls_name}', needed one list of Cells, but got {len(args)} arguments")
        if args:
            self.extend(args[0])

    def extend(self, cells: list[Cell]) -> Self:
        """Add the Cells of a list at the end. Returns this list."""
        if not isinstance(cells, list):
            raise TypeError(f"For '{self.cls_name}', needed a list of Cells, but got {type(cells).__name__}")
        for cell in cells:
            self._check_cell(cell)
        for cell in cells:
            self.append(cell)
        return self

    __iadd__ = extend

    def insert(self, index: int, cell: Cell) -> None:
        """Insert a Cell before an index; later children move down, and their names change accordingly."""
        self._check_cell(cell)
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError(f"For '{self.cls_name}', the index must be int, but got {type(index).__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexError(
                f"For '{self.cls_name}', the index must be in range [{-len(self)}, {len(self)}], but got {index}"
            )
        items = list(self._cells.items())
        items.insert(index, ("0", cell))
        self._rearrange(items, rename=True)

    def construct(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise `NotImplementedError`: a list can't be called."""
        raise NotImplementedError(f"{self.cls_name} can't be called: call its elements, e.g. in a loop over it")

    def _check_cell(self, cell: Any) -> None:
        super()._check_cell(cell)
        if isinstance(cell, CellDict):
            raise TypeError(f"For '{self.cls_name}', an element must not be a CellDict")


class CellDict(_Container):
    """A dictionary of Cells by name. It can't be called.

    Args:
        args: a mapping, or an iterable of pairs `(name, Cell)`; by default empty.
        auto_prefix: whether Parameters are named after their key.

    Raises:
        TypeError: the argument is neither, a key isn't a string, an element isn't a Cell, or an element is a container.
        ValueError: an element of the iterable isn't a pair.
        KeyError: a key is empty, contains a dot, or is the name of an attribute of Cells.
    """

    def __init__(self, *args: Any, auto_prefix: bool = True) -> None:
        super().__init__(auto_prefix)
        if len(args) > 1:
            raise TypeError(f"For '{self.cls_name}', needed one mapping of Cells, but got {len(args)} arguments")
        if args:
            self.update(args[0])

    def __getitem__(self, key: str) -> Cell:
        """The Cell of that name; `KeyError` if there is none."""
        return self._cells[key]

    def __setitem__(self, key: str, cell: Cell) -> None:
        """Set the Cell of that name."""
        if not isinstance(key, str):
            raise TypeError(f"For '{self.cls_name}', a key must be a string, but got {type(key).__name__}: {key!r}")
        if not key or "." in key:
            raise KeyError(f"For '{self.cls_name}', a key must not be empty or contain a dot, but got {key!r}")
        if key not in self._cells and hasattr(self, key):
            raise KeyError(f"For '{self.cls_name}', a key must not be the name of an attribute, but got {key!r}")
        self._put(key, cell)

    def __delitem__(self, key: str) -> None:
        """Remove the Cell of that name."""
        del self._cells[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __contains__(self, key: object) -> bool:
        return key in self._cells

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._cells.keys()

    def values(self) -> Iterable[Cell]:
        """The Cells."""
        return self._cells.values()

    def items(self) -> Iterable[tuple[str, Cell]]:
        """Pairs of name and Cell."""
        return self._cells.items()

    def clear(self) -> None:
        """Remove all Cells."""
        self._cells.clear()

    def pop(self, key: str) -> Cell:
        """Remove the Cell of that name and return it; `KeyError` if there is none."""
        return self._cells.pop(key)

    def update(self, cells: Any) -> None:
        """Set Cells from a mapping or an iterable of pairs."""
        if isinstance(cells, (Mapping, CellDict)):
            cells = cells.items()
        elif not isinstance(cells, Iterable):
            raise TypeError(
                f"For '{self.cls_name}', needed a mapping or an iterable of pairs (name, Cell), but got "
                f"{type(cells).__name__}"
            )
        for position, item in enumerate(cells):
            if not isinstance(item, Iterable):
                raise TypeError(
                    f"For '{self.cls_name}', element {position} must be a pair (name, Cell), but got "
                    f"{type(item).__name__}"
                )
            pair = tuple(item)
            if len(pair) != 2:
                raise ValueError(f"For '{self.cls_name}', element {position} must have length 2, but has {len(pair)}")
            self[pair[0]] = pair[1]

    def construct(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise `NotImplementedError`: a dictionary can't be called."""
        raise NotImplementedError(f"{self.cls_name} can't be called: call its elements")

    def _check_cell(self, cell: Any) -> None:
        super()._check_cell(cell)
        if isinstance(cell, _Container):
            raise TypeError(f"For '{self.cls_name}', an element must not be a container, but got {cell.cls_name}")
