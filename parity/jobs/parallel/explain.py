"""Explanations of wrong gradients of a parallel network: what the processes made of each other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...sides.records import Array

CLOSE = 1e-6
"""The largest error, relative to the largest element, of a relation between gradients in float64."""


def explain_gradients(
    expected: Mapping[str, Array], actual: Mapping[str, Sequence[Array]], ranks: int
) -> tuple[str, ...]:
    """Return what holds for all gradients that differ, in words; nothing if nothing simple does.

    Args:
        expected: gradients on one process, in float64, by name of the parameter; those that differ alone.
        given: the gradients of each process, in float64.
        ranks: the number of processes.
    """
    names = [name for name in expected if name in actual]
    if not names:
        return ()

    def holds(combine: str, factor: float) -> bool:
        for name in names:
            total = np.mean([np.asarray(gradient, np.float64) for gradient in actual[name]], 0)
            value = total if combine == "mean" else np.asarray(actual[name][0], np.float64)
            scale = float(np.abs(expected[name]).max(initial=0.0)) * abs(factor)
            if float(np.abs(value - factor * expected[name]).max(initial=0.0)) > CLOSE * scale:
                return False
        return True

    alike = all(np.array_equal(actual[name][0], gradient) for name in names for gradient in actual[name][1:])
    if not alike:
        if holds("mean", 1.0):
            return ("the processes have different gradients, whose mean is right: they aren't reduced",)
        if holds("mean", 1.0 / ranks):
            return ("the processes have different gradients, whose sum is right: they aren't reduced",)
        return ("the processes have different gradients: they aren't reduced",)
    words = {
        float(
            ranks
        ): f"the gradients are {ranks} times what they must be: they are summed over {ranks} processes where "
        "their mean is needed, or reduced and scaled once too often",
        1.0 / ranks: f"the gradients are 1/{ranks} of what they must be: they are divided by the number of processes "
        "once too often",
    }
    return tuple(text for factor, text in words.items() if holds("first", factor))
