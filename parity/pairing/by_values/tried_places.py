"""Places that are found by trying: with a tensor in its place, more of what follows agrees."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....runtime.ir.types import Value
from ...correspondence.distances import EXACT, distance
from ...sides.records import OUTPUT
from .candidates import Candidates
from .crossings import Crossing
from .repeated_layers import MOST_ALIKE, RepeatedLayers
from .trials import CLOSE, DIGITS, Trials

LITTLE = 0.5
"""Gain in digits that may be chance."""
MAX_TRIALS = 400
MAX_CANDIDATES = 48
RIVALS = 3


class TriedPlaces:
    """Finds places by trying.

    Args:
        candidates: what may be tried; a place that is found is added to its places.
        trials: what agrees with a tensor in a place.
        repeated: the places that trials have shown in other layers.
        unused: results of the module that nothing takes, of which nothing follows that could agree.
    """

    def __init__(
        self, candidates: Candidates, trials: Trials, repeated: RepeatedLayers, unused: Collection[Crossing]
    ) -> None:
        self.candidates = candidates
        self.file = candidates.file
        self.places = candidates.places
        self.trials = trials
        self.repeated = repeated
        self.unused = set(unused)
        self.absent: set[Crossing] = set()

    def place_next(self, *, everywhere: bool) -> bool:
        """Give a place to the first tensor that makes more of what follows agree there; return whether there is one.

        Places like those in other layers are tried first. Unless the place is sought `everywhere`, only these and
        values that hardly differ from the tensor are tried, but for what a wrong Cell returns beside other results and
        what is returned before a wrong value.
        """
        without_trial = self.absent | self.unused
        unplaced = [tensor for tensor in self.candidates.unplaced_numbers() if tensor not in without_trial]
        for tensor in unplaced:
            alike = [value for value in self.repeated.values_for(tensor) if self.candidates.fits(value, tensor)]
            values = self.candidates.by_nearness(tensor, alike)[:MOST_ALIKE]
            if values and self._try(tensor, values, values, len(values)):
                return True
        for tensor in unplaced:
            if self.trials.count >= MAX_TRIALS:
                return False
            likely, others = self.candidates.options(tensor)
            widely = everywhere or self._is_beside_wrong(tensor) or self._is_before_wrong(tensor)
            if not widely:
                proposed = self.candidates.proposed.get(tensor)
                likely = [v for v in likely if v is proposed or distance(self.file.values[v], tensor.arrays) <= CLOSE]
                others = []
            values = [*likely, *others][:MAX_CANDIDATES]
            if self._try(tensor, values, likely, MAX_TRIALS - self.trials.count, in_other_shapes=everywhere):
                return True
            if widely:
                self.absent.add(tensor)
        return False

    def _is_beside_wrong(self, tensor: Crossing) -> bool:
        """Whether a call returns a tensor beside one that has a place where the file computes something else."""
        calls = {key[:2] for key in tensor.keys if key.kind == OUTPUT and key.path}
        others = [t for t in self.places.of if any(key.kind == OUTPUT and key[:2] in calls for key in t.keys)]
        return any(map(self.candidates.is_wrong, others))

    def _is_before_wrong(self, tensor: Crossing) -> bool:
        """Whether a Cell returns a tensor of which the next with a place is wrong there, and may follow from it."""
        following = min((t for t in self.places.of if t.order > tensor.order), key=lambda t: t.order, default=None)
        is_result = any(key.kind == OUTPUT and key.path for key in tensor.keys)
        if following is None or not is_result:
            return False
        return following in self.places.by_trial and self.candidates.is_wrong(following)

    def _try(
        self,
        tensor: Crossing,
        values: Sequence[Value],
        likely: Collection[Value],
        most_trials: int,
        *,
        in_other_shapes: bool = False,
    ) -> bool:
        """Give a place to a tensor among these values, or one to a tensor after it that fits better there or elsewhere.

        Args:
            tensor: the tensor.
            values: the values, the likely ones first.
            likely: those that are taken at once if all digits agree there.
            most_trials: the most of them that are tried.
            in_other_shapes: whether values of other shapes are tried if none of these is the place.
        """
        best, place = LITTLE, None
        for value in values[:most_trials]:
            gain = self.trials.gain(tensor, value)
            if gain > best:
                best, place = gain, value
                if value in likely and gain >= DIGITS - 1:
                    break
        if place is None and in_other_shapes:
            place = self._place_of_another_shape(tensor)
        if place is None:
            return False
        unplaced = self.candidates.unplaced_numbers()
        position = unplaced.index(tensor)
        rivals = unplaced[position + 1 : position + 1 + RIVALS]
        follows = self.trials.agreeing(tensor, place, rivals) if best > DIGITS + LITTLE else set()
        for rival in rivals:
            is_possible = rival not in follows and self.candidates.fits(place, rival)
            if is_possible and (gain := self.trials.gain(rival, place)) > best:
                best, tensor = gain, rival
        if in_other_shapes and LITTLE < best <= DIGITS:
            tensor, place = self._better(tensor, place, best, rivals)
        place = self._last_as_good(tensor, place)
        if not self.candidates.place(tensor, place):
            self.absent.add(tensor)
            return False
        if distance(self.file.values[place], tensor.arrays) > CLOSE:
            self.places.by_trial.add(tensor)
            self.repeated.add(tensor, place)
        self.absent.clear()  # what was tried in vain may have its place now
        return True

    def _better(
        self, tensor: Crossing, place: Value, best: float, rivals: Sequence[Crossing]
    ) -> tuple[Crossing, Value]:
        """Return a tensor and a place with which more of what follows agrees than one tensor alone.

        Before any activation, what it is given makes its result agree, and nothing else, if the sum is nowhere. So the
        result, which is the next tensor, needs no more than that.
        """
        for rival in rivals:
            likely, others = self.candidates.options(rival)
            for value in [*likely, *others][:MAX_CANDIDATES]:
                if self.trials.count >= MAX_TRIALS:
                    break
                gain = self.trials.gain(rival, value)
                if gain > best + LITTLE or (gain >= best and tensor is not rival is rivals[0]):
                    best, tensor, place = gain, rival, value
        return tensor, place

    def _last_as_good(self, tensor: Crossing, place: Value) -> Value:
        """Return the last value that is the tensor once a place is, with which as much of what follows agrees.

        Weights that are normalized are themselves if they are normalized again: before the sum that divides them, too,
        they explain all that follows, but a Cell that returns them normalizes them.
        """
        taken = set(self.places.of.values())
        changed = self.file.trial(place, tensor.arrays)
        same = [
            value
            for value, arrays in changed.items()
            if value not in taken and value in self.file.rank and distance(arrays, tensor.arrays) <= EXACT
        ]
        if not same:
            return place
        last = max(same, key=self.file.rank.__getitem__)
        return last if self.trials.gain(tensor, last) >= self.trials.gain(tensor, place) - LITTLE else place

    def _place_of_another_shape(self, tensor: Crossing) -> Value | None:
        """Return the value of as many dimensions, but another shape, with which most of what follows agrees."""
        if not any(key.kind == OUTPUT for key in tensor.keys):
            return None
        flat = self.candidates.flat
        hints = {value for key in tensor.keys if key.path in flat.paths for value in flat.ends(key.path).leaving}
        taken = set(self.places.of.values())
        odd = [
            value
            for value in self.candidates.values
            if value not in taken
            and (array := self.file.values[value][0]).ndim == len(tensor.shape)
            and array.dtype.kind == "f"
            and array.shape != tensor.shape
            and self.candidates.may_train(value, tensor)
        ]
        odd.sort(key=lambda value: (value not in hints, self.file.rank[value]))
        best, place = LITTLE, None
        for value in odd[:MAX_CANDIDATES]:
            if self.trials.count >= MAX_TRIALS:
                break
            gain = self.trials.gain(tensor, value)
            if gain > best:
                best, place = gain, value
        return place
