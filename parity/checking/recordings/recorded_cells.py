"""`Cells`: what the Cells of a recording take, return and hold, to be paired with those of another."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ....recorder import checksum
from ...sides.records import INPUT, OUTPUT, Array, Key
from .equal_parts import is_telling
from .recording import RecordedRun


class Cells:
    """The Cells of a recording, in their first calls.

    Args:
        run: what was recorded.
        aliases: first names of shared parameters, by their other ones.

    Attributes:
        paths: the Cells that compute something, those around others before these; without the network itself.
        tensors: the tensors at the boundaries, by path and kind.
    """

    def __init__(self, run: RecordedRun, aliases: Mapping[str, str]) -> None:
        self.run, self.aliases = run, aliases
        self._numbers: dict[int, str] = {}
        self.tensors: dict[tuple[str, str], list[Array]] = {}
        for key, array in run.records.values.items():
            if key.call == 0 and key.kind in (INPUT, OUTPUT) and is_telling(array):
                self.tensors.setdefault((key.path, key.kind), []).append(array)
        self.paths = [path for path in dict.fromkeys(call.path for call in run.records.calls) if path]
        self.held = {path: self._held(path) for path in self.paths}
        self.paths = [path for path in self.paths if not self._only_passes_on(path)]

    def of(self, path: str, kind: str) -> list[Array]:
        """Return the tensors that cross a boundary, and that can be recognized."""
        return self.tensors.get((path, kind), [])

    def inputs(self, path: str) -> dict[str, Array]:
        """Return the inputs of a Cell by name."""
        values, slots = self.run.records.values, self.run.records.slots.get((path, 0, INPUT), [])
        return {slot: values[key] for slot in slots if (key := Key(path, 0, INPUT, slot)) in values}

    def shape(self, path: str) -> tuple[int, ...]:
        """Return the shape of the first tensor that a Cell returns."""
        return next((array.shape for array in self.of(path, OUTPUT)), ())

    def numbers_of(self, array: Array) -> str:
        """Return a text that is the same for the same numbers, in any shape."""
        if id(array) not in self._numbers:
            self._numbers[id(array)] = checksum(np.ascontiguousarray(array))
        return self._numbers[id(array)]

    def _held(self, path: str) -> set[str]:
        """Return the parameters that a Cell holds, shared ones by their first name."""
        names = (*self.run.parameters, *self.aliases)
        return {self.aliases.get(name, name) for name in names if name.startswith(f"{path}.")}

    def _only_passes_on(self, path: str) -> bool:
        """Whether a Cell without parameters returns what it takes."""
        given, returned = self.of(path, INPUT), self.of(path, OUTPUT)
        passed = {self.numbers_of(each) for each in given}
        return not self.held[path] and bool(returned) and all(self.numbers_of(out) in passed for out in returned)

    @cached_property
    def depths(self) -> dict[str, int]:
        """How many Cells around a Cell return the same value as it does."""
        known = set(self.paths)
        result: dict[str, int] = {}
        for path in self.paths:
            around = path.rpartition(".")[0]
            while around and around not in known:
                around = around.rpartition(".")[0]
            own, outer = self.of(path, OUTPUT)[:1], self.of(around, OUTPUT)[:1] if around else []
            same = bool(own and outer) and self.numbers_of(own[0]) == self.numbers_of(outer[0])
            result[path] = result[around] + 1 if same else 0
        return result
