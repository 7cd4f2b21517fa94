"""The names of Cells and Parameters in a program: their paths in the traced Cell or function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..common.parameter import Parameter
from ..nn.cell import Cell
from ..tree import leaves


class Names:
    """Paths of the Cells, and qualified names of the Parameters, in a trace.

    Cells inside a Cell have their paths in it. The Cells that a function uses are named after its variables: a network
    in the variable `net` has the path `net`. Any other Cell is named after its class, below the Cell that calls it.

    Args:
        variables: the variables of the function by name, or the outermost Cell under the empty name.
        arguments: the arguments of the call by name.
    """

    def __init__(self, variables: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        self._paths: dict[int, tuple[str, Cell]] = {}
        self._parameters: dict[int, tuple[list[str], Parameter]] = {}
        self._taken: set[str] = set()
        roots = {
            name: getattr(value, "__wrapped__", value)  # a Cell may be jitted
            for name, value in variables.items()
            if name.isidentifier() or not name
        }
        for name, value in roots.items():
            for cell in (leaf for leaf in leaves(value) if isinstance(leaf, Cell)):
                self._add(cell, name if isinstance(value, Cell) else self._free(name))
        for name, value in arguments.items():
            for cell in (leaf for leaf in leaves(value) if isinstance(leaf, Cell)):
                self._add(cell, self._free(name))
        for name, value in roots.items():
            if isinstance(value, Parameter) and id(value) not in self._parameters:
                self._parameters[id(value)] = [self._free(name)], value

    @property
    def cells(self) -> list[Cell]:
        """The Cells that have a path."""
        return [cell for _, cell in self._paths.values()]

    @property
    def parameters(self) -> list[Parameter]:
        """The Parameters that have a name."""
        return [parameter for _, parameter in self._parameters.values()]

    def path(self, cell: Cell, caller: str) -> str:
        """Return the path of a Cell that the Cell at `caller` calls."""
        if id(cell) not in self._paths:
            stem = cell.cls_name if not caller else f"{caller}.{cell.cls_name}"
            self._add(cell, self._free(stem))
        return self._paths[id(cell)][0]

    def of_parameter(self, parameter: Parameter) -> tuple[str, ...]:
        """Return the qualified names of a Parameter; it is stored under the first."""
        if id(parameter) not in self._parameters:
            self._parameters[id(parameter)] = [self._free(parameter.name)], parameter
        return tuple(self._parameters[id(parameter)][0])

    def _add(self, cell: Cell, path: str) -> None:
        """Name a Cell, the Cells inside it, and their Parameters."""
        tuple_items: list[tuple[str, Parameter]] = []
        for inner_path, inner in cell.cells_and_names(name_prefix=path):
            if id(inner) in self._paths:
                continue
            self._paths[id(inner)] = inner_path, inner
            self._taken.add(inner_path)
            for name, parameter in inner._params.items():
                qualified = f"{inner_path}.{name}" if inner_path else name
                if "." in name:  # an item of a ParameterTuple, which stores items under their own names
                    tuple_items.append((qualified, parameter))
                else:
                    self._taken.add(qualified)
                    self._parameters.setdefault(id(parameter), ([], parameter))[0].append(qualified)
        for qualified, parameter in tuple_items:
            if id(parameter) not in self._parameters:
                self._parameters[id(parameter)] = [self._free(qualified)], parameter

    def _free(self, stem: str) -> str:
        name, count = stem, 0
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name
