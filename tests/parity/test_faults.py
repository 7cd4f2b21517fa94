"""The planted faults: each is found at its Cell and at no other, and equal pairs pass."""

from __future__ import annotations

from typing import Any

import pytest

from cellbridge import parity
from fixtures.faults import custom_backward_wrong
from fixtures.faults.pairs import EQUAL_PAIRS, PAIRS, SHAPE_PAIRS, Pair, random_pair


def _judge(pair: Pair) -> None:
    reference, candidate, args = pair.build()
    report = parity.compare(reference, candidate, args, train=pair.train)
    assert set(report.failing) == pair.failing
    assert report.ok is (not pair.failing)


SLOW_PAIRS = [pytest.param(pair, marks=pytest.mark.slow) for pair in PAIRS[1::2]]


@pytest.mark.parametrize("pair", [*PAIRS[::2], *SLOW_PAIRS, *SHAPE_PAIRS, *EQUAL_PAIRS], ids=lambda pair: pair.name)
@pytest.mark.every(30)
def test_pair(pair: Pair) -> None:
    _judge(pair)


@pytest.mark.causes
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_random_pair(seed: int) -> None:
    _judge(random_pair(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 110))
def test_more_random_pairs(seed: int) -> None:
    _judge(random_pair(seed))


@pytest.mark.parametrize(("factory", "failing"), [("model", ["blocks.1.activation"]), ("corrected", [])])
@pytest.mark.every(2)
def test_hand_written_backward_is_held_against_the_derivative(factory: str, failing: list[str]) -> None:
    module: Any = getattr(custom_backward_wrong, factory)()
    report = parity.check(module, custom_backward_wrong.inputs())
    assert report.failing == failing
    assert report.ok is (not failing)
    assert not [c for path in failing for c in report.cells[path].failures if c.kind == "output"]
