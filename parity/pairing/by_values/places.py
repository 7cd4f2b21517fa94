"""Finds the places of a module's boundaries in a file: the values there that are the tensors of the module.

Places are found by values first: a tensor of the module and a value of the file that agree are the same, whatever
their names. Where the file has a fault, nothing after it agrees. There, a value is the place of a tensor if with the
tensor in its place more of what follows agrees. The paths that the file gives for its nodes say which values to try
first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import Value
from ...correspondence.distances import EXACT, ROUNDED, distance
from ...sides.records import INPUT, OUTPUT
from .anchors import Anchor, divided
from .crossings import Crossing, unused_results
from .equal_values import settle
from .file_values import FileValues
from .repeated_layers import MOST_ALIKE, RepeatedLayers, turns_of_cells
from .trials import CLOSE, DIGITS, Trials, is_similar, norm_of

LITTLE = 0.5
"""Gain in digits that may be chance."""
MAX_TRIALS = 400
MAX_CANDIDATES = 48
RIVALS = 3


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


class PlaceFinder:
    """Finds the places of tensors in a file.

    Args:
        file: the values of the file's program.
        tensors: the tensors that cross the module's boundaries, in order.
        fixed: the places of the module's inputs and outputs.
        known: places found before.
        proposed: values that may be the places of tensors, though numbers in them are wrong.
        anchors: see `find_anchors`.
        ends_of_moved: see `Moves.ends`.
        supposed: values of the program that only a tensor in a supposed layout needs.
    """

    def __init__(
        self,
        file: FileValues,
        tensors: Sequence[Crossing],
        fixed: dict[Crossing, Value],
        known: Places,
        proposed: Mapping[Crossing, Value],
        anchors: Mapping[Crossing, Anchor],
        ends_of_moved: Mapping[Crossing, Value],
        supposed: Collection[Value],
    ) -> None:
        self.file = file
        self.flat = file.flat
        self.proposed = proposed
        self.anchors = anchors
        self.ends_of_moved = ends_of_moved
        self.supposed = supposed
        self.tensors = [
            tensor
            for tensor in tensors
            if tensor.can_have_a_place or (tensor.varies and not tensor.floating and tensor not in fixed)
        ]
        self.ends = {tensor: place for tensor, place in fixed.items() if any(k == OUTPUT for _, _, k, _ in tensor.keys)}
        self.places = Places(known.of | fixed, set(known.by_paths), set(known.by_trial))
        self.absent: set[Crossing] = set()
        self.unused = unused_results(tensors)
        stored = set(self.flat.program.constant_data)
        self.candidates = [v for v in self.file.rank if v not in stored]
        self._given = {anchor.given: anchor.entering for anchor in anchors.values()}
        self.trials = Trials(file, self.tensors, self.places.of)
        self.repeated = RepeatedLayers(self.flat)
        for tensor in known.by_trial & known.of.keys():
            self.repeated.add(tensor, known.of[tensor])

    def find(self) -> Places:
        """Return the places."""
        self._feed_results()
        self._match_all()
        while self._continue():
            self._match_all()
        before = dict(self.places.of)
        settle(self.file, self.places.of, {tensor: self._hints(tensor) for tensor in before}, self.supposed)
        for tensor, place in before.items():  # a view that is no place any more isn't kept, nor what is fed there
            if place in self.file.fed and tensor in self.places.of:
                self.file.fed[self.places.of[tensor]] = tensor.arrays
        for value, tensor, keys in divided(self.file, self.places.of, self.anchors):
            tensor.keys[:] = [key for key in tensor.keys if key not in keys]
            self.places.of[Crossing(tensor.order, tensor.arrays, keys, tensor.varies, tensor.gradient)] = value
        return self.places

    def _feed_results(self) -> None:
        """Put the module's results in the places of wrong ones: a state that is returned may be used, too."""
        for tensor, place in self.ends.items():
            arrays = self.file.values[place]
            is_used = tensor.floating and place in self.flat.consumers and arrays[0].shape == tensor.shape
            if is_used and distance(arrays, tensor.arrays) > EXACT:
                self.file.fed[place] = tensor.arrays
        self.file.compute()

    def _continue(self) -> bool:
        """Find one more place other than by agreement; return whether there is one."""
        if self._agrees():
            return self._turn() or self._repair(everywhere=False)
        by_numbers = self._end() or self._repair(everywhere=True) or self._anchor()
        return by_numbers or self._turn() or self._match_first() or self._trust()

    def _turn(self) -> bool:
        """Give a tensor of a wrong Cell its place in a turn of a loop, as in another turn; return whether there is one.

        Behind a wrong turn the next is wrong, too, so that nothing of what follows agrees.
        """
        results = [key for t in self.places.of if self._is_wrong(t) for key in t.keys if key.kind == OUTPUT]
        wrong = {key.path for key in results if key.path}
        taken = set(self.places.of.values())
        for path, kind, turns in turns_of_cells(self.tensors):
            for number, placed in enumerate(turns if path in wrong else ()):
                place = self.places.of.get(placed)
                for values in self.repeated.series(place, number, len(turns), kind) if place is not None else ():
                    for tensor, value in zip(turns, values, strict=True):
                        is_free = tensor not in self.places.of and value not in taken
                        if is_free and self._fits(value, tensor) and self._place(tensor, value):
                            self.places.by_trial.add(tensor)
                            return True
        return False

    def _end(self) -> bool:
        """Give a place to the first result of a Cell that holds a moved one; return whether there is one."""
        taken = set(self.places.of.values())
        for tensor, value in self.ends_of_moved.items():
            if tensor not in self.places.of and value in self.file.rank and value not in taken:
                return self._place(tensor, value)
        return False

    def _is_wrong(self, tensor: Crossing) -> bool:
        """Whether a tensor has a place where the file computes something else."""
        place = self.places.of.get(tensor)
        return place is not None and distance(self.file.values[place], tensor.arrays) > ROUNDED

    def _anchor(self) -> bool:
        """Give a place to the first tensor that has an anchor; return whether there is one."""
        taken = set(self.places.of.values())
        for tensor in self._unplaced_numbers():
            anchor = self.anchors.get(tensor)
            if anchor is not None and anchor.leaving not in taken:
                return self._place(tensor, anchor.leaving)
        return False

    def _agrees(self) -> bool:
        """Whether the file's results are the module's, given the module's values at the places found so far."""
        return all(distance(self.file.values[place], tensor.arrays) <= ROUNDED for tensor, place in self.ends.items())

    def _unplaced(self) -> list[Crossing]:
        return [tensor for tensor in self.tensors if tensor not in self.places.of]

    def _unplaced_numbers(self) -> list[Crossing]:
        """Return the tensors that differ from sample to sample, or are trained, as a norm of a table of positions is.

        With other constants, too little of what follows agrees.
        """
        return [tensor for tensor in self._unplaced() if tensor.can_have_a_place]

    def _match_all(self) -> None:
        """Give places to all tensors that agree with values."""
        while self._match(ROUNDED):
            self.file.compute()

    def _match_first(self) -> bool:
        """Give a place to the first tensor that hardly agrees with a value; return whether there is one."""
        if not self._match(CLOSE, only_first=True):
            return False
        self.file.compute()
        return True

    def _match(self, limit: float, *, only_first: bool = False) -> bool:
        """Give places to tensors, the closest first, or to the first alone; return whether a place must be fed."""
        taken = set(self.places.of.values())
        by_shape: dict[tuple[int, ...], list[tuple[Value, float]]] = {}
        for value in self.candidates:
            if value not in taken:
                arrays = self.file.values[value]
                by_shape.setdefault(arrays[0].shape, []).append((value, norm_of(arrays)))
        agreeing: dict[Crossing, dict[Value, float]] = {}
        for tensor in self._unplaced():
            for value, norm in by_shape.get(tensor.shape, []):
                if not is_similar(norm, self.trials.norms[tensor]):
                    continue
                apart = distance(self.file.values[value], tensor.arrays)
                # a gain of 1 and a norm that is 1 at first are computed from parameters, which have all their digits
                if apart <= (limit if tensor.varies or tensor.is_source else EXACT):
                    agreeing.setdefault(tensor, {})[value] = max(apart, EXACT)
            if agreeing and only_first:
                break
        pairs: list[tuple[float, bool, bool, bool, int, Crossing, Value]] = []
        for tensor, values in agreeing.items():
            hints, trained = set(self._hints(tensor)), self._trained_by_inputs(tensor, agreeing)
            for value, apart in values.items():
                passes_nothing = trained is not None and value not in trained
                unread = not self._may_train(value, tensor)
                pairs.append((apart, unread, value not in hints, passes_nothing, self.file.rank[value], tensor, value))
        must_feed = False
        for *_, tensor, value in sorted(pairs, key=lambda pair: pair[:5]):
            if tensor in self.places.of or value in taken:
                continue
            taken.add(value)
            self.places.of[tensor] = value
            if tensor.floating and distance(self.file.values[value], tensor.arrays) > EXACT:
                self.file.fed[value] = tensor.arrays
                must_feed = True
        return must_feed

    def _trained_by_inputs(
        self, tensor: Crossing, agreeing: Mapping[Crossing, Collection[Value]]
    ) -> frozenset[Value] | None:
        """Return the values from which a gradient passes back to what the Cell is given that returns a tensor.

        A straight-through estimator returns the numbers of its codes, and the gradient passes to what it is given.

        Args:
            tensor: the tensor.
            agreeing: the values that agree with tensors that have no place yet.

        Returns:
            The values; None if no gradient arrives at the tensor, or it isn't known where the Cell's inputs are.
        """
        calls = {key[:2] for key in tensor.keys if key.kind == OUTPUT and key.path}
        given: list[Value] = []
        for other in self.tensors if calls and tensor.trained else ():
            if other.trained and any(key.kind == INPUT and key[:2] in calls for key in other.keys):
                given += [self.places.of[other]] if other in self.places.of else agreeing.get(other, ())
        return frozenset().union(*map(self.flat.trained_by, given)) if given else None

    def _hints(self, tensor: Crossing) -> list[Value]:
        """Return the values that are proposed for a tensor, or that the paths of the file's nodes give, in order."""
        hinted = dict.fromkeys([self.proposed[tensor]] if tensor in self.proposed else [])
        for key in tensor.keys:
            if key.path in self.flat.paths:
                ends = self.flat.ends(key.path)
                hinted |= dict.fromkeys(ends.entering if key.kind == INPUT else ends.leaving)
        return [value for value in hinted if self._fits(value, tensor)]

    def _fits(self, value: Value, tensor: Crossing) -> bool:
        array = self.file.values[value][0] if value in self.file.values else None
        is_like = array is not None and array.shape == tensor.shape and (array.dtype.kind == "f") == tensor.floating
        return is_like and self._may_train(value, tensor)

    def _may_train(self, value: Value, tensor: Crossing) -> bool:
        """Whether a result depends on a value, if a gradient passes through the tensor."""
        return value in self.flat.needed or not tensor.trained

    def _repair(self, *, everywhere: bool) -> bool:
        """Give a place to the first tensor that makes more of what follows agree there; return whether there is one.

        Places like those in other layers are tried first. Unless the place is sought `everywhere`, only these and
        values that hardly differ from the tensor are tried, but for what a wrong Cell returns beside other results.
        """
        without_trial = self.absent | self.unused  # of what nothing takes, nothing follows that could agree
        unplaced = [tensor for tensor in self._unplaced_numbers() if tensor not in without_trial]
        for tensor in unplaced:
            alike = [value for value in self.repeated.values_for(tensor) if self._fits(value, tensor)]
            values = self._by_nearness(tensor, alike)[:MOST_ALIKE]
            if values and self._try(tensor, values, values, len(values)):
                return True
        for tensor in unplaced:
            if self.trials.count >= MAX_TRIALS:
                return False
            likely, others = self._options(tensor)
            widely = everywhere or self._is_beside_wrong(tensor)
            if not widely:
                proposed = self.proposed.get(tensor)
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
        return any(map(self._is_wrong, others))

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
        unplaced = self._unplaced_numbers()
        position = unplaced.index(tensor)
        rivals = unplaced[position + 1 : position + 1 + RIVALS]
        for rival in rivals:
            if self._fits(place, rival) and (gain := self.trials.gain(rival, place)) > best:
                best, tensor = gain, rival
        if in_other_shapes and LITTLE < best <= DIGITS:
            tensor, place = self._better(tensor, place, best, rivals)
        place = self._last_as_good(tensor, place)
        if not self._place(tensor, place):
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
            likely, others = self._options(rival)
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
        hints = {
            value for key in tensor.keys if key.path in self.flat.paths for value in self.flat.ends(key.path).leaving
        }
        taken = set(self.places.of.values())
        odd = [
            value
            for value in self.candidates
            if value not in taken
            and (array := self.file.values[value][0]).ndim == len(tensor.shape)
            and array.dtype.kind == "f"
            and array.shape != tensor.shape
            and self._may_train(value, tensor)
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

    def _options(self, tensor: Crossing) -> tuple[list[Value], list[Value]]:
        """Return the likely places of a tensor, and the others to try, the nearest in order of computation first."""
        taken = set(self.places.of.values())
        fits = [value for value in self.candidates if self._fits(value, tensor)]
        apart = {value: distance(self.file.values[value], tensor.arrays) for value in fits if value not in taken}
        likely = sorted((value for value, far in apart.items() if far <= CLOSE), key=lambda value: apart[value])
        hints = [*self._hints(tensor), *(self._given[key] for key in tensor.keys if key in self._given)]
        likely += [value for value in dict.fromkeys(hints) if value in apart and value not in likely]
        return likely, self._by_nearness(tensor, [value for value in fits if value not in likely])

    def _by_nearness(self, tensor: Crossing, values: Sequence[Value]) -> list[Value]:
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

    def _place(self, tensor: Crossing, value: Value) -> bool:
        """Give a place to a tensor; return False if the file doesn't run with the tensor there."""
        self.file.fed[value] = tensor.arrays
        try:
            self.file.compute()
        except CellbridgeError:  # a tensor of another shape
            del self.file.fed[value]
            return False
        self.places.of[tensor] = value
        return True

    def _trust(self) -> bool:
        """Give a tensor the only place that the paths of the file's nodes give for it; return whether there is one."""
        taken = set(self.places.of.values())
        unplaced = self._unplaced_numbers()
        for tensor, following in zip(unplaced, [*unplaced[1:], None], strict=False):
            # the Cell may be computed together with the next one, which the file then doesn't name
            if following is not None and following.shape == tensor.shape and not self._named(following):
                continue
            free = [value for value in self._hints(tensor) if value not in taken]
            if len(free) == 1:
                self.places.by_paths.add(tensor)
                return self._place(tensor, free[0])
        return False

    def _named(self, tensor: Crossing) -> bool:
        return all(key.path in self.flat.paths for key in tensor.keys if key.kind == OUTPUT)
