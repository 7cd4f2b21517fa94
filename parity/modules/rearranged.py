"""Parameters that two torch modules hold in other names or layouts, as `weights=` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...runtime.errors import UsageError
from ...runtime.programs.call import as_array
from ..pairing.cells import Pair
from ..sides.records import Array, ParameterInfo, Records, Run
from ..sides.torch_side import TorchSide
from ..weights.arrangements import Arrangement, FixedValue
from ..weights.overrides import Overrides
from .prefixes import Prefixes


@dataclass(frozen=True)
class Rearrangements:
    """How parameters and buffers of the candidate are made of those of the reference.

    Attributes:
        arrangements: by the candidate's name, with the reference's prefix.
    """

    arrangements: Mapping[str, Arrangement] = field(default_factory=dict)

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
        found: dict[str, Arrangement] = {}
        for path, module in candidate.named_modules():
            pair = Pair(prefixes.rename(path), path, "", type(module).__name__, "name")
            own = [name for name in of_candidate if name.rpartition(".")[0] == path]
            found |= overrides.of(pair, module, own)
        overrides.require_used()
        for name, arrangement in found.items():
            _require_fit(name, arrangement, arrays, tuple(of_candidate[name].shape))
        return cls({prefixes.rename(name): arrangement for name, arrangement in found.items()})

    @property
    def names(self) -> set[str]:
        """The names of the candidate that are rearranged, and those of the reference that they are made of."""
        return {*self.arrangements, *(name for one in self.arrangements.values() for name in one.sources)}

    def to_reference(self, arrays: Mapping[str, Array | None]) -> dict[str, Array | None]:
        """Return arrays of the candidate by the reference's names and in its layouts, with parts added up."""
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


class RearrangedSide(TorchSide):
    """A module whose parameters are recorded by the reference's names and in its layouts; by default, as they are."""

    rearrangements = Rearrangements()

    def parameters(self) -> dict[str, ParameterInfo]:
        """Parameters by the reference's names."""
        own = super().parameters()
        trained = {
            source: own[name].trainable
            for name, arrangement in self.rearrangements.arrangements.items()
            if name in own
            for source in arrangement.sources
        }
        arrays = self.rearrangements.to_reference({name: info.data for name, info in own.items()})
        return {
            name: ParameterInfo(array, own[name].trainable if name not in trained else trained[name])
            for name, array in arrays.items()
            if array is not None
        }

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        records = super().run(run)
        records.parameter_gradients = self.rearrangements.to_reference(records.parameter_gradients)
        for arrays in (records.updates, records.buffers):
            renamed = self.rearrangements.to_reference(arrays)
            arrays.clear()
            arrays.update({name: array for name, array in renamed.items() if array is not None})
        return records


def _tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by all of their names."""
    return {
        **dict(module.named_buffers(remove_duplicate=False)),
        **dict(module.named_parameters(remove_duplicate=False)),
    }


def _require_fit(name: str, arrangement: Arrangement, arrays: Mapping[str, Array], shape: tuple[int, ...]) -> None:
    if isinstance(arrangement, FixedValue):
        raise UsageError(
            f"weights={{{name!r}: ...}}: each of two torch modules keeps its own values; needed what it is made of in "
            "the reference: a name, a pair of a name and 'transpose', axes or a function, or a function"
        )
    given = np.shape(arrangement.to_cell(arrays))
    if given != shape:
        raise UsageError(
            f"weights={{{name!r}: ...}}: it has shape {list(shape)} in the candidate, and the reference's "
            f"{', '.join(arrangement.sources)} makes {list(given)}"
        )
    if not arrangement.to_module(np.zeros(shape)):
        raise UsageError(
            f"weights={{{name!r}: ...}}: the function computes; to be compared, it must only select and move elements"
        )
