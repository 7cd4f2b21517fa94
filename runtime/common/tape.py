"""The tape of eager differentiation: the ops on tracked values, in order.

A value is tracked if it has a number on the current tape: the leaves for which gradients are requested, and the outputs
of an op with a tracked operand. If no gradients are requested, nothing is tracked, so plain calls cost nothing. The
backward pass walks the tape from its end.

A gradient inside a differentiated function (a second derivative) uses the same tape: its backward pass is recorded too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..current_trace import current as current_trace

Array = np.ndarray[Any, Any]
Pull = Callable[[list[Any]], Sequence[Any]]


class Entry:
    """One recorded step.

    Attributes:
        operands: numbers of the operands; None for an operand that isn't tracked.
        outputs: numbers of the outputs; None for an output that no gradient can reach.
        pull: maps the cotangents of the outputs (None if there is none) to those of the operands.
        always: whether `pull` runs even if there is no cotangent (hooks that must fire).
        place: while tracing, the place in the program where the step was recorded; `pull` records at the same place.
    """

    __slots__ = ("always", "operands", "outputs", "place", "pull")

    def __init__(
        self, operands: tuple[int | None, ...], outputs: tuple[int | None, ...], pull: Pull, always: bool = False
    ) -> None:
        self.operands = operands
        self.outputs = outputs
        self.pull = pull
        self.always = always
        trace = current_trace()
        self.place = None if trace is None else trace.place()


class Tape:
    """A list of entries, and numbers for values in ascending order.

    Attributes:
        entries: the steps in order.
        hooks: by the number of a value, the function to apply to its complete cotangent.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self._count = 0

    def number(self) -> int:
        """Return a number for a newly tracked value."""
        self._count += 1
        return self._count

    def append(self, entry: Entry) -> None:
        """Record a step."""
        self.entries.append(entry)

    def clear(self) -> None:
        """Forget all steps and release the values that they refer to."""
        self.entries.clear()
        self.hooks.clear()

    def backward(self, start: int, cotangents: dict[int, Any]) -> dict[int, Any]:
        """Walk the entries from the last to number `start`, passing cotangents from outputs to operands.

        Args:
            start: index of the first entry that belongs to the differentiated function.
            cotangents: cotangents of the outputs, by their numbers; changed in place.

        Returns:
            `cotangents`, reduced to those of the leaves, the values that no entry since `start` computed.
        """
        trace = current_trace()
        for entry in reversed(self.entries[start:]):
            output_cotangents = [None if n is None else cotangents.pop(n, None) for n in entry.outputs]
            if self.hooks:
                output_cotangents = [self.hooks[n](g) if g is not None and n in self.hooks else g
                           for n, g in zip(entry.outputs, output_cotangents, strict=True)]  # fmt: skip
            if not entry.always and all(g is None for g in output_cotangents):
                continue
            if trace is None or entry.place is None:
                _pull(entry, output_cotangents, cotangents)
            else:
                with trace.at(entry.place):
                    _pull(entry, output_cotangents, cotangents)
        return cotangents


def _pull(entry: Entry, output_cotangents: list[Any], cotangents: dict[int, Any]) -> None:
    for number, g in zip(entry.operands, entry.pull(output_cotangents), strict=True):
        if number is not None and g is not None:
            cotangents[number] = cotangents[number] + g if number in cotangents else g


class _Current(threading.local):
    """The current tape, per thread; None outside of differentiation."""

    tape: Tape | None = None


_current = _Current()


def current() -> Tape | None:
    """Return the current tape; None outside of differentiation."""
    return _current.tape


@contextlib.contextmanager
def record_on(tape: Tape | None) -> Iterator[None]:
    """Within the context, record on `tape`; if it is None, record nothing."""
    before = _current.tape
    _current.tape = tape
    try:
        yield
    finally:
        _current.tape = before
