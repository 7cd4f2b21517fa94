"""`Finding`: a change of rules that explains updates, and the values that are tried to find one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .respects import Respect
from .rules import Rule

SAME = 1e-8
"""The relative difference up to which two numbers are the same."""


@dataclass(frozen=True)
class Finding:
    """A change of rules that explains the updates of some parameters.

    Attributes:
        names: the parameters.
        changes: respects with the values that they have in the candidate.
        rates: the candidate's learning rate in each step, if they aren't those of the reference.
        holds_for_all: whether the change explains all other parameters too.
        plan: the candidate's rules of these parameters; none if it doesn't update them.
        error: the largest error of the replay, relative to the largest change of a parameter.
    """

    names: tuple[str, ...]
    changes: tuple[tuple[Respect, Any], ...]
    plan: Mapping[str, Sequence[Rule]]
    error: float
    rates: tuple[float, ...] = ()
    holds_for_all: bool = False


@dataclass(frozen=True)
class Start:
    """Where the estimate of a number starts."""

    at: float


def is_same(respect: Respect, value: Any, rule: Rule) -> bool:
    """Whether a number is that of the reference but for rounding."""
    before = 1.0 if respect.field == "lr" else getattr(rule, respect.field)
    return isinstance(value, float) and abs(value - before) <= SAME * abs(before)


def options(respect: Respect, rule: Rule) -> list[Any]:
    """Return what is tried in a respect: starts of estimates, and values."""
    return [*map(Start, respect.starts(rule)), *respect.values(rule)]


def changed_rules(
    rules: Sequence[Rule], changes: Sequence[tuple[Respect, Any]], rates: tuple[float, ...] = ()
) -> list[Rule]:
    """Return the rules of all steps, changed; `rates` replaces the learning rate of each step."""
    result = []
    for step, rule in enumerate(rules):
        for respect, value in changes:
            rule = respect.change(rule, value)
        if rates:
            rule = Respect("lr").change(rule, rates[step] / rule.lr if rule.lr else 0.0)
        result.append(rule)
    return result
