"""Finds the places of a module's boundaries in a file: the values there that are the tensors of the module.

Places are found by values first: a tensor of the module and a value of the file that agree are the same, whatever
their names. Where the file has a fault, nothing after it agrees. There, a value is the place of a tensor if with the
tensor in its place more of what follows agrees. The paths that the file gives for its nodes say which values to try
first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from ....runtime.ir.types import Value
from ...correspondence.distances import EXACT, ROUNDED, Arrays, distance
from ...sides.records import INPUT, OUTPUT
from .anchors import Anchor, divided
from .candidates import Candidates, Places
from .crossings import Crossing, unused_results
from .equal_values import settle
from .file_values import FileValues
from .repeated_layers import RepeatedLayers, turns_of_cells
from .trials import CLOSE, Trials, is_similar, norm_of
from .tried_places import TriedPlaces


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
        lacking: parts of tensors that the file lacks beside others that it has.
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
        lacking: Mapping[Crossing, Sequence[Arrays]],
    ) -> None:
        self.file = file
        self.flat = file.flat
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
        self.candidates = Candidates(file, self.tensors, self.places, proposed, anchors)
        self.trials = Trials(file, self.tensors, self.places.of, lacking)
        self.repeated = RepeatedLayers(self.flat)
        for tensor in known.by_trial & known.of.keys():
            self.repeated.add(tensor, known.of[tensor])
        self.tried = TriedPlaces(self.candidates, self.trials, self.repeated, unused_results(tensors))

    def find(self) -> Places:
        """Return the places."""
        self._feed_results()
        self._match_all()
        while self._continue():
            self._match_all()
        before = dict(self.places.of)
        settle(self.file, self.places.of, {tensor: self.candidates.hints(tensor) for tensor in before}, self.supposed)
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
        if self._part():
            return True
        if self._agrees():
            return self._turn() or self.tried.place_next(everywhere=False)
        by_numbers = self._end() or self.tried.place_next(everywhere=True) or self._anchor()
        return by_numbers or self._turn() or self._match_first() or self._trust()

    def _part(self) -> bool:
        """Give a tensor the place of a part that the file joins to a wrong value; return whether there is one.

        The module's tensor in the place of that value has it as a part, too.
        """
        unplaced, taken = self.candidates.unplaced_numbers(), set(self.places.of.values())
        for whole, place in self.places.of.items():
            for part, arrays in self._joined(whole, place) if self.candidates.is_wrong(whole) else ():
                tensor = next((t for t in unplaced if distance(t.arrays, arrays) <= EXACT), None)
                if tensor is not None and part not in taken and self.candidates.place(tensor, part):
                    self.places.by_trial.add(tensor)
                    return True
        return False

    def _joined(self, whole: Crossing, place: Value) -> Iterator[tuple[Value, Arrays]]:
        """Yield the values that the file joins in the place of a tensor, with the part of the tensor that each is."""
        node = self.flat.program.producers.get(place)
        if node is None or node.op != "concat" or place.type.sizes != whole.shape:
            return
        axis, start = node.attributes["axis"], 0
        for part in node.inputs:
            sizes = None if part is None else part.type.sizes
            if part is None or sizes is None:
                return
            end = start + sizes[axis]
            yield part, [np.take(array, range(start, end), axis) for array in whole.arrays]
            start = end

    def _turn(self) -> bool:
        """Give a tensor of a wrong Cell its place in a turn of a loop, as in another turn; return whether there is one.

        Behind a wrong turn the next is wrong, too, so that nothing of what follows agrees.
        """
        results = [key for t in self.places.of if self.candidates.is_wrong(t) for key in t.keys if key.kind == OUTPUT]
        wrong = {key.path for key in results if key.path}
        taken = set(self.places.of.values())
        for path, kind, turns in turns_of_cells(self.tensors):
            for number, placed in enumerate(turns if path in wrong else ()):
                place = self.places.of.get(placed)
                for values in self.repeated.series(place, number, len(turns), kind) if place is not None else ():
                    for tensor, value in zip(turns, values, strict=True):
                        is_free = tensor not in self.places.of and value not in taken
                        if is_free and self.candidates.fits(value, tensor) and self.candidates.place(tensor, value):
                            self.places.by_trial.add(tensor)
                            return True
        return False

    def _end(self) -> bool:
        """Give a place to the first result of a Cell that holds a moved one; return whether there is one."""
        taken = set(self.places.of.values())
        for tensor, value in self.ends_of_moved.items():
            if tensor not in self.places.of and value in self.file.rank and value not in taken:
                return self.candidates.place(tensor, value)
        return False

    def _anchor(self) -> bool:
        """Give a place to the first tensor that has an anchor; return whether there is one."""
        taken = set(self.places.of.values())
        for tensor in self.candidates.unplaced_numbers():
            anchor = self.anchors.get(tensor)
            if anchor is not None and anchor.leaving not in taken:
                return self.candidates.place(tensor, anchor.leaving)
        return False

    def _agrees(self) -> bool:
        """Whether the file's results are the module's, given the module's values at the places found so far."""
        return all(distance(self.file.values[place], tensor.arrays) <= ROUNDED for tensor, place in self.ends.items())

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
        for value in self.candidates.values:
            if value not in taken:
                arrays = self.file.values[value]
                by_shape.setdefault(arrays[0].shape, []).append((value, norm_of(arrays)))
        agreeing: dict[Crossing, dict[Value, float]] = {}
        for tensor in self.candidates.unplaced():
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
            hints, trained = set(self.candidates.hints(tensor)), self._trained_by_inputs(tensor, agreeing)
            for value, apart in values.items():
                passes_nothing = trained is not None and value not in trained
                unread = not self.candidates.may_train(value, tensor)
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

    def _trust(self) -> bool:
        """Give a tensor the only place that the paths of the file's nodes give for it; return whether there is one."""
        taken = set(self.places.of.values())
        unplaced = self.candidates.unplaced_numbers()
        for tensor, following in zip(unplaced, [*unplaced[1:], None], strict=False):
            # the Cell may be computed together with the next one, which the file then doesn't name
            if following is not None and following.shape == tensor.shape and not self._named(following):
                continue
            free = [value for value in self.candidates.hints(tensor) if value not in taken]
            if len(free) == 1:
                self.places.by_paths.add(tensor)
                return self.candidates.place(tensor, free[0])
        return False

    def _named(self, tensor: Crossing) -> bool:
        return all(key.path in self.flat.paths for key in tensor.keys if key.kind == OUTPUT)
