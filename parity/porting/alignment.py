"""Which pairs are called alike, so that they can be held against each other call by call.

A right port may be built otherwise than its original: one ReLU in place of two, a function in place of a layer, an
attention that takes one tensor in place of three, a BatchNorm that sees rows. Such a Cell isn't wrong by that, and
can't be compared at its boundary: it is judged in the Cell around it. Where only the layout of tensors differs, they
are compared in the module's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..pairing.cells import Pairing
from ..sides.layouts import Layout, alike, layout_of
from ..sides.records import INPUT, OUTPUT, Key, Records, Run, Side

MAX_ROUNDS = 24
DIVIDED = "they share the work with the Cell around otherwise"

Sides = Callable[[Pairing, Mapping[Key, Layout]], tuple[Side, Side]]


@dataclass
class Alignment:
    """What was found.

    Attributes:
        pairing: with the pairs that are compared, and with those that are apart.
        layouts: of the tensors that stand otherwise in the Cells, by boundary.
    """

    pairing: Pairing
    layouts: dict[Key, Layout] = field(default_factory=dict)


def align(sides: Sides, pairing: Pairing) -> Alignment:
    """Run both sides forward, the Cells fed with what the modules had, until all pairs that are left are called alike.

    Args:
        sides: makes the reference and the other side.
        pairing: of the two.
    """
    aligner = _Aligner(pairing)
    for _ in range(MAX_ROUNDS):
        reference, side = sides(aligner.pairing, aligner.layouts)
        ((_, dtype), *_) = side.capabilities.checks
        truth = reference.run(Run("float64", grads=False))
        records = side.run(
            Run(dtype, grads=False, draws=truth.draws, feed=truth, slots=truth.slots, result=truth.result)
        )
        if not aligner.learn(_Seen(truth, records)):
            break
    return Alignment(aligner.pairing, aligner.layouts)


class _Aligner:
    """What is supposed so far, and what was tried."""

    def __init__(self, pairing: Pairing) -> None:
        self.original = pairing
        self.apart: dict[str, str] = {}
        self.layouts: dict[Key, Layout] = {}
        self.refused: set[str] = set()  # Cells that turned out not to be called in another layout
        self.trials: dict[str, _Trials] = {}  # by path of the caller

    @property
    def pairing(self) -> Pairing:
        """Without the pairs that are apart."""
        return self.original.without(self.apart)

    def learn(self, seen: _Seen) -> bool:
        """Draw one conclusion from what was seen; False if there is none."""
        if called := seen.called_otherwise():
            self._set_apart(called)
            return True
        if any(trials.settle(seen, self.apart) for trials in self.trials.values()):
            return True
        if wrong := {path for path in {key.path for key in self.layouts} if not self._holds(path, seen)}:
            self.refused |= wrong
            self.layouts = {key: layout for key, layout in self.layouts.items() if key.path not in wrong}
            return True
        if new := dict(seen.outermost({k: v for k, v in seen.layouts() if k.path not in self.refused})):
            self.layouts |= new
            return True
        for caller, callees in seen.divided_otherwise().items():
            self.trials.setdefault(caller, _Trials(caller, callees, seen.wrong_at(caller)))
        if started := [path for trials in self.trials.values() for path in trials.start()]:
            self._set_apart(dict.fromkeys(started, DIVIDED))
            return True
        return False

    def _set_apart(self, paths: Mapping[str, str]) -> None:
        self.apart |= paths
        self.layouts.clear()
        self.refused.clear()

    def _holds(self, path: str, seen: _Seen) -> bool:
        """Whether a Cell works rightly in the layouts supposed for it.

        If its inputs are laid out otherwise, by its outputs; if only its outputs are, by those of its callers.
        """
        if any(key.path == path and key.kind == INPUT for key in self.layouts):
            return seen.outputs_are_right(path)
        return all(map(seen.outputs_are_right, seen.callers(path)))


class _Trials:
    """Cells that are wrong, called by one that is, too: some of them may share the work with it otherwise.

    That is so if something about the caller gets right, and nothing wrong, once they are set apart. All of them are
    tried together, then all but one, then each alone.
    """

    def __init__(self, caller: str, callees: Sequence[str], wrong: set[Key]) -> None:
        self.caller = caller
        self.wrong = wrong
        all_but_one = [[path for path in callees if path != left] for left in callees]
        alone = [[path] for path in callees]
        self.open = [list(callees), *(all_but_one + alone if len(callees) > 2 else alone if len(callees) == 2 else [])]
        self.running: list[str] = []

    def start(self) -> list[str]:
        """The Cells to set apart next."""
        self.running = self.open.pop(0) if self.open else []
        return self.running

    def settle(self, seen: _Seen, apart: dict[str, str]) -> bool:
        """End the trial that runs; whether its Cells are taken back."""
        tried, self.running = self.running, []
        if not tried:
            return False
        before = {key for key in self.wrong if key.path not in tried}
        if seen.wrong_at(self.caller) < before:
            self.open.clear()
            return False
        for path in tried:
            del apart[path]
        return True


class _Seen:
    """The records of both sides."""

    def __init__(self, truth: Records, records: Records) -> None:
        self.truth = truth
        self.records = records
        self.calls = truth.calls

    def called_otherwise(self) -> dict[str, str]:
        """Cells that are called with other tensors, more or less often, or in another order; and how."""
        found: dict[str, list[str]] = {}
        for mismatch in self.records.mismatches:
            if mismatch.path and mismatch.path not in self.records.raised:
                found.setdefault(mismatch.path, []).append(mismatch.reason)
        counts: dict[str, int] = {}
        for call in self.calls:
            counts[call.path] = call.index + 1
        for path, count in counts.items():
            if path and count > 1 and path not in found and self._is_disordered(path, range(count)):
                found[path] = ["its calls come in another order here"]
        return {path: "; ".join(dict.fromkeys(how)) for path, how in found.items()}

    def _is_disordered(self, path: str, calls: range) -> bool:
        """Whether a call has the inputs of another one."""
        slots = [self.truth.slots.get((path, index, INPUT), []) for index in calls]
        if not slots[0] or any(others != slots[0] for others in slots):
            return False

        def is_call(here: int, there: int) -> bool:
            pairs = [(Key(path, there, INPUT, slot), Key(path, here, INPUT, slot)) for slot in slots[0]]
            return all(
                mine in self.records.values and alike(self.truth.values[theirs], self.records.values[mine])
                for theirs, mine in pairs
            )

        return any(not is_call(i, i) and any(is_call(i, j) for j in calls) for i in calls)

    def layouts(self) -> Iterator[tuple[Key, Layout]]:
        """Tensors of inner Cells that have the same elements in other places."""
        for key, value in self.truth.values.items():
            other = self.records.values.get(key)
            if key.path and key.kind in (INPUT, OUTPUT) and other is not None:
                layout = layout_of(other, value)
                if layout is not None:
                    yield key, layout

    def outermost(self, new: Mapping[Key, Layout]) -> Iterator[tuple[Key, Layout]]:
        """Those of Cells that no other such Cell calls: inside, all may look otherwise once these are settled."""
        above = {(call.path, call.index): call.parent for call in self.calls}
        concerned = {(key.path, key.call) for key in new}
        for key, layout in new.items():
            parent = above[key.path, key.call]
            while parent is not None and (self.calls[parent].path, self.calls[parent].index) not in concerned:
                parent = self.calls[parent].parent
            if parent is None:
                yield key, layout

    def divided_otherwise(self) -> dict[str, list[str]]:
        """Wrong Cells by path of their caller, where that is wrong, too."""
        wrong = [p for p in dict.fromkeys(call.path for call in self.calls) if p and not self.outputs_are_right(p)]
        found: dict[str, list[str]] = {}
        for path in wrong:
            caller, *others = self.callers(path)
            if not others and path not in self.records.raised and self.wrong_at(caller):
                found.setdefault(caller, []).append(path)
        return {caller: paths for caller, paths in found.items() if not any(path in found for path in paths)}

    def callers(self, path: str) -> set[str]:
        """Paths of the Cells that call one."""
        parents = [call.parent for call in self.calls if call.path == path]
        return {self.calls[parent].path for parent in parents if parent is not None}

    def wrong_at(self, path: str) -> set[Key]:
        """What a Cell returns, and what it hands on to the Cells that it calls, that isn't right."""
        numbers = {number for number, call in enumerate(self.calls) if call.path == path}
        called = {(call.path, call.index) for call in self.calls if call.parent in numbers}
        return {
            key
            for key in self.truth.values
            if (key.kind == OUTPUT and key.path == path) or (key.kind == INPUT and (key.path, key.call) in called)
            if not self._is_right(key)
        }

    def outputs_are_right(self, path: str) -> bool:
        """Whether a Cell returns what it should, in whatever layout."""
        outputs = [key for key in self.truth.values if key.kind == OUTPUT and key.path == path]
        return path not in self.records.raised and all(map(self._is_right, outputs))

    def _is_right(self, key: Key) -> bool:
        value, other = self.truth.values[key], self.records.values.get(key)
        return other is not None and (alike(value, other) or layout_of(other, value) is not None)
