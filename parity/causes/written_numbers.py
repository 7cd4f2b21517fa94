"""The numbers that stand in a program, by which one that was estimated from results is told from one that is there.

A mean for a sum is a factor, and so is any scale behind it: each of them explains the results, one of them is written.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

from ...runtime.ir.program import Program
from ..results.cause import Cause

ATTENTION = "scaled_dot_product_attention"
"""The operator whose scale is one over the root of the size, if none is given."""
ROUNDED = 1e-6
"""How far an estimate, or a number in half of the digits, is from what is written, relative to it."""


def numbers_of(program: Program) -> frozenset[float]:
    """Return the numbers of a program: its constants of one element, those in attributes, and scales of attentions."""
    found = {float(c.data.reshape(())) for c in program.constants if c.data.size == 1 and c.data.dtype.kind in "iuf"}
    for node in program.nodes:
        found.update(_numbers_in(list(node.attributes.values())))
        if node.op == ATTENTION and node.attributes["scale"] is None and node.inputs[0] is not None:
            found.update(size**-0.5 for size in node.inputs[0].shape[-1:] if isinstance(size, int))
    return frozenset(number for number in found if math.isfinite(number))


def names_of_numbers(program: Program) -> dict[float, str]:
    """Return the numbers of a program with the attribute in which each stands; empty for none, and for several."""
    names: dict[float, set[str]] = {number: set() for number in numbers_of(program)}
    for node in program.nodes:
        for name, value in node.attributes.items():
            if isinstance(value, float) and value in names:
                names[value].add(name)
    return {number: min(own) if len(own) == 1 else "" for number, own in names.items()}


def _numbers_in(item: Any) -> Iterator[float]:
    if isinstance(item, float):
        yield item
    elif isinstance(item, (tuple, list)):
        for part in item:
            yield from _numbers_in(part)


def forms_of(number: float) -> list[float]:
    """Return a number, its negative, square and root, and the inverses of these: as it may be written elsewhere."""
    forms = [number, -number, number * number, math.sqrt(abs(number))]
    return forms + [1 / form for form in forms if form]


def is_written(number: float, numbers: Collection[float]) -> bool:
    """Whether a number, its negative, inverse, square or root, or what it lacks to 1, is among some others.

    0 and 1 are written by leaving out what is added, multiplied or raised.
    """
    if number in (0.0, 1.0):
        return True
    if any(math.isclose(form, other, rel_tol=ROUNDED, abs_tol=0.0) for form in forms_of(number) for other in numbers):
        return True
    # 1 less a tiny number is 1, so what it lacks is compared by the number's own size
    lacked = [1 - form for other in numbers for form in ((other, 1 / other) if other else (other,))]
    return any(math.isclose(number, other, rel_tol=ROUNDED, abs_tol=0.0) for other in lacked)


def estimated(cause: Cause) -> float | None:
    """Return the number that a cause says stands in the candidate; None if it names none."""
    value = cause.candidate_value
    return value if cause.kind == "attribute" and isinstance(value, float) and math.isfinite(value) else None
