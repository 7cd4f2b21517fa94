"""Where a recording has the parameters of the reference, and which parameters of both are the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...sides.records import Array
from .equal_parts import closeness, is_close, is_telling, view_of
from .views import View

FEWEST_ROWS = 4
VALUES, PARAMETERS, INPUTS = "values", "parameters", "inputs"


@dataclass(frozen=True)
class Pair:
    """A Cell or parameter of the recording that is one of the reference's.

    Attributes:
        name: its name.
        view: the part of its outputs, or of the parameter.
        evidence: by what: its values, its parameters alone, or what it takes alone.
    """

    name: str
    view: View
    evidence: str


def matching_parameters(
    reference: Mapping[str, Array], candidate: Mapping[str, Array], expected: Mapping[str, str] | None = None
) -> dict[str, Pair]:
    """Return where a recording has the values of parameters.

    Args:
        reference: the reference's parameters.
        candidate: the recording's.
        expected: what the reference's are likely to be called there.
    """
    taken: set[tuple[str, str]] = set()
    pairs: dict[str, Pair] = {}
    wide = {name: (array.astype(np.float64), array) for name, array in candidate.items() if is_telling(array)}
    for name, array in reference.items():
        if not is_telling(array):
            continue
        own = array.astype(np.float64)
        known = ((other, *both) for other, both in wide.items() if both[0].size >= own.size)
        views = ((other, view_of(own, value, closeness(array, other_array))) for other, value, other_array in known)
        free = [(other, view) for other, view in views if view is not None and (other, str(view)) not in taken]
        if free:
            like = (expected or {}).get(name, name)
            other, view = max(free, key=lambda option: (option[1].is_whole, option[0] == like, alike(like, option[0])))
            taken.add((other, str(view)))
            pairs[name] = Pair(other, view, VALUES)
    return pairs


def is_in_another_order(own: Array, other: Array) -> bool:
    """Whether two parameters have the same rows in another order, as for a rotary embedding of another kind."""
    if own.shape != other.shape or own.ndim < 1 or len(own) < FEWEST_ROWS:
        return False
    rows = [array.astype(np.float64).reshape(len(array), -1) for array in (own, other)]
    ordered = [array[np.argsort(array.sum(1), kind="stable")] for array in rows]
    relative = closeness(own, other)
    return not is_close(rows[0], rows[1], relative) and is_close(ordered[0], ordered[1], relative)


def alike(name: str, other: str) -> float:
    """How many parts of two names are the same, numbers first."""
    parts, other_parts = (set(re.findall(r"[0-9]+|[a-z]+", text.lower())) for text in (name, other))
    return sum(2.0 if part.isdecimal() else 1.0 for part in parts & other_parts) - 0.1 * len(parts ^ other_parts)


def groups(
    reference: Mapping[str, Array], candidate: Mapping[str, Array], pairs: Mapping[str, Pair]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return a number for each parameter of either side: the same for those of which one is a part of the other.

    Args:
        reference: the reference's parameters.
        candidate: the recording's.
        pairs: where the recording has the reference's.
    """
    known = {pair.name for pair in pairs.values()}
    rest = {name: array for name, array in candidate.items() if name not in known}
    fused = {name: array for name, array in reference.items() if name not in pairs}
    links = [(name, pair.name) for name, pair in pairs.items()]
    links += [(pair.name, name) for name, pair in matching_parameters(rest, fused).items()]
    components: list[set[tuple[bool, str]]] = []
    for own, other in links:
        ends = {(True, own), (False, other)}
        joined = [group for group in components if group & ends]
        components = [group for group in components if not group & ends] + [ends.union(*joined)]
    numbers = {end: number for number, group in enumerate(components) for end in group}
    return (
        {name: number for (is_own, name), number in numbers.items() if is_own},
        {name: number for (is_own, name), number in numbers.items() if not is_own},
    )
