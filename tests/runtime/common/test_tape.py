"""The tape by itself: the order of the backward pass, hooks on values, and which tape records."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from cellbridge.runtime.common.tape import Entry, Pull, Tape, current, record_on


def times(factor: float) -> Pull:
    return lambda output_cotangents: [None if g is None else g * factor for g in output_cotangents]


def test_cotangents_are_added_where_a_value_is_used_twice() -> None:
    tape = Tape()
    x, a, b = tape.number(), tape.number(), tape.number()
    tape.append(Entry((x,), (a,), times(2)))
    tape.append(Entry((x,), (b,), times(3)))
    assert tape.backward(0, {a: 10, b: 100}) == {x: 320}


def test_what_no_cotangent_reaches_is_passed_over() -> None:
    tape = Tape()
    x, y, z = (tape.number() for _ in range(3))

    def fail(output_cotangents: list[Any]) -> Sequence[Any]:
        raise AssertionError("nothing arrived here")

    tape.append(Entry((x,), (y,), fail))
    tape.append(Entry((x,), (z,), times(2)))
    assert tape.backward(0, {z: 1}) == {x: 2}


def test_an_entry_that_must_run_is_told_that_nothing_arrived() -> None:
    tape = Tape()
    x, y = tape.number(), tape.number()
    cotangents: list[Any] = []

    def note(output_cotangents: list[Any]) -> Sequence[Any]:
        cotangents.append(output_cotangents)
        return (None,)

    tape.append(Entry((x,), (y,), note, always=True))
    assert tape.backward(0, {}) == {}
    assert cotangents == [[None]]


def test_untracked_operands_and_outputs() -> None:
    tape = Tape()
    x, y = tape.number(), tape.number()
    tape.append(
        Entry((x, None), (None, y), lambda output_cotangents: [output_cotangents[1] * 2, output_cotangents[1] * 3])
    )
    assert tape.backward(0, {y: 1}) == {x: 2}


def test_only_entries_from_the_start_on_are_walked() -> None:
    tape = Tape()
    x, y, z = (tape.number() for _ in range(3))
    tape.append(Entry((x,), (y,), times(2)))
    tape.append(Entry((y,), (z,), times(3)))
    assert tape.backward(1, {z: 1}) == {y: 3}
    assert tape.backward(0, {z: 1}) == {x: 6}


def test_a_hook_sees_the_complete_cotangent() -> None:
    tape = Tape()
    x, y, a, b = (tape.number() for _ in range(4))
    tape.append(Entry((x,), (y,), times(1)))
    tape.append(Entry((y,), (a,), times(2)))
    tape.append(Entry((y,), (b,), times(3)))
    cotangents: list[int] = []

    def tenfold(g: int) -> int:
        cotangents.append(g)
        return g * 10

    tape.hooks[y] = tenfold
    assert tape.backward(0, {a: 1, b: 1}) == {x: 50}
    assert cotangents == [5]


def test_clearing_lets_go() -> None:
    tape = Tape()
    x = tape.number()
    tape.append(Entry((x,), (tape.number(),), times(1)))
    tape.hooks[x] = abs
    tape.clear()
    assert (tape.entries, tape.hooks) == ([], {})
    assert tape.number() == 3  # numbers are never given twice


def test_the_recording_tape_is_restored_whatever_happens() -> None:
    outer, inner = Tape(), Tape()
    assert current() is None
    with record_on(outer):
        with record_on(inner):
            assert current() is inner
        with pytest.raises(KeyError), record_on(inner):
            raise KeyError
        with record_on(None):
            assert current() is None
        assert current() is outer
    assert current() is None


def test_each_thread_has_its_own() -> None:
    tapes: list[Any] = []
    with record_on(Tape()):
        thread = threading.Thread(target=lambda: tapes.append(current()))
        thread.start()
        thread.join()
    assert tapes == [None]
