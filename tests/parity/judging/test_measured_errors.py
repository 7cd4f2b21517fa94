"""`remeasure`: before an error is called too large, the reference's own is measured again."""

from __future__ import annotations

from collections.abc import Callable

from cellbridge.parity.judging.measured_errors import remeasure


def over(bar: list[float]) -> Callable[[], bool]:
    return lambda: bar[0] < 5.0


def raising(bar: list[float], to: list[float]) -> Callable[[], bool]:
    def measure() -> bool:
        if not to:
            return False
        bar[0] = to.pop(0)
        return True

    return measure


def test_it_measures_until_nothing_fails() -> None:
    bar, steps = [1.0], [2.0, 6.0, 7.0]
    assert not remeasure(True, over(bar), (bool, raising(bar, steps)))
    assert steps == [7.0]  # left, as nothing failed any more


def test_it_gives_up_where_there_is_nothing_more_to_measure() -> None:
    bar = [1.0]
    assert remeasure(True, over(bar), (bool, raising(bar, [2.0])), (bool, raising(bar, [3.0, 4.0])))
    assert bar == [4.0]


def test_it_goes_on_with_the_next_measure() -> None:
    bar = [1.0]
    assert not remeasure(True, over(bar), (bool, raising(bar, [2.0])), (bool, raising(bar, [8.0])))


def test_what_passes_is_not_measured() -> None:
    bar = [1.0]
    assert not remeasure(False, over(bar), (bool, raising(bar, [8.0])))
    assert bar == [1.0]


def test_a_measure_that_is_not_wanted_is_not_made() -> None:
    bar = [1.0]
    assert remeasure(True, over(bar), (lambda result: False, raising(bar, [8.0])))
    assert bar == [1.0]
