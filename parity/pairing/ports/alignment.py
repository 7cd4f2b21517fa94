"""Finds the pairs that are called alike, so that they can be compared call by call.

A correct port may be built differently from its original: one ReLU instead of two, a function instead of a layer, an
attention that takes one tensor instead of three, a BatchNorm over rows. Such a Cell isn't wrong, but it can't be
compared at its boundary: it is judged in the Cell around it. If only the layout of tensors differs, they are compared
in the module's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...correspondence.cells import Pairing
from ...correspondence.half_digits import alike, layout_of
from ...correspondence.layouts import Layout
from ...correspondence.same_inputs import Calls, inputs_to_join
from ...sides.records import INPUT, OUTPUT, Key, Records
from ...sides.run import FORWARD, ReferenceRun, Run
from ...sides.side import Side
from ...sides.torch_side import TorchSide

MAX_ROUNDS = 24
DIVIDED = "they divide the work with the Cell around them differently"

Sides = Callable[[Pairing, Mapping[Key, Layout]], tuple[TorchSide, Side]]


@dataclass
class Alignment:
    """The result of the alignment.

    Attributes:
        pairing: the pairs to compare, and those that are apart.
        layouts: layouts of the tensors that differ in the Cells, by boundary.
        joined: inputs of the module's calls that are one tensor, and count as one, since the Cell takes it once.
    """

    pairing: Pairing
    layouts: dict[Key, Layout] = field(default_factory=dict)
    joined: Calls = field(default_factory=dict)


def align(sides: Sides, pairing: Pairing) -> Alignment:
    """Run both sides forward, feeding the modules' values to the Cells, until all remaining pairs are called alike.

    Args:
        sides: creates the reference and the other side.
        pairing: the initial pairing of the two.
    """
    aligner = _Aligner(pairing)
    for _ in range(MAX_ROUNDS):
        plain, side = sides(aligner.pairing, aligner.layouts)
        reference = replace(plain, joined=aligner.joined)
        ((_, dtype), *_) = side.capabilities.checks
        truth = reference.run(Run("float64", FORWARD))
        records = side.run(Run(dtype, FORWARD, ReferenceRun.of(truth), truth))
        if not aligner.learn(_Observation(truth, records)):
            break
    return Alignment(aligner.pairing, aligner.layouts, aligner.joined)


class _Aligner:
    """The assumptions so far, and the trials."""

    def __init__(self, pairing: Pairing) -> None:
        self.original = pairing
        self.apart: dict[str, str] = {}
        self.layouts: dict[Key, Layout] = {}
        self.joined: Calls = {}
        self.rejected: set[str] = set()  # Cells for which another layout turned out to be wrong
        self.trials: dict[str, _Trials] = {}  # by path of the caller

    @property
    def pairing(self) -> Pairing:
        """The pairing without the pairs that are apart."""
        return self.original.without(self.apart)

    def learn(self, observation: _Observation) -> bool:
        """Draw one conclusion from an observation; return False if there is none."""
        if joined := observation.joined():
            self.joined = {**self.joined, **joined}
            return True
        if apart := observation.called_differently():
            self._mark_apart(apart)
            return True
        if any(trials.settle(observation, self.apart) for trials in self.trials.values()):
            return True
        if wrong := {path for path in {key.path for key in self.layouts} if not self._is_consistent(path, observation)}:
            self.rejected |= wrong
            self.layouts = {key: layout for key, layout in self.layouts.items() if key.path not in wrong}
            return True
        if new := dict(observation.outermost({k: v for k, v in observation.layouts() if k.path not in self.rejected})):
            self.layouts |= new
            return True
        for caller, callees in observation.divided_differently().items():
            self.trials.setdefault(caller, _Trials(caller, callees, observation.wrong_at(caller)))
        if new_apart := [path for trials in self.trials.values() for path in trials.start()]:
            self._mark_apart(dict.fromkeys(new_apart, DIVIDED))
            return True
        return False

    def _mark_apart(self, paths: Mapping[str, str]) -> None:
        self.apart |= paths
        self.layouts.clear()
        self.rejected.clear()

    def _is_consistent(self, path: str, observation: _Observation) -> bool:
        """Whether a Cell gives the right results in the layouts assumed for it.

        If the layout of its inputs differs, its outputs decide; if only that of its outputs does, its callers' outputs.
        """
        if any(key.path == path and key.kind == INPUT for key in self.layouts):
            return observation.outputs_are_right(path)
        return all(map(observation.outputs_are_right, observation.callers(path)))


class _Trials:
    """Wrong Cells called by a wrong Cell: some of them may divide the work with it differently.

    That is so if setting them apart makes something right at the caller, and nothing wrong. The trials set apart all of
    them, then all but one, then each alone.
    """

    def __init__(self, caller: str, callees: Sequence[str], wrong: set[Key]) -> None:
        self.caller = caller
        self.wrong = wrong
        all_but_one = [[path for path in callees if path != left] for left in callees]
        alone = [[path] for path in callees]
        self.pending = [
            list(callees),
            *(all_but_one + alone if len(callees) > 2 else alone if len(callees) == 2 else []),
        ]
        self.running: list[str] = []

    def start(self) -> list[str]:
        """Return the Cells to set apart next."""
        self.running = self.pending.pop(0) if self.pending else []
        return self.running

    def settle(self, observation: _Observation, apart: dict[str, str]) -> bool:
        """End the running trial; return whether its Cells are paired again."""
        tried, self.running = self.running, []
        if not tried:
            return False
        before = {key for key in self.wrong if key.path not in tried}
        if observation.wrong_at(self.caller) < before:
            self.pending.clear()
            return False
        for path in tried:
            del apart[path]
        return True


class _Observation:
    """The records of both sides in one run."""

    def __init__(self, truth: Records, records: Records) -> None:
        self.truth = truth
        self.records = records
        self.calls = truth.calls

    def joined(self) -> Calls:
        """Return the inputs of the module that are one tensor, in calls of Cells that take fewer."""
        return inputs_to_join(self.truth.slots, self.truth.boundaries.same, self.records.slots, {})[0]

    def called_differently(self) -> dict[str, str]:
        """Return Cells called with other tensors, another number of times, or in another order; with the reasons."""
        reasons: dict[str, list[str]] = {}
        for mismatch in self.records.faults.mismatches:
            if mismatch.path and mismatch.path not in self.records.faults.raising:
                reasons.setdefault(mismatch.path, []).append(mismatch.reason)
        counts: dict[str, int] = {}
        for call in self.calls:
            counts[call.path] = call.index + 1
        for path, count in counts.items():
            if path and count > 1 and path not in reasons and self._has_reordered_calls(path, range(count)):
                reasons[path] = ["its calls come in another order here"]
        return {path: "; ".join(dict.fromkeys(how)) for path, how in reasons.items()}

    def _has_reordered_calls(self, path: str, calls: range) -> bool:
        """Whether a call has the inputs of another call."""
        slots = [self.truth.slots.get((path, index, INPUT), []) for index in calls]
        if not slots[0] or any(others != slots[0] for others in slots):
            return False

        def is_call(candidate_call: int, reference_call: int) -> bool:
            pairs = [
                (Key(path, reference_call, INPUT, slot), Key(path, candidate_call, INPUT, slot)) for slot in slots[0]
            ]
            return all(
                candidate_key in self.records.values
                and alike(self.truth.values[reference_key], self.records.values[candidate_key])
                for reference_key, candidate_key in pairs
            )

        return any(not is_call(i, i) and any(is_call(i, j) for j in calls) for i in calls)

    def layouts(self) -> Iterator[tuple[Key, Layout]]:
        """Yield the tensors of inner Cells that have the same elements in another layout."""
        for key, value in self.truth.values.items():
            other = self.records.values.get(key)
            if key.path and key.kind in (INPUT, OUTPUT) and other is not None:
                layout = layout_of(other, value)
                if layout is not None:
                    yield key, layout

    def outermost(self, new: Mapping[Key, Layout]) -> Iterator[tuple[Key, Layout]]:
        """Yield the layouts of Cells that no other such Cell calls; settling these may change those inside."""
        above = {(call.path, call.index): call.parent for call in self.calls}
        calls = {(key.path, key.call) for key in new}
        for key, layout in new.items():
            parent = above[key.path, key.call]
            while parent is not None and (self.calls[parent].path, self.calls[parent].index) not in calls:
                parent = self.calls[parent].parent
            if parent is None:
                yield key, layout

    def divided_differently(self) -> dict[str, list[str]]:
        """Return wrong Cells by path of their caller, if that is wrong too."""
        wrong = [p for p in dict.fromkeys(call.path for call in self.calls) if p and not self.outputs_are_right(p)]
        callees: dict[str, list[str]] = {}
        for path in wrong:
            caller, *others = self.callers(path)
            if not others and path not in self.records.faults.raising and self.wrong_at(caller):
                callees.setdefault(caller, []).append(path)
        return {caller: paths for caller, paths in callees.items() if not any(path in callees for path in paths)}

    def callers(self, path: str) -> set[str]:
        """Paths of the Cells that call a Cell."""
        parents = [call.parent for call in self.calls if call.path == path]
        return {self.calls[parent].path for parent in parents if parent is not None}

    def wrong_at(self, path: str) -> set[Key]:
        """Return the wrong outputs of a Cell, and the wrong values that it passes to the Cells that it calls."""
        numbers = {number for number, call in enumerate(self.calls) if call.path == path}
        called = {(call.path, call.index) for call in self.calls if call.parent in numbers}
        return {
            key
            for key in self.truth.values
            if (key.kind == OUTPUT and key.path == path) or (key.kind == INPUT and (key.path, key.call) in called)
            if not self._is_right(key)
        }

    def outputs_are_right(self, path: str) -> bool:
        """Whether a Cell's outputs are right, in any layout."""
        outputs = [key for key in self.truth.values if key.kind == OUTPUT and key.path == path]
        return path not in self.records.faults.raising and all(map(self._is_right, outputs))

    def _is_right(self, key: Key) -> bool:
        value, other = self.truth.values[key], self.records.values.get(key)
        return other is not None and (alike(value, other) or layout_of(other, value) is not None)
