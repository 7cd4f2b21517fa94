"""Which values of a file may be the places of a module's tensors, and in which order they are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import Value
from ...correspondence.distances import ROUNDED, distance
from ...sides.records import INPUT, OUTPUT
from .anchors import Anchor
from .crossings import Crossing
from .file_values import FileValues
from .trials import CLOSE


@dataclass
class Places:
    """The places of the tensors, and how many were found in which way.

    Attributes:
        of: the value of the file that is the place of a tensor.
        by_paths: the tensors whose places only the paths of the file's nodes tell.
        by_trial: those whose places were found by trying.
    """

    of: dict[Crossing, Value] = field(default_factory=dict)
    by_paths: set[Crossing] = field(default_factory=set)
    by_trial: set[Crossing] = field(default_factory=set)


class Candidates:
    """The values of a file that may be the places of tensors.

    Args:
        file: the values of the file's program.
        tensors: the tensors to find, in order.
        places: the places so far.
        proposed: values that may be the places of tensors, though numbers in them are wrong.
        anchors: see `find_anchors`.
    """

    def __init__(
        self,
        file: FileValues,
        tensors: Sequence[Crossing],
        places: Places,
        proposed: Mapping[Crossing, Value],
        anchors: Mapping[Crossing, Anchor],
    ) -> None:
        self.file = file
        self.flat = file.flat
        self.tensors = tensors
        self.places = places
        self.proposed = proposed
        stored = set(self.flat.program.constant_data)
        self.values = [value for value in file.rank if value not in stored]
        self._given = {anchor.given: anchor.entering for anchor in anchors.values()}

    def unplaced(self) -> list[Crossing]:
        """Return the tensors that have no place."""
        return [tensor for tensor in self.tensors if tensor not in self.places.of]

    def unplaced_numbers(self) -> list[Crossing]:
        """Return the tensors that differ from sample to sample, or are trained, as a norm of a table of positions is.

        With other constants, too little of what follows agrees.
        """
        return [tensor for tensor in self.unplaced() if tensor.can_have_a_place]

    def is_wrong(self, tensor: Crossing) -> bool:
        """Whether a tensor has a place where the file computes something else."""
        place = self.places.of.get(tensor)
        return place is not None and distance(self.file.values[place], tensor.arrays) > ROUNDED

    def hints(self, tensor: Crossing) -> list[Value]:
        """Return the values that are proposed for a tensor, or that the paths of the file's nodes give, in order."""
        hinted = dict.fromkeys([self.proposed[tensor]] if tensor in self.proposed else [])
        for key in tensor.keys:
            if key.path in self.flat.paths:
                ends = self.flat.ends(key.path)
                hinted |= dict.fromkeys(ends.entering if key.kind == INPUT else ends.leaving)
        return [value for value in hinted if self.fits(value, tensor)]

    def fits(self, value: Value, tensor: Crossing) -> bool:
        """Whether a value has the shape and kind of a tensor, and passes a gradient on if the tensor does."""
        array = self.file.values[value][0] if value in self.file.values else None
        is_like = array is not None and array.shape == tensor.shape and (array.dtype.kind == "f") == tensor.floating
        return is_like and self.may_train(value, tensor)

    def may_train(self, value: Value, tensor: Crossing) -> bool:
        """Whether a result depends on a value, if a gradient passes through the tensor."""
        return value in self.flat.needed or not tensor.trained

    def options(self, tensor: Crossing) -> tuple[list[Value], list[Value]]:
        """Return the likely places of a tensor, and the others to try, the nearest in order of computation first."""
        taken = set(self.places.of.values())
        fits = [value for value in self.values if self.fits(value, tensor)]
        apart = {value: distance(self.file.values[value], tensor.arrays) for value in fits if value not in taken}
        likely = sorted((value for value, far in apart.items() if far <= CLOSE), key=lambda value: apart[value])
        hints = [*self.hints(tensor), *(self._given[key] for key in tensor.keys if key in self._given)]
        likely += [value for value in dict.fromkeys(hints) if value in apart and value not in likely]
        return likely, self.by_nearness(tensor, [value for value in fits if value not in likely])

    def by_nearness(self, tensor: Crossing, values: Sequence[Value]) -> list[Value]:
        """Return the values that are free, and these in the order of computation, first.

        Results of a Cell are after what comes before them. What a Cell is given may be computed long before it is used,
        so that the nearest values come first.
        """
        taken, rank = set(self.places.of.values()), self.file.rank
        last = max((rank[value] for value in self._places_before(tensor)), default=-1)
        if not any(key.kind == OUTPUT for key in tensor.keys):
            return sorted(values, key=lambda v: (v in taken, abs(rank[v] - last)))
        return sorted(values, key=lambda v: (v in taken, rank[v] < last, rank[v]))

    def _places_before(self, tensor: Crossing) -> list[Value]:
        """Return the places of earlier tensors; for a result, of what its call is given and of what follows from that.

        A file may compute another layer in between. Of several results, any may be computed first.
        """
        calls = {key[:2] for key in tensor.keys if key.kind == OUTPUT}
        earlier = {other: value for other, value in self.places.of.items() if other.order < tensor.order}
        others = {t: v for t, v in earlier.items() if not any(k.kind == OUTPUT and k[:2] in calls for k in t.keys)}
        given = [v for t, v in others.items() if any(k.kind == INPUT and k[:2] in calls for k in t.keys)]
        within = [v for v in others.values() if given and all(v is g or v in self.flat.after(g) for g in given)]
        return [*given, *within] or list(others.values())

    def place(self, tensor: Crossing, value: Value) -> bool:
        """Give a place to a tensor; return False if the file doesn't run with the tensor there."""
        self.file.fed[value] = tensor.arrays
        try:
            self.file.compute()
        except CellbridgeError:  # a tensor of another shape
            del self.file.fed[value]
            return False
        self.places.of[tensor] = value
        return True
