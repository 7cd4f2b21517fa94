"""Parameters that two torch modules hold in other names or layouts, as `weights=` says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ....runtime.errors import UsageError
from ....runtime.programs.call import as_array
from ...causes.array_relations import common_rows
from ...correspondence.cells import Pair
from ...sides.records import Array, Records
from ...sides.run import Run
from ...sides.side import ParameterInfo
from ...sides.torch_side import TorchSide
from ...weights.arrangements import Arrangement, Axes, FixedValue
from ...weights.coverage import Coverage, Place, Ties, merge_copies
from ...weights.overrides import Overrides
from .prefixes import Prefixes


@dataclass(frozen=True)
class Rearrangements:
    """How parameters and buffers of the candidate are made of those of the reference.

    Attributes:
        arrangements: by the candidate's name, with the reference's prefix; of a tied one, by its first name.
        others: further ones of tied parameters: names of the reference that have the values of this one, too.
        coverage: which elements of the reference's the candidate has.
        ties: parameters of the reference that the candidate has one for.
    """

    arrangements: Mapping[str, Arrangement] = field(default_factory=dict)
    others: Mapping[str, Sequence[Arrangement]] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=lambda: Coverage.of([]))
    ties: Ties = field(default_factory=Ties)

    @classmethod
    def between(
        cls,
        reference: torch.nn.Module,
        candidate: torch.nn.Module,
        weights: Mapping[Any, Any] | None,
        prefixes: Prefixes,
    ) -> Rearrangements:
        """Resolve `weights=`, whose keys are names in the candidate, or classes of its modules.

        Raises:
            UsageError: an entry names something unknown, gives a fixed value, or doesn't have the candidate's shape.
        """
        if weights is None:
            return cls()
        of_reference = _tensors(reference)
        first = {id(tensor): name for name, tensor in reversed(of_reference.items())}
        alias = {name: first[id(tensor)] for name, tensor in of_reference.items()}
        arrays = {name: as_array(tensor) for name, tensor in of_reference.items() if alias[name] == name}
        of_candidate = _tensors(candidate)
        overrides = Overrides(weights, of_candidate, alias, arrays)
        given: dict[str, Arrangement] = {}
        for path, module in candidate.named_modules():
            pair = Pair(prefixes.rename(path), path, "", type(module).__name__, "name")
            own = [name for name in of_candidate if name.rpartition(".")[0] == path]
            given |= overrides.of(pair, module, own)
        overrides.require_used()
        for name, arrangement in given.items():
            _require_fit(name, arrangement, arrays, of_candidate[name])
        sources = {source for arrangement in given.values() for source in arrangement.sources}
        tied = {id(of_candidate[name]) for name in given}
        places = []
        for name, tensor in of_candidate.items():
            source = alias.get(prefixes.rename(name))
            same = source is not None and arrays[source].shape == tuple(tensor.shape)
            if name not in given and same and (source in sources or id(tensor) in tied):
                assert source is not None
                arrangement = Axes(source, arrays[source].shape)  # a copy of the same name, or the other name of a tie
            elif name in given:
                arrangement = given[name]
            else:
                continue
            places.append(Place(name, id(tensor), tuple(tensor.shape), arrangement, True))
        names = {id(tensor): prefixes.rename(name) for name, tensor in reversed(of_candidate.items())}
        by_name: dict[str, list[Arrangement]] = {}
        for place in places:
            by_name.setdefault(names[place.parameter], []).append(place.arrangement)
        main = {name: arrangements[0] for name, arrangements in by_name.items()}
        others = {name: arrangements[1:] for name, arrangements in by_name.items()}
        return cls(main, others, Coverage.of(places), Ties.of(places, arrays))

    @property
    def names(self) -> set[str]:
        """The names of the candidate that are rearranged, and those of the reference that they are made of."""
        return {*self.arrangements, *(source for name in self.arrangements for source in self.sources(name))}

    def shared(self, used: Collection[str]) -> set[str]:
        """Return names of parameters of which Cells' shares are compared, on both sides.

        Args:
            used: names of those of either side that several Cells use.
        """
        several = {*used, *self.coverage.copied, *self.ties.names}
        pairs = [{name, *self.sources(name)} for name in self.arrangements]
        return several.union(*(pair for pair in pairs if pair & several))

    def differences(self) -> Iterator[tuple[str, str]]:
        """Yield parameters that the candidate has in part, in copies or as one with others: name and words."""
        yield from self.ties.differences(self.coverage.places)
        yield from self.coverage.differences()

    def to_reference(self, arrays: Mapping[str, Array | None]) -> dict[str, Array | None]:
        """Return gradients of the candidate by the reference's names and in its layouts, with parts added up."""
        result: dict[str, Array | None] = {n: array for n, array in arrays.items() if n not in self.arrangements}
        parts: dict[str, Array] = {}
        for name, arrangement in self.arrangements.items():
            if name not in arrays:
                continue
            array = arrays[name]
            if array is None:
                result |= dict.fromkeys(arrangement.sources)
                continue
            for source, part in arrangement.to_module(array).items():
                parts[source] = parts[source] + part if source in parts else part
        return result | parts

    def shares_to_reference(self, shares: Mapping[tuple[str, str], Array]) -> dict[tuple[str, str], Array]:
        """Return shares in gradients, by name and Cell, by the reference's names and in its layouts."""
        paths = dict.fromkeys(path for _, path in shares)
        result: dict[tuple[str, str], Array] = {}
        for path in paths:
            of_cell = self.to_reference({name: share for (name, other), share in shares.items() if other == path})
            result |= {(name, path): share for name, share in of_cell.items() if share is not None}
        return result

    def values(self, arrays: Mapping[str, Array], reference: Mapping[str, Array]) -> dict[str, Array]:
        """Return values of the candidate by the reference's names and in its layouts.

        Elements that the candidate doesn't have are the reference's own. Of several copies, they are those of the
        first that differs.
        """
        result = {name: array for name, array in arrays.items() if name not in self.arrangements}
        copies = [
            (arrangement, arrays[name])
            for name in self.arrangements.keys() & arrays.keys()
            for arrangement in (self.arrangements[name], *self.others[name])
        ]
        merge_copies(copies, lambda name, part: reference.get(name, part), result)
        return result

    def sources(self, name: str) -> set[str]:
        """Return the names of the reference that have values of a parameter of the candidate."""
        return {
            source for arrangement in (self.arrangements[name], *self.others[name]) for source in arrangement.sources
        }


@dataclass(frozen=True, eq=False, repr=False)
class RearrangedSide(TorchSide):
    """A module whose parameters are recorded by the reference's names and in its layouts; by default, as they are.

    Attributes:
        rearrangements: of the candidate.
        reference: the reference, for the candidate.
        unreturned: results of inner Cells, as paths and slots, that the reference alone returns.
    """

    rearrangements: Rearrangements = field(default_factory=Rearrangements)
    reference: TorchSide | None = None
    unreturned: Collection[tuple[str, str]] = ()

    def parameters(self) -> dict[str, ParameterInfo]:
        """Parameters by the reference's names."""
        own = super().parameters()
        reference = {} if self.reference is None else self.reference.parameters()
        trained: dict[str, bool] = {}
        for name in self.rearrangements.arrangements.keys() & own.keys():
            for source in self.rearrangements.sources(name):
                # of several copies, the first that differs
                if source not in trained or (source in reference and trained[source] == reference[source].trainable):
                    trained[source] = own[name].trainable
        arrays = {name: info.data for name, info in own.items()}
        values = self.rearrangements.values(arrays, {name: info.data for name, info in reference.items()})
        return {
            name: ParameterInfo(array, trained[name] if name in trained else own[name].trainable)
            for name, array in values.items()
        }

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        records = super().run(run)
        records.boundaries.unreturned = self.unreturned
        if self.rearrangements.arrangements:
            records.gradients.parameters = self.rearrangements.to_reference(records.gradients.parameters)
            records.gradients.shares = self.rearrangements.shares_to_reference(records.gradients.shares)
            records.state.updates = self.rearrangements.values(records.state.updates, {})
            records.state.buffers = self.rearrangements.values(records.state.buffers, {})
        return records


def _tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by all of their names."""
    return {
        **dict(module.named_buffers(remove_duplicate=False)),
        **dict(module.named_parameters(remove_duplicate=False)),
    }


def _require_fit(name: str, arrangement: Arrangement, arrays: Mapping[str, Array], tensor: torch.Tensor) -> None:
    if isinstance(arrangement, FixedValue):
        raise UsageError(
            f"weights={{{name!r}: ...}}: each of two torch modules keeps its own values; needed what it is made of in "
            "the reference: a name, a pair of a name and 'transpose', axes or a function, or a function"
        )
    made, shape = arrangement.to_cell(arrays), tuple(tensor.shape)
    if np.shape(made) != shape:
        common = common_rows(np.asarray(made), as_array(tensor))
        raise UsageError(
            f"weights={{{name!r}: ...}}: it has shape {list(shape)} in the candidate, and the reference's "
            f"{', '.join(arrangement.sources)} makes {list(np.shape(made))}{common and f'; it {common}'}"
        )
    if not arrangement.to_module(np.zeros(shape)):
        raise UsageError(
            f"weights={{{name!r}: ...}}: the function computes; to be compared, it must only select and move elements"
        )
