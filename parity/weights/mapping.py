"""Which Parameter of the Cells is made of which parameter of the modules: as given, by layers, by names, by shapes.

Within a pair, what the user gives comes first, then the names of its kind of layer (`gamma` is `weight`), then equal
names, then, for the user's own blocks, shapes that occur once on both sides. Whether a matrix is stored transposed is
never concluded from its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...runtime.programs.call import as_array
from ..pairing.cells import Pairing
from .arrangements import Array
from .overrides import Overrides
from .scope import Carried, Scope, WeightMismatch
from .unclear import refuse_what_is_left


@dataclass
class Weights:
    """The whole mapping.

    Attributes:
        arrays: the module's parameters and buffers by name, in the working dtype; shared ones once.
        trainable: whether it is trained, by name of the module's parameter.
        carried: one entry for each Parameter and place in the Cells.
        mismatches: what the report must show.
        ignored: buffers of the module that no Cell has.
        unseen: parameters of the module whose gradient can't be told from the Cell's.
    """

    arrays: dict[str, Array]
    trainable: dict[str, bool]
    carried: list[Carried] = field(default_factory=list)
    mismatches: list[WeightMismatch] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)

    def unique(self) -> list[Carried]:
        """One entry for each Parameter, the first."""
        return list({id(entry.parameter): entry for entry in reversed(self.carried)}.values())[::-1]

    def value(self, entry: Carried) -> Array:
        """What a Parameter is to hold."""
        if entry.arrangement is None:
            return np.asarray(entry.parameter.asnumpy())
        return entry.arrangement.there(self.arrays)

    def back(self, arrays: Mapping[int, Array | None]) -> dict[str, Array]:
        """The module's arrays (or gradients), from those of the Parameters by `id`; parts of one are added up."""
        found: dict[str, Array] = {}
        for entry in self.unique():
            array = arrays.get(id(entry.parameter))
            if entry.arrangement is not None and array is not None:
                for name, part in entry.arrangement.back(array).items():
                    found[name] = found[name] + part if name in found else part
        return found

    def left_buffers(self) -> list[str]:
        """The module's buffers that no Parameter is made of."""
        return [name for name in self.arrays if name not in self.trainable and not self.of(name)]

    def of(self, name: str) -> list[Carried]:
        """The entries that are made of the module's parameter `name`."""
        return [e for e in self.unique() if e.arrangement is not None and name in e.arrangement.sources]


def carry(
    module: torch.nn.Module,
    cell: Any,
    pairing: Pairing,
    given: Mapping[Any, Any] | None = None,
    working_dtype: torch.dtype = torch.float32,
) -> Weights:
    """Find the mapping.

    Args:
        module: the reference.
        cell: its port.
        pairing: of the two.
        given: what the user says; see `overrides`.
        working_dtype: of the values.

    Raises:
        UsageError: parameters are left on both sides of a pair; a matrix has the shape of its counterpart with its axes
            exchanged; or what is given isn't there or doesn't fit.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    buffers = {n: b for n, b in module.named_buffers(remove_duplicate=False) if n not in parameters}
    held = parameters | buffers
    first = {id(tensor): name for name, tensor in reversed(held.items())}
    alias = {name: first[id(tensor)] for name, tensor in held.items()}
    arrays = {name: _array(tensor, working_dtype) for name, tensor in held.items() if alias[name] == name}
    weights = Weights(arrays, {name: p.requires_grad for name, p in module.named_parameters()})
    of_cells = dict(_places(cell))
    overrides = Overrides(given or {}, of_cells, alias, arrays)
    ours, our_buffers = _by_pair(parameters, pairing.cell_of), _by_pair(buffers, pairing.cell_of)
    theirs = _by_pair(of_cells, pairing.module_of)
    cells = dict(cell.cells_and_names())
    scopes: list[Scope] = []
    for pair in pairing.pairs:
        here = {path: of_cells[path] for path in theirs.get(pair.cell, [])}
        scope = Scope(
            pair,
            module.get_submodule(pair.module),
            cells[pair.cell],
            ours.get(pair.module, []),
            our_buffers.get(pair.module, []),
            here,
            arrays,
            alias,
        )
        scopes.append(scope)
        for path, arrangement in overrides.of(pair, cells[pair.cell], list(here)).items():
            scope.take(path, arrangement)
    overrides.require_used()
    taken = tuple(name for scope in scopes for entry in scope.carried for name in _sources(entry))
    for scope in scopes:
        scope.use(taken)
        scope.by_layer()
        scope.by_name()
    taken = tuple(name for scope in scopes for entry in scope.carried for name in _sources(entry))
    for scope in scopes:
        scope.use(taken)  # a shared one is there already, whatever it is called here
        if not scope.is_layer:
            scope.by_shape()
    refuse_what_is_left(scopes)
    for scope in scopes:
        _keep_what_is_left(scope)
        weights.carried += scope.carried
        weights.mismatches += scope.mismatches
        weights.ignored |= scope.ignored
    weights.mismatches += _shared_differently(weights)
    weights.mismatches += _parts(weights)
    return weights


def _sources(entry: Carried) -> tuple[str, ...]:
    return entry.arrangement.sources if entry.arrangement is not None else ()


def _array(tensor: torch.Tensor, working_dtype: torch.dtype) -> Array:
    return as_array(tensor.detach().to(working_dtype) if tensor.is_floating_point() else tensor.detach())


def _places(cell: Any) -> Iterator[tuple[str, Any]]:
    """Every place where a Cell holds a Parameter, by path; a shared one has several."""
    for path, inner in cell.cells_and_names():
        for name, parameter in inner.parameters_and_names(expand=False):
            yield f"{path}.{name}" if path else name, parameter


def _by_pair(named: Mapping[str, Any], paired: Mapping[str, str]) -> dict[str, list[str]]:
    """Names by the path of the innermost paired module (or Cell) that holds them."""
    found: dict[str, list[str]] = {}
    for name in named:
        path = name
        while path:
            path = path.rpartition(".")[0]
            if path in paired:
                break
        found.setdefault(path, []).append(name)
    return found


def _keep_what_is_left(scope: Scope) -> None:
    """What has no counterpart on the other side is a fault of this Cell; Parameters keep their own values."""
    for name in scope.parameters:
        shape = tuple(scope.arrays[scope.alias[name]].shape)
        scope.mismatches.append(WeightMismatch(scope.pair.module, name, shape, "the Cell has no such Parameter"))
    for path, parameter in scope.cell.items():
        scope.carried.append(Carried(path, parameter, scope.pair.module, None, "own value"))
        if parameter.requires_grad:
            reason = "a trained Parameter of the Cell, and nothing of the module's is its counterpart"
            scope.mismatches.append(WeightMismatch(scope.pair.module, path, tuple(parameter.shape), reason))


def _shared_differently(weights: Weights) -> Iterator[WeightMismatch]:
    """Parameters that are one on one side and several on the other."""
    for entry in weights.unique():
        places = [e for e in weights.carried if e.parameter is entry.parameter]
        there = dict.fromkeys(name for place in places for name in _sources(place))
        if any(set(_sources(place)) != set(_sources(entry)) for place in places):
            paths = ", ".join(place.path for place in places)
            reason = f"one Parameter shared by {paths}; the module has several: {', '.join(there)}"
            yield WeightMismatch(entry.module, entry.path, tuple(entry.parameter.shape), reason)


def _parts(weights: Weights) -> Iterator[WeightMismatch]:
    """Parameters of the module that are in the Cells in part only, or twice."""
    ones = {id(e.parameter): np.ones(tuple(e.parameter.shape)) for e in weights.unique()}
    counted = weights.back(ones)
    for name in weights.trainable:
        entries = weights.of(name)
        if any(not e.arrangement.back(ones[id(e.parameter)]) for e in entries if e.arrangement is not None):
            weights.unseen.add(name)
        elif name in counted and (counted[name] != 1).any():
            shape = tuple(weights.arrays[name].shape)
            paths = ", ".join(e.path for e in entries)
            missing = int((counted[name] == 0).sum())
            reason = (
                f"{missing} of its {counted[name].size} elements are in no Parameter of the Cell ({paths})"
                if missing
                else f"shared in the module, but separate Parameters in the Cell ({paths})"
            )
            yield WeightMismatch(entries[0].module, name, shape, reason)
