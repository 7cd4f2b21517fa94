"""The mapping from parameters of modules to Parameters of Cells: by the user's entries, layers, names and shapes.

Within a pair, the user's entries come first, then the names of its kind of layer (`gamma` is `weight`), then equal
names, then, for the user's own blocks, shapes that occur once on both sides. Whether a matrix is stored transposed is
never concluded from its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...converter.dtypes import is_real
from ...runtime.programs.call import as_array
from ..correspondence.cells import Pairing
from .arrangements import Array, Axes
from .coverage import Coverage, Place, Ties, merge_copies
from .overrides import Overrides
from .pair_matcher import CarriedParameter, PairMatcher, WeightMismatch
from .questions import require_unambiguous


@dataclass
class Weights:
    """The complete mapping.

    Attributes:
        arrays: the module's parameters and buffers by name, in the working dtype; shared ones once.
        trainable: whether a parameter of the module is trained, by name.
        entries: one entry for each Parameter and place in the Cells.
        mismatches: failures for the report.
        ignored: buffers of the module that no Cell has.
        unseen: parameters of the module whose gradient can't be determined from the Cell's.
        ties: parameters of the module that the Cell has one Parameter for, as `weights=` says.
        copied: parameters of the module that the Cell has several Parameters for, as `weights=` says.
        differences: parameters that the Cell has in part, as one or several times, as `weights=` says: name and words.
    """

    arrays: dict[str, Array]
    trainable: dict[str, bool]
    entries: list[CarriedParameter] = field(default_factory=list)
    mismatches: list[WeightMismatch] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    ties: Ties = field(default_factory=Ties)
    copied: set[str] = field(default_factory=set)
    differences: list[tuple[str, str]] = field(default_factory=list)

    def unique(self) -> list[CarriedParameter]:
        """Return the first entry for each Parameter."""
        return list({id(entry.parameter): entry for entry in reversed(self.entries)}.values())[::-1]

    def value(self, entry: CarriedParameter) -> Array:
        """Return the value that a Parameter gets."""
        if entry.arrangement is None:
            return np.asarray(entry.parameter.asnumpy())
        return entry.arrangement.to_cell(self.arrays)

    def to_module(self, arrays: Mapping[int, Array | None]) -> dict[str, Array]:
        """Return the module's arrays (or gradients), from those of the Parameters by `id`, with parts added up."""
        result: dict[str, Array] = {}
        for entry in self.unique():
            array = arrays.get(id(entry.parameter))
            if entry.arrangement is not None and array is not None:
                for name, part in entry.arrangement.to_module(array).items():
                    result[name] = result[name] + part if name in result else part
        return result

    def values_in_module(self, arrays: Mapping[int, Array]) -> dict[str, Array]:
        """Return the module's arrays, from those of the Parameters by `id`: of several copies, the first that changed.

        Elements that no Parameter has are the module's own.
        """
        result: dict[str, Array] = {}
        copies = [
            (entry.arrangement, arrays[id(entry.parameter)])
            for entry in self.unique()
            if entry.arrangement is not None and id(entry.parameter) in arrays
        ]
        merge_copies(copies, lambda name, part: self.arrays[name].astype(part.dtype), result)
        return result

    def places(self) -> list[Place]:
        """Return the places of all Parameters that are computed from the module's."""
        return [
            Place(e.path, id(e.parameter), tuple(e.parameter.shape), e.arrangement, e.how == "given")
            for e in self.entries
            if e.arrangement is not None
        ]

    def unmatched_buffers(self) -> list[str]:
        """Return the module's buffers that no Parameter is computed from."""
        return [name for name in self.arrays if name not in self.trainable and not self.of(name)]

    def of(self, name: str) -> list[CarriedParameter]:
        """Return the entries that are computed from the module's parameter `name`."""
        return [e for e in self.unique() if e.arrangement is not None and name in e.arrangement.sources]


def carry(
    module: torch.nn.Module,
    cell: Any,
    pairing: Pairing,
    explicit: Mapping[Any, Any] | None = None,
    working_dtype: torch.dtype = torch.float32,
) -> Weights:
    """Find the mapping.

    Args:
        module: the reference.
        cell: its port.
        pairing: the pairing of the two.
        explicit: the user's entries; see `overrides`.
        working_dtype: dtype of the values.

    Raises:
        UsageError: both sides of a pair have unmatched parameters; a matrix has the shape of its counterpart with its
            axes exchanged; or an entry of the user's names something unknown or doesn't fit.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    buffers = {n: b for n, b in module.named_buffers(remove_duplicate=False) if n not in parameters}
    tensors = parameters | buffers
    first = {id(tensor): name for name, tensor in reversed(tensors.items())}
    alias = {name: first[id(tensor)] for name, tensor in tensors.items()}
    arrays = {name: _array(tensor, working_dtype) for name, tensor in tensors.items() if alias[name] == name}
    weights = Weights(arrays, {name: p.requires_grad for name, p in module.named_parameters()})
    of_cells = dict(_places(cell))
    overrides = Overrides(explicit or {}, of_cells, alias, arrays)
    of_module, our_buffers = _by_pair(parameters, pairing.cell_of), _by_pair(buffers, pairing.cell_of)
    of_cell = _by_pair(of_cells, pairing.module_of)
    cells = dict(cell.cells_and_names())
    matchers: list[PairMatcher] = []
    for pair in pairing.pairs:
        pair_parameters = {path: of_cells[path] for path in of_cell.get(pair.cell, [])}
        matcher = PairMatcher(
            pair,
            module.get_submodule(pair.module),
            cells[pair.cell],
            of_module.get(pair.module, []),
            our_buffers.get(pair.module, []),
            pair_parameters,
            arrays,
            alias,
        )
        matchers.append(matcher)
        for path, arrangement in overrides.of(pair, cells[pair.cell], list(pair_parameters)).items():
            matcher.match_explicit(path, arrangement)
    overrides.require_used()
    matched = tuple(name for matcher in matchers for entry in matcher.entries for name in _sources(entry))
    for matcher in matchers:
        matcher.mark_used(matched)
        matcher.match_by_layer()
        matcher.match_by_name()
    matched = tuple(name for matcher in matchers for entry in matcher.entries for name in _sources(entry))
    for matcher in matchers:
        matcher.mark_used(matched)  # a shared parameter is matched already, under whatever name
        if not matcher.is_layer:
            matcher.match_by_shape()
    require_unambiguous(matchers)
    for matcher in matchers:
        _report_unmatched(matcher)
        weights.entries += matcher.entries
        weights.mismatches += matcher.mismatches
        weights.ignored |= matcher.ignored
    weights.ties = Ties.of(weights.places(), arrays)
    weights.mismatches += _sharing_mismatches(weights)
    _judge_coverage(weights)
    return weights


def own_weights(cell: Any, *, named: bool) -> Weights:
    """Return the mapping of a Cell that keeps its own values.

    Args:
        cell: the Cell.
        named: whether its Parameters are known by their own names; otherwise they belong to nothing.
    """
    parameters = dict(cell.parameters_and_names()) if named else {}
    arrays = {path: np.asarray(parameter.asnumpy()) for path, parameter in parameters.items()}
    weights = Weights(arrays, {path: True for path, parameter in parameters.items() if parameter.requires_grad})
    for path, parameter in cell.parameters_and_names():
        arrangement = Axes(path, arrays[path].shape) if named else None
        weights.entries.append(CarriedParameter(path, parameter, "", arrangement, "own value"))
    return weights


def _sources(entry: CarriedParameter) -> tuple[str, ...]:
    return entry.arrangement.sources if entry.arrangement is not None else ()


def _array(tensor: torch.Tensor, working_dtype: torch.dtype) -> Array:
    return as_array(tensor.detach().to(working_dtype) if is_real(tensor) else tensor.detach())


def _places(cell: Any) -> Iterator[tuple[str, Any]]:
    """Yield every place where a Cell holds a Parameter, by path; a shared Parameter has several."""
    for path, inner in cell.cells_and_names():
        for name, parameter in inner.parameters_and_names(expand=False):
            yield f"{path}.{name}" if path else name, parameter


def _by_pair(named: Mapping[str, Any], paired: Mapping[str, str]) -> dict[str, list[str]]:
    """Group names by the path of the innermost paired module (or Cell) that holds them."""
    result: dict[str, list[str]] = {}
    for name in named:
        path = name
        while path:
            path = path.rpartition(".")[0]
            if path in paired:
                break
        result.setdefault(path, []).append(name)
    return result


def _report_unmatched(matcher: PairMatcher) -> None:
    """Add a mismatch for each parameter without a counterpart; such Parameters keep their own values."""
    for name in matcher.parameters:
        shape = tuple(matcher.arrays[matcher.alias[name]].shape)
        matcher.mismatches.append(WeightMismatch(matcher.pair.module, name, shape, "the Cell has no such Parameter"))
    for path, parameter in matcher.cell.items():
        matcher.entries.append(CarriedParameter(path, parameter, matcher.pair.module, None, "own value"))
        if parameter.requires_grad:
            reason = "a trained Parameter of the Cell without a counterpart in the module"
            matcher.mismatches.append(WeightMismatch(matcher.pair.module, path, tuple(parameter.shape), reason))


def _sharing_mismatches(weights: Weights) -> Iterator[WeightMismatch]:
    """Yield a mismatch for each Parameter that stands for several of the module's parameters."""
    for entry in weights.unique():
        places = [e for e in weights.entries if e.parameter is entry.parameter]
        sources = dict.fromkeys(name for other in places for name in _sources(other))
        names = {name for name in sources if name not in weights.ties.into}
        if any(set(_sources(other)) != set(_sources(entry)) for other in places) and len(names) > 1:
            paths = ", ".join(other.path for other in places)
            reason = f"one Parameter shared by {paths}; the module has several: {', '.join(sources)}"
            yield WeightMismatch(entry.module, entry.path, tuple(entry.parameter.shape), reason)


def _judge_coverage(weights: Weights) -> None:
    """Note which parameters the Cells have only in part, or twice: a mismatch unless `weights=` says so."""
    coverage = Coverage.of(weights.places())
    weights.unseen |= coverage.unseen & weights.trainable.keys()
    explicit = {name for name in coverage.counts if coverage.is_given(name)}
    weights.copied = coverage.copied & explicit
    weights.differences = [*weights.ties.differences(weights.places())]
    weights.differences += [item for item in coverage.differences() if item[0] not in coverage.counts.keys() - explicit]
    for name in coverage.counts:
        if name in weights.trainable and name not in explicit:
            shape = tuple(weights.arrays[name].shape)
            weights.mismatches.append(WeightMismatch(weights.of(name)[0].module, name, shape, coverage.reason(name)))
