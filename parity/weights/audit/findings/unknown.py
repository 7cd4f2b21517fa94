"""Tensors that come from nowhere: at their initial values, zero, or with other numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...assembly import Assembly
from ..derivation import Derivation
from ..moments import Sketch
from ..names import kind_of
from .differences import differences
from .finding import LOOK, NOTE, WRONG, Finding, counted, listed

CHANCE = 5.0
"""How many standard deviations a moment of random numbers may be off."""
_NORMAL = ((0.02, "a normal initializer of 0.02"), (1.0, "torch's initial values of an Embedding"))
FEWEST = 64
"""The fewest elements from which a distribution is told."""


def unknown(derivation: Derivation) -> Iterator[Finding]:
    """Yield the tensors of the second checkpoint that nothing of the first explains."""
    explained = {kind_of(name) for name in derivation.origins}
    for name in derivation.unknown:
        of_tensor = derivation.after[name]
        expected = derivation.expected(name)
        rank = WRONG if expected is not None or kind_of(name) in explained else LOOK
        if of_tensor.is_constant:
            value = of_tensor.smallest
            is_counter = of_tensor.tensor.size == 1
            yield Finding(
                NOTE if is_counter else rank,
                "zero" if value == 0 else "constant",
                (name,),
                f"all of {listed([name])} is {value + 0.0:g} ({counted(of_tensor.tensor.size, 'element')})",
                "the first checkpoint has no such tensor" + _as_expected(expected),
                "if the network trains it, its values were never loaded: add it to the conversion",
            )
        elif near := differences(derivation, name):
            rank = NOTE if near.kind == "quantized" else WRONG
            yield Finding(rank, near.kind, (name,), f"{listed([name])} {near.text}", near.evidence, near.advice)
        else:
            looks, numbers = _distribution(of_tensor)
            yield Finding(
                WRONG if looks else rank,
                "random" if looks else "unknown",
                (name,),
                f"{listed([name])} comes from nowhere{': it looks like ' + looks if looks else ''}",
                numbers + _as_expected(expected),
                "its values were never loaded, or were changed after: look for its name in the conversion",
            )


def _as_expected(expected: Assembly | None) -> str:
    return "" if expected is None else f"; in the other layers it comes of what is {listed(expected.names)} here"


def _distribution(of_tensor: Sketch) -> tuple[str, str]:
    """Return the initializer that a tensor looks like, or an empty text, and its moments in words."""
    size = of_tensor.tensor.size
    mean, square, _, fourth = of_tensor.whole.sums[0] / size
    spread = math.sqrt(max(square - mean**2, 0.0))
    text = f"mean {mean:.2g}, standard deviation {spread:.3g}"
    if size < FEWEST or not spread or abs(mean) > CHANCE * spread / math.sqrt(size):
        return "", text
    ratio = fourth / square**2
    fan_in = size // max(1, of_tensor.tensor.shape[0])
    if abs(ratio - 1.8) <= CHANCE * math.sqrt(0.914 / size):  # of kurtosis, for a uniform distribution
        bound = max(abs(of_tensor.smallest), abs(of_tensor.largest))
        near = np.isclose(bound, 1 / math.sqrt(fan_in), rtol=0.05)
        what = "torch's initial values of a Linear or a convolution" if near else "a uniform initializer"
        return what, f"{text}, uniform between -{bound:.3g} and {bound:.3g}"
    if abs(ratio - 3.0) <= CHANCE * math.sqrt(24 / size):
        for deviation, words in (
            (0.02, "a normal initializer of 0.02"),
            (1.0, "torch's initial values of an Embedding"),
        ):
            if abs(spread / deviation - 1) <= CHANCE / math.sqrt(2 * size):
                return words, text
    return "", text
