"""The parameters of one pair of module and Cell, matched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...runtime.errors import UsageError
from ..pairing.cells import Pair
from ..pairing.layers import is_transposed_dense, kind_of_cell, kind_of_module, names
from .arrangements import Arrangement, Array, Axes, Constant

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Carried:
    """One Parameter of a Cell and what it is made of.

    Attributes:
        path: of the Parameter, by attribute names.
        parameter: the Parameter.
        module: path of the module that its Cell is the port of.
        arrangement: how it is made; None if it keeps its own value.
        how: "layer", "name", "shape", "given", "absent there" or "own value".
    """

    path: str
    parameter: Any
    module: str
    arrangement: Arrangement | None
    how: str

    @property
    def source(self) -> str:
        """What it is made of, in words."""
        if self.arrangement is None:
            return "its own value"
        words = ", ".join(filter(None, [*self.arrangement.sources, str(self.arrangement)]))
        return words or "nothing"

    @property
    def square(self) -> bool:
        """Whether it is a square matrix that is taken as it is, though no layer says how it is stored."""
        shape = tuple(self.parameter.shape)
        return self.how in ("name", "shape") and len(shape) == 2 and shape[0] == shape[1] > 1


@dataclass(frozen=True)
class WeightMismatch:
    """A parameter without counterpart, or that doesn't fit.

    Attributes:
        module: path of the module whose port is at fault.
        name: of the module's parameter, or path of the Cell's.
        shape: of it.
        reason: what is wrong.
    """

    module: str
    name: str
    shape: Shape
    reason: str


class Scope:
    """What isn't matched yet in one pair; the methods match, each in its way.

    Attributes:
        parameters: names of the module's parameters that are left.
        buffers: names of its buffers that are left.
        cell: Parameters of the Cell that are left, by path.
        carried: what was matched.
        mismatches: what was, but doesn't fit.
        ignored: buffers that no Cell has.
    """

    def __init__(
        self,
        pair: Pair,
        module: torch.nn.Module,
        of_cell: Any,
        parameters: list[str],
        buffers: list[str],
        cell: Mapping[str, Any],
        arrays: Mapping[str, Array],
        alias: Mapping[str, str],
    ) -> None:
        self.pair = pair
        self.module = module
        self.parameters = parameters
        self.cell = dict(cell)
        self.arrays = arrays
        self.alias = alias
        self.carried: list[Carried] = []
        self.mismatches: list[WeightMismatch] = []
        self.kind = kind_of_module(module), kind_of_cell(of_cell)
        self.names = names(self.kind[1])
        self.ignored = {n for n in buffers if n.rpartition(".")[2] in names(self.kind[0]).ignored}
        self.buffers = [n for n in buffers if n not in self.ignored]

    @property
    def is_layer(self) -> bool:
        """Whether both are layers of the frameworks, so that all is known about them."""
        return all(self.kind)

    def take(self, path: str, arrangement: Arrangement) -> None:
        """Match as the user says."""
        parameter = self.cell.pop(path)
        if isinstance(arrangement, Constant) and arrangement.array.ndim == 0:
            arrangement = Constant(np.full(tuple(parameter.shape), arrangement.array), arrangement.words)
        made = arrangement.there(self.arrays).shape
        if made != tuple(parameter.shape):
            raise UsageError(
                f"weights={{{path!r}: ...}} gives shape {list(made)}, the Parameter has {list(parameter.shape)}"
            )
        self.carried.append(Carried(path, parameter, self.pair.module, arrangement, "given"))
        self.use(arrangement.sources)

    def use(self, sources: tuple[str, ...]) -> None:
        """Strike off what was used."""
        self.parameters = [n for n in self.parameters if self.alias[n] not in sources]
        self.buffers = [n for n in self.buffers if self.alias[n] not in sources]

    def by_layer(self) -> None:
        """Match by the names of this kind of layer."""
        for path in list(self.cell):
            name = path.removeprefix(self._cell_prefix)
            there = self.names.of_cell.get(name)
            if there is not None and self._module_prefix + there in (*self.parameters, *self.buffers):
                self._match(path, self._module_prefix + there, "layer")
            elif name in self.names.absent and getattr(self.module, there or name, True) is None:
                parameter = self.cell.pop(path)
                value = np.full(tuple(parameter.shape), self.names.absent[name])
                constant = Constant(value, f"{self.names.absent[name]:g}: the module has none")
                self.carried.append(Carried(path, parameter, self.pair.module, constant, "absent there"))
                if parameter.requires_grad:
                    reason = "trained in the Cell, and the module was made without it; freeze it"
                    self.mismatches.append(WeightMismatch(self.pair.module, path, tuple(parameter.shape), reason))

    def by_name(self) -> None:
        """Match equal names."""
        for path in list(self.cell):
            name = self._module_prefix + path.removeprefix(self._cell_prefix)
            if name in (*self.parameters, *self.buffers):
                self._match(path, name, "layer" if self.is_layer else "name")

    def by_shape(self) -> None:
        """Match what is the only one of its shape on both sides."""
        for names_left in (self.parameters, self.buffers):
            for name in list(names_left):
                shape = self._shape(name)
                here = [path for path, p in self.cell.items() if tuple(p.shape) == shape]
                if len(here) == 1 and sum(self._shape(other) == shape for other in names_left) == 1:
                    self._match(here[0], name, "shape")

    def _match(self, path: str, name: str, how: str) -> None:
        parameter, shape = self.cell.pop(path), self._shape(name)
        wanted = tuple(parameter.shape)
        arrangement: Arrangement | None = None
        transposed = self.is_layer and len(shape) == 2 and is_transposed_dense(self.module)
        if transposed and shape[::-1] == wanted:
            arrangement = Axes(self.alias[name], shape, (1, 0))
        elif shape == wanted and not transposed:
            arrangement = Axes(self.alias[name], shape)
        elif self.names.unit_axes and [n for n in shape if n != 1] == [n for n in wanted if n != 1]:
            arrangement = Axes(self.alias[name], shape, unit_axes=wanted)
        elif len(shape) == 2 and shape == wanted[::-1] and not transposed:
            raise UsageError(
                f"{path} {list(wanted)} of the Cell {self.pair.cell_class} has the shape of {name} {list(shape)} with "
                f"its axes exchanged.\nIf it is stored so, say it: weights={{{path!r}: ({name!r}, 'transpose')}}; "
                f"for all Cells of this class: weights={{{self.pair.cell_class}: "
                f"{{{path.removeprefix(self._cell_prefix)!r}: ({name.removeprefix(self._module_prefix)!r}, "
                "'transpose')}}"
            )
        else:
            reason = f"shape {list(wanted)} in the Cell ({path}), needed {list(shape)}"
            self.mismatches.append(WeightMismatch(self.pair.module, name, shape, reason))
        self.carried.append(
            Carried(path, parameter, self.pair.module, arrangement, how if arrangement else "own value")
        )
        self.use((self.alias[name],))

    def _shape(self, name: str) -> Shape:
        return tuple(self.arrays[self.alias[name]].shape)

    @property
    def _cell_prefix(self) -> str:
        return f"{self.pair.cell}." if self.pair.cell else ""

    @property
    def _module_prefix(self) -> str:
        return f"{self.pair.module}." if self.pair.module else ""
