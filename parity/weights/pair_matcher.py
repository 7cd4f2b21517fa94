"""Matching the parameters of one pair of module and Cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...runtime.errors import UsageError
from ..correspondence.cells import Pair
from ..correspondence.layers import is_transposed_dense, kind_of_cell, kind_of_module, names
from .arrangements import Arrangement, Array, Axes, FixedValue, table_advice

Shape = tuple[int, ...]


@dataclass(frozen=True)
class CarriedParameter:
    """A Parameter of a Cell, and the source of its value.

    Attributes:
        path: path of the Parameter, by attribute names.
        parameter: the Parameter.
        module: path of the module that its Cell is the port of.
        arrangement: how it is computed; None if it keeps its own value.
        how: "layer", "name", "shape", "given", "absent there" or "own value".
    """

    path: str
    parameter: Any
    module: str
    arrangement: Arrangement | None
    how: str

    @property
    def source(self) -> str:
        """Description of the source."""
        if self.arrangement is None:
            return "its own value"
        words = ", ".join(filter(None, [*self.arrangement.sources, str(self.arrangement)]))
        return words or "nothing"

    @property
    def square(self) -> bool:
        """Whether it is a square matrix used unchanged, though no layer tells how it is stored."""
        shape = tuple(self.parameter.shape)
        return self.how in ("name", "shape") and len(shape) == 2 and shape[0] == shape[1] > 1


@dataclass(frozen=True)
class WeightMismatch:
    """A parameter without a counterpart, or with one that doesn't fit.

    Attributes:
        module: path of the module whose port is wrong.
        name: name of the module's parameter, or path of the Cell's.
        shape: its shape.
        reason: explanation.
    """

    module: str
    name: str
    shape: Shape
    reason: str


class PairMatcher:
    """The unmatched parameters of one pair, with methods that match them in several ways.

    Attributes:
        parameters: names of the module's unmatched parameters.
        buffers: names of its unmatched buffers.
        cell: unmatched Parameters of the Cell, by path.
        entries: matched Parameters.
        mismatches: matched Parameters that don't fit.
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
        self.entries: list[CarriedParameter] = []
        self.mismatches: list[WeightMismatch] = []
        self.kind = kind_of_module(module), kind_of_cell(of_cell)
        self.names = names(self.kind[1])
        self.ignored = {n for n in buffers if n.rpartition(".")[2] in names(self.kind[0]).ignored}
        self.buffers = [n for n in buffers if n not in self.ignored]
        self.tied: list[str] = []  # names of this pair for what is matched already by another name

    @property
    def is_layer(self) -> bool:
        """Whether both are layers of the frameworks, whose parameters are all known."""
        return all(self.kind)

    def match_explicit(self, path: str, arrangement: Arrangement) -> None:
        """Match a Parameter with the user's arrangement."""
        parameter = self.cell.pop(path)
        if isinstance(arrangement, FixedValue) and arrangement.array.ndim == 0:
            arrangement = FixedValue(np.full(tuple(parameter.shape), arrangement.array), arrangement.words)
        shape = arrangement.to_cell(self.arrays).shape
        if shape != tuple(parameter.shape):
            raise UsageError(
                f"weights={{{path!r}: ...}} gives shape {list(shape)}, the Parameter has {list(parameter.shape)}"
                f"{table_advice(shape, tuple(parameter.shape))}"
            )
        self.entries.append(CarriedParameter(path, parameter, self.pair.module, arrangement, "given"))
        self.mark_used(arrangement.sources)

    def mark_used(self, sources: tuple[str, ...]) -> None:
        """Remove the sources from the unmatched parameters and buffers."""
        self.tied += [n for n in self.parameters if self.alias[n] in sources and self._is_tied(n)]
        self.parameters = [n for n in self.parameters if self.alias[n] not in sources]
        self.buffers = [n for n in self.buffers if self.alias[n] not in sources]

    def match_by_layer(self) -> None:
        """Match by the names of this kind of layer."""
        for path in list(self.cell):
            name = path.removeprefix(self._cell_prefix)
            module_name = self.names.of_cell.get(name)
            if module_name is not None and self._module_prefix + module_name in (
                *self.parameters,
                *self.buffers,
                *self.tied,
            ):
                self._match(path, self._module_prefix + module_name, "layer")
            elif name in self.names.absent and getattr(self.module, module_name or name, True) is None:
                parameter = self.cell.pop(path)
                value = np.full(tuple(parameter.shape), self.names.absent[name])
                constant = FixedValue(value, f"{self.names.absent[name]:g}: the module has none")
                self.entries.append(CarriedParameter(path, parameter, self.pair.module, constant, "absent there"))
                if parameter.requires_grad:
                    reason = "trained in the Cell, and the module was created without it; freeze it"
                    self.mismatches.append(WeightMismatch(self.pair.module, path, tuple(parameter.shape), reason))

    def match_by_name(self) -> None:
        """Match equal names."""
        for path in list(self.cell):
            name = self._module_prefix + path.removeprefix(self._cell_prefix)
            if name in (*self.parameters, *self.buffers, *self.tied):
                self._match(path, name, "layer" if self.is_layer else "name")

    def match_by_shape(self) -> None:
        """Match parameters whose shape occurs once on both sides."""
        for unmatched in (self.parameters, self.buffers):
            for name in list(unmatched):
                shape = self._shape(name)
                paths = [path for path, p in self.cell.items() if tuple(p.shape) == shape]
                if len(paths) == 1 and sum(self._shape(other) == shape for other in unmatched) == 1:
                    self._match(paths[0], name, "shape")

    def _match(self, path: str, name: str, how: str) -> None:
        parameter, shape = self.cell.pop(path), self._shape(name)
        needed = tuple(parameter.shape)
        arrangement: Arrangement | None = None
        is_transposed = self.is_layer and len(shape) == 2 and is_transposed_dense(self.module)
        if is_transposed and shape[::-1] == needed:
            arrangement = Axes(self.alias[name], shape, (1, 0))
        elif shape == needed and not is_transposed:
            arrangement = Axes(self.alias[name], shape)
        elif self.names.unit_axes and [n for n in shape if n != 1] == [n for n in needed if n != 1]:
            arrangement = Axes(self.alias[name], shape, unit_axes=needed)
        elif len(shape) == 2 and shape == needed[::-1] and not is_transposed:
            raise UsageError(
                f"{path} {list(needed)} of the Cell {self.pair.cell_class} has the shape of {name} {list(shape)} with "
                f"its axes exchanged.\nIf it is stored that way, give weights={{{path!r}: ({name!r}, 'transpose')}}; "
                f"for all Cells of this class: weights={{{self.pair.cell_class}: "
                f"{{{path.removeprefix(self._cell_prefix)!r}: ({name.removeprefix(self._module_prefix)!r}, "
                "'transpose')}}"
            )
        else:
            reason = f"shape {list(needed)} in the Cell ({path}), needed {list(shape)}"
            if advice := table_advice(shape, needed):
                reason += f"{advice} in weights={{{path!r}: ({name!r}, ...)}}"
            self.mismatches.append(WeightMismatch(self.pair.module, name, shape, reason))
        self.entries.append(
            CarriedParameter(path, parameter, self.pair.module, arrangement, how if arrangement else "own value")
        )
        self.mark_used((self.alias[name],))

    def _is_tied(self, name: str) -> bool:
        return list(self.alias.values()).count(self.alias[name]) > 1

    def _shape(self, name: str) -> Shape:
        return tuple(self.arrays[self.alias[name]].shape)

    @property
    def _cell_prefix(self) -> str:
        return f"{self.pair.cell}." if self.pair.cell else ""

    @property
    def _module_prefix(self) -> str:
        return f"{self.pair.module}." if self.pair.module else ""
