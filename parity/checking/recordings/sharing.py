"""Parameters that one side shares between Cells, and of which the other has several copies, as a map of names says.

Gradients are then compared as sums over what counts as one parameter, as `weights=` has it for living networks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ....converter.structure.program_names import named_parameters
from ....runtime.errors import UsageError
from ....runtime.visible import visible_name
from ...results.cell_report import CellReport
from ...results.structure import OTHER_PARTS, StructureDifference
from ...sides.records import Array, Key
from ...sides.reported_cells import owner
from ...weights.arrangements import Axes
from ...weights.coverage import Coverage, Place, Ties, merge_copies
from .names import NameMap
from .recording import RecordedRun
from .views import View


def other_names(module: torch.nn.Module) -> dict[str, str]:
    """Return the first name of each shared parameter of a module by its other ones."""
    named = dict(named_parameters(module, remove_duplicate=False))
    first = {id(parameter): name for name, parameter in reversed(named.items())}
    return {name: first[id(parameter)] for name, parameter in named.items() if first[id(parameter)] != name}


@dataclass(frozen=True)
class Sharing:
    """How parameters that are shared on either side are compared.

    Attributes:
        arrays: the reference's parameters, by first name.
        aliases: first names of its shared parameters, by their other ones.
        copies: names that a shared one is read by: of its copies if the map names one of them, else of the first place.
        ties: parameters of the reference that the candidate has one for, as the map says.
        differences: what is shared on one side alone: name and words.
    """

    arrays: Mapping[str, Array] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ties: Ties = field(default_factory=Ties)
    differences: tuple[tuple[str, str], ...] = ()

    @classmethod
    def between(
        cls,
        arrays: Mapping[str, Array],
        aliases: Mapping[str, str],
        names: NameMap,
        given: NameMap,
        recorded: Mapping[str, str],
    ) -> Sharing:
        """Return that of two sides.

        Args:
            arrays: the reference's parameters, by first name.
            aliases: first names of its shared parameters, by their other ones.
            names: what they are called in the recording.
            given: the lines among these that the user has written.
            recorded: first names of the recording's parameters, by all of their names.
        """
        places = _places(arrays, aliases, names, given, recorded)
        by_source: dict[str, dict[int, str]] = {}
        by_parameter: dict[int, dict[str, str]] = {}
        for name, place in places.items():
            (source,) = place.arrangement.sources
            by_source.setdefault(source, {}).setdefault(place.parameter, name)
            by_parameter.setdefault(place.parameter, {}).setdefault(source, name)
        read = {source: list(by_source.get(source, {}).values()) for source in aliases.values()}
        groups = [*read.values(), *(list(names.values()) for names in by_parameter.values())]
        groups = [group for group in groups if len(group) > 1]
        named = {name for group in groups if any(places[n].is_explicit for n in group) for name in group}
        concerned = [place for name, place in places.items() if name in named]
        ties = Ties.of(concerned, arrays)
        differences = [*ties.differences(concerned), *Coverage.of(concerned).differences()]
        differences += [_without_line(g, places) for g in groups if not named.issuperset(g)]
        copies = {source: own if named.issuperset(own) else own[:1] for source, own in read.items()}
        return cls(arrays, aliases, copies, ties, tuple(differences))

    def merge(self, run: RecordedRun) -> None:
        """Bring what was read of the candidate under the first names of the reference's parameters.

        Args:
            run: a run of the candidate. Changed in place.

        Raises:
            UsageError: of a copy, or of its gradient, only a summary was recorded.
        """
        gradients = run.records.gradients.parameters
        for source, names in self.copies.items():
            if len(names) > 1:
                _require_whole(run, names)
            values = [run.parameters[name] for name in names if name in run.parameters]
            parts = [part for name in names if (part := gradients.get(name)) is not None]
            for name in (source, *(alias for alias, first in self.aliases.items() if first == source)):
                run.parameters.pop(name, None)
                gradients.pop(name, None)
            if values:
                run.parameters[source] = self._value(source, values)
            if parts:
                misfit = self._misfit(source, parts)
                gradients[source] = sum(parts[1:], parts[0]) if misfit is None else misfit
        for name in self.ties.into:
            gradients.pop(name, None)

    def merge_reference(self, run: RecordedRun) -> None:
        """Add up the gradients of the reference's parameters that the candidate has one for; `run` is changed.

        Raises:
            UsageError: of one of these gradients, only a summary was recorded.
        """
        _require_whole(run, self.ties.names)
        self.ties.merge(run.records.gradients.parameters, run.records.gradients.shares)

    def _value(self, source: str, copies: Sequence[Array]) -> Array:
        """Return that of several copies which differs from the reference's value."""
        if (misfit := self._misfit(source, copies)) is not None:
            return misfit
        own = self.arrays[source]
        result: dict[str, Array] = {}
        arrangement = Axes(source, own.shape)
        merge_copies([(arrangement, copy) for copy in copies], lambda _, part: own.astype(part.dtype), result)
        return result[source]

    def _misfit(self, source: str, copies: Sequence[Array]) -> Array | None:
        """Return the first that has another shape than the reference's, which is then what is compared."""
        return next((copy for copy in copies if copy.shape != self.arrays[source].shape), None)


NOTHING_SHARED = Sharing()


def shared_differently(sharing: Sharing, cells: Mapping[str, CellReport]) -> list[StructureDifference]:
    """Return what is shared on one side alone, each with the Cell that was judged for it."""
    return [
        StructureDifference(OTHER_PARTS, name, owner(name, cells), visible_name(text))
        for name, text in sharing.differences
    ]


def _places(
    arrays: Mapping[str, Array],
    aliases: Mapping[str, str],
    names: NameMap,
    given: NameMap,
    recorded: Mapping[str, str],
) -> dict[str, Place]:
    """Return the place in the candidate of each name of the reference's that was recorded; see `Sharing.between`."""
    numbers: dict[tuple[str, str], int] = {}
    places: dict[str, Place] = {}
    for name in (*arrays, *aliases):
        source, match = aliases.get(name, name), names.parameter(name)
        if source not in arrays or match.name not in recorded:
            continue
        view, shape = match.outputs, arrays[source].shape
        order = view.transpose if len(view.transpose) == len(shape) else tuple(range(len(shape)))
        axes = tuple(map(int, np.argsort(order)))
        number = numbers.setdefault((recorded[match.name], f"{view.index}"), len(numbers))
        is_given = any(line.match(name) is not None for line in given.parameters)
        path = f"{visible_name(match.name)}{View(view.index)}"
        places[name] = Place(path, number, tuple(shape[axis] for axis in axes), Axes(source, shape, axes), is_given)
    return places


def _without_line(group: Sequence[str], places: Mapping[str, Place]) -> tuple[str, str]:
    """Return a parameter that is shared on one side alone and of which no line of the map is, and that in words."""
    sources = list(dict.fromkeys(name for n in group for name in places[n].arrangement.sources))
    paths = ", ".join(dict.fromkeys(places[n].path for n in group))
    names, lines = ", ".join(map(visible_name, sources)), " and ".join(map(visible_name, group))
    in_reference, in_candidate = (
        ("is one parameter", "separate ones") if len(sources) == 1 else ("are separate", "one parameter")
    )
    return sources[0], (
        f"{names} {in_reference} in the reference, and {in_candidate} in the candidate ({paths}): lines for {lines} in "
        "a map of names compare the sum of their gradients"
    )


def _require_whole(run: RecordedRun, names: Collection[str]) -> None:
    """Raise `UsageError` if a parameter of several whose gradients are added up, or its gradient, was summarized."""
    for boundary in run.summaries:
        role, name = ("", "") if isinstance(boundary, Key) else boundary
        if role in ("parameter", "parameter_gradient") and name in names:
            raise UsageError(
                f"{visible_name(name)} is shared on one side alone, and its {role.replace('_', ' ')} is only "
                "summarized in a recording: gradients of several can't be added up\n  what to do: record both sides "
                "with a larger budget, or leave the lines for it out of the map"
            )
