"""Which elements of the module's parameters the candidate has: all of them once, in several copies, or a part.

A head may be tied to its embedding on one side and have a weight of its own on the other; a table of positions may be
cut off, a vocabulary padded. Gradients are then compared as sums over what counts as one parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .arrangements import Arrangement, Array, Arrays, Axes, UserFunction


@dataclass(frozen=True)
class Place:
    """A place in the candidate that holds a parameter; a tied one has several.

    Attributes:
        path: its name there.
        parameter: `id` of the parameter.
        shape: its shape.
        arrangement: how it is computed from the module's.
        is_explicit: whether `weights=` says so.
    """

    path: str
    parameter: int
    shape: tuple[int, ...]
    arrangement: Arrangement
    is_explicit: bool


@dataclass(frozen=True)
class Ties:
    """Parameters of the module that count as another one, because the candidate has one parameter for both.

    Attributes:
        into: by the name of such a parameter, the name of that other one, and the function that brings a gradient into
            its layout.
    """

    into: Mapping[str, tuple[str, Callable[[Array], Array]]] = field(default_factory=dict)

    @classmethod
    def of(cls, places: Sequence[Place], arrays: Arrays) -> Ties:
        """Return those of a candidate: its parameters that `weights=` takes from several of the module's, all equal."""
        explicit = {place.parameter for place in places if place.is_explicit}
        first: dict[int, Axes] = {}
        into: dict[str, tuple[str, Callable[[Array], Array]]] = {}
        for place in places:
            if place.parameter not in explicit or not isinstance(place.arrangement, Axes):
                continue
            main, other = first.setdefault(place.parameter, place.arrangement), place.arrangement
            if other.name in (main.name, *into) or main.name in into:
                continue
            if np.array_equal(main.to_cell(arrays), other.to_cell(arrays)):
                into[other.name] = main.name, _moved(other, main)
        return cls(into)

    @property
    def names(self) -> set[str]:
        """All names that are concerned."""
        return {*self.into, *(name for name, _ in self.into.values())}

    def merge(self, gradients: dict[str, Array | None], shares: dict[tuple[str, str], Array]) -> None:
        """Add gradients, and the shares of Cells in them, of parameters that count as another one to those of that one.

        Args:
            gradients: by name; None where none arrives. Changed in place.
            shares: by name and path of the Cell. Changed in place.
        """
        for name, (main, move) in self.into.items():
            gradient = gradients.pop(name, None)
            if gradient is not None:
                before = gradients.get(main)
                gradients[main] = move(gradient) if before is None else before + move(gradient)
            for key in [key for key in shares if key[0] == name]:
                share, path = move(shares.pop(key)), key[1]
                shares[main, path] = shares[main, path] + share if (main, path) in shares else share

    def differences(self, places: Sequence[Place]) -> Iterator[tuple[str, str]]:
        """Yield, for each parameter that others count as, its name and the difference in words."""
        for main in dict.fromkeys(name for name, _ in self.into.values()):
            names = [main, *(name for name, (other, _) in self.into.items() if other == main)]
            paths = [place.path for place in places if set(place.arrangement.sources) & set(names)]
            yield (
                main,
                f"{', '.join(names)} are separate in the reference, and one parameter in the candidate "
                f"({', '.join(dict.fromkeys(paths))}): the sum of their gradients was compared, and further training "
                "makes them differ",
            )


def _moved(source: Axes, target: Axes) -> Callable[[Array], Array]:
    return lambda gradient: target.to_module(source.to_cell({source.name: gradient}))[target.name]


def merge_copies(
    copies: Iterable[tuple[Arrangement, Array]], module_values: Callable[[str, Array], Array], result: dict[str, Array]
) -> None:
    """Bring a candidate's parameters into the module's layouts: of several copies, the first that differs counts.

    Args:
        copies: how each is computed from the module's, and its values.
        module_values: returns the module's values, which elements have that no copy has, for a name and a part of a
            copy.
        result: by name in the module. Changed in place.
    """
    for arrangement, array in copies:
        has = arrangement.to_module(np.ones(array.shape))
        for name, part in arrangement.to_module(array).items():
            unchanged = module_values(name, part)
            before = result.get(name, unchanged)
            result[name] = np.where((has[name] != 0) & (before == unchanged), part, before)


@dataclass(frozen=True)
class Coverage:
    """How often a candidate has each element of the module's parameters.

    Attributes:
        places: one for each parameter of the candidate.
        counts: number of the places of each element, by the parameter's name in the module, unless it is 1 everywhere.
        unseen: names of parameters that functions compute from, of which nothing is known.
    """

    places: Sequence[Place]
    counts: Mapping[str, Array]
    unseen: frozenset[str]

    @classmethod
    def of(cls, places: Sequence[Place]) -> Coverage:
        """Return that of a candidate's parameters."""
        counts: dict[str, Array] = {}
        unseen: set[str] = set()
        for place in {place.parameter: place for place in reversed(places)}.values():
            parts = place.arrangement.to_module(np.ones(place.shape))
            unseen.update(() if parts else place.arrangement.sources)
            for name, part in parts.items():
                counts[name] = counts[name] + part if name in counts else part
        uneven = {name: count for name, count in counts.items() if (count != 1).any() and name not in unseen}
        return cls(places, uneven, frozenset(unseen))

    @property
    def copied(self) -> set[str]:
        """Names of the parameters of which the candidate has several copies."""
        return {name for name, count in self.counts.items() if (count > 1).any()}

    def is_given(self, name: str) -> bool:
        """Whether `weights=` names one of the places of a parameter."""
        return any(place.is_explicit for place in self._of(name))

    def reason(self, name: str) -> str:
        """Return what is missing of one of `counts`, or that there are copies, in words."""
        count = self.counts[name]
        paths = ", ".join(dict.fromkeys(place.path for place in self._of(name)))
        if (missing := count == 0).any():
            return f"{int(missing.sum())} of its {missing.size} elements are in no Parameter of the Cell ({paths})"
        return f"shared in the module, but separate Parameters in the Cell ({paths})"

    def differences(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each parameter that the candidate has in part or several times, and that in words."""
        for name, count in self.counts.items():
            paths = ", ".join(dict.fromkeys(place.path for place in self._of(name)))
            if (missing := count == 0).any():
                total, same = _in_words(~missing)
                lacking = _in_words(missing)[1]
                yield (
                    name,
                    f"{name} of the reference has {total}: {same} are in the candidate ({paths}), {lacking} aren't",
                )
            if (count > 1).any():
                yield (
                    name,
                    f"{name} is one parameter in the reference, and separate ones in the candidate ({paths}): the sum "
                    "of their gradients was compared, and further training makes them differ",
                )
        for place in self.places:
            if isinstance(place.arrangement, UserFunction) and (added := place.arrangement.constants()).any():
                sources = ", ".join(place.arrangement.sources)
                total, same = _in_words(~added)
                additions = _in_words(added)[1]
                text = f"{total}: {same} are the reference's ({sources}), {additions} are its own"
                yield place.path, f"{place.path} of the candidate has {text}"

    def _of(self, name: str) -> list[Place]:
        return [place for place in self.places if name in place.arrangement.sources]


def _in_words(mask: Array) -> tuple[str, str]:
    """Return the size of a tensor, and those of its elements that a mask selects: whole rows, or their number."""
    rows = mask.reshape(mask.shape[0], -1) if mask.ndim else mask.reshape(1, 1)
    if mask.ndim and (rows.all(1) == rows.any(1)).all():
        kind = "rows" if mask.ndim > 1 else "elements"
        numbers = np.flatnonzero(rows.all(1))
        together = len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1
        return f"{len(rows)} {kind}", f"{kind} {numbers[0]} to {numbers[-1]}" if together else f"{len(numbers)}"
    return f"{mask.size} elements", f"{int(mask.sum())}"
