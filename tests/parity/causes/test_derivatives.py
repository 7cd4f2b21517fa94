"""Gradients against the derivative, where a side has the sum of those of a tensor that a Cell is given twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellbridge.parity.causes.derivatives import derivative_errors
from cellbridge.parity.sides.records import INPUT, OUTPUT, Key, Records, gradient_key
from cellbridge.parity.sides.run import FORWARD, Run

FIRST, SECOND, RESULT = Key("cell", 0, INPUT, "query"), Key("cell", 0, INPUT, "key"), Key("cell", 0, OUTPUT, "result")


class Twice:
    """A Cell that returns three times its first input, and five times its second."""

    def parameters(self) -> dict[str, Any]:
        return {}

    def run(self, run: Run) -> Records:
        records, feed = Records(), run.feed
        assert feed is not None
        for key in (FIRST, SECOND):
            records.add(key, feed.values[key])
        records.add(RESULT, 3 * feed.values[FIRST] + 5 * feed.values[SECOND])
        return records


def test_a_tensor_that_is_given_twice_moves_in_one_direction() -> None:
    feed, gradients = Records(), Records()
    x = np.random.default_rng(0).standard_normal(4)
    for key in (FIRST, SECOND, RESULT):
        feed.add(key, x)
    feed.add(gradient_key(RESULT), np.ones(4))
    gradients.add(gradient_key(FIRST), np.full(4, 8.0))
    side: Any = Twice()
    errors = derivative_errors(side, Run("float64", FORWARD, feed=feed), gradients, {}, 0)
    assert errors["cell"].is_right
