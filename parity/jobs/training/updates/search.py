"""Finds the smallest change of the reference's rules that explains a candidate's updates, proved by replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np

from ....causes.budget import NODE, Budget, BudgetSpentError
from ....sides.records import Array
from ....verdicts.deviations import size
from .findings import Finding, Start, changed_rules, is_same, options
from .numbers import least_squares, plain_numbers
from .respects import RESPECTS, Respect
from .trajectory import Trajectory

MAX_ELEMENTS = 4096
"""The most elements of a parameter that a number is estimated from; the replay compares all of them."""
LEAST_EQUATIONS = 4
"""The least number of elements, over all steps, for each number that is estimated."""


class Search:
    """Looks for changes of rules that explain a trajectory, within a budget of work."""

    def __init__(self, trajectory: Trajectory, budget: Budget) -> None:
        self.trajectory = trajectory
        self.sample = trajectory.sample(MAX_ELEMENTS)
        self.budget = budget

    def findings(self) -> list[Finding]:
        """Return changes that explain all parameters whose updates differ.

        Returns:
            The changes; none if they can't all be explained, or not within the budget.
        """
        try:
            return [replace(finding, holds_for_all=self._holds_for_all(finding)) for finding in self._by_group()]
        except BudgetSpentError:
            return []

    def _spend(self, names: Sequence[str]) -> None:
        """Take a replay of the sample of these parameters from the budget."""
        self.budget.spend(self.trajectory.steps * (self._elements(names) + NODE * len(names)))

    def _holds_for_all(self, finding: Finding) -> bool:
        if not finding.changes and not finding.rates:
            return False
        names = [name for name, rules in self.trajectory.plan.items() if self.trajectory.can_replay(name, rules)]
        return self._proved(names, finding.changes, finding.rates) is not None

    def _by_group(self) -> list[Finding]:
        """Return a change for each group of parameters: the fewest respects first, then the fewest groups."""
        differing = self.trajectory.differing()
        frozen = list(self._frozen(differing))
        rest = [name for name in differing if all(name not in finding.names for finding in frozen)]
        plan = self.trajectory.plan
        if any(name not in plan or not self.trajectory.can_replay(name, plan[name]) for name in rest):
            return []
        if not rest:
            return frozen
        for explain, in_groups in (
            (self._by_one, False), (self._by_one, True), (self._by_numbers, False), (self._by_two, False),
            (self._by_more, False), (self._by_more, True),
        ):  # fmt: skip
            together = None if in_groups else explain(rest)
            if findings := self._groups(rest, explain) if in_groups else [together] if together else []:
                return [*frozen, *findings]
        return []

    def _groups(self, names: Sequence[str], explain: Callable[[Sequence[str]], Finding | None]) -> list[Finding]:
        """Return a change for each group of parameters with the same change; none if not all are explained."""
        findings: list[Finding] = []
        for name in names:
            if any(name in finding.names for finding in findings):
                continue
            alone = explain([name])
            if alone is None:
                return []
            group = [other for other in names if other == name or self._holds(other, alone)]
            findings.append(self._finding(group, alone.changes, alone.rates))
        return findings

    def _frozen(self, names: Iterable[str]) -> Iterator[Finding]:
        """Yield a finding on parameters that only one side updates."""
        trajectory = self.trajectory
        still = [name for name in names if not any(map(size, trajectory.changes(name)))]
        if still:
            yield Finding(tuple(still), (), dict.fromkeys(still, ()), 0.0)
        moved: dict[str, list[str]] = {}
        plans = {str(rules): rules for rules in trajectory.plan.values() if rules}
        for name in names:
            if name not in still and not trajectory.plan.get(name):
                for key, rules in plans.items():
                    if np.isfinite(trajectory.error(name, rules)):
                        moved.setdefault(key, []).append(name)
                        break
        for key, together in moved.items():
            plan = dict.fromkeys(together, plans[key])
            yield Finding(tuple(together), (), plan, max(trajectory.error(name, plans[key]) for name in together))

    def _by_one(self, names: Sequence[str]) -> Finding | None:
        """Return the first change in one respect, or in the learning rates, that explains these parameters."""
        for respect in RESPECTS:
            if finding := self._try(names, [respect]):
                return finding
        return self._other_rates(names)

    def _by_two(self, names: Sequence[str]) -> Finding | None:
        """Return the first change in two respects that explains these parameters."""
        for first, second in combinations(RESPECTS, 2):
            if first.field != second.field and (finding := self._try(names, [first, second])):
                return finding
        return None

    def _by_numbers(self, names: Sequence[str]) -> Finding | None:
        """Return a change in several numbers that explains these parameters."""
        return self._by_more(names, (0,))

    def _by_more(self, names: Sequence[str], counts: Sequence[int] = (1, 2)) -> Finding | None:
        """Return a change in all numbers together, and in some other respects, without what has no effect."""
        rule = self.trajectory.plan[names[0]][0]
        # an eps far below the gradients has hardly any effect, so that the estimate of all numbers would run away
        numbers = {respect.field: respect for respect in RESPECTS if respect.starts(rule) and respect.field != "eps"}
        starts = {field: Start(1.0 if field == "lr" else getattr(rule, field)) for field in numbers}
        others = [respect for respect in RESPECTS if respect.values(rule) and respect.field not in (*numbers, "kind")]
        others += [respect for respect in RESPECTS if respect.field == "eps"]
        for count in counts:
            for chosen in combinations(others, count):
                for values in product(*(options(respect, rule) for respect in chosen)):
                    respects, candidates = [*chosen, *numbers.values()], [*values, *starts.values()]
                    estimate, _ = self._estimate(names, respects, candidates)
                    if finding := self._rounded(names, respects, estimate, candidates):
                        return finding
        return None

    def _try(self, names: Sequence[str], respects: Sequence[Respect]) -> Finding | None:
        """Return a change in these respects that explains the parameters."""
        rule = self.trajectory.plan[names[0]][0]
        best: tuple[float, list[Any], Sequence[Any]] | None = None
        for values in product(*(options(respect, rule) for respect in respects)):
            if not any(isinstance(value, Start) for value in values):
                if finding := self._proved(names, list(zip(respects, values, strict=True))):
                    return finding
                continue
            estimate, remainder = self._estimate(names, respects, values)
            if best is None or remainder < best[0]:
                best = remainder, estimate, values
        if best is None:
            return None
        finding = self._rounded(names, respects, best[1], best[2])
        return finding if finding is not None and len(finding.changes) == len(respects) else None

    def _estimate(
        self, names: Sequence[str], respects: Sequence[Respect], values: Sequence[Any]
    ) -> tuple[list[Any], float]:
        """Return the values with the free ones estimated, and what remains unexplained."""
        free = [index for index, value in enumerate(values) if isinstance(value, Start)]
        if self._elements(names) * self.trajectory.steps < LEAST_EQUATIONS * len(free):
            return list(values), np.inf

        def complete(numbers: Array) -> list[Any]:
            result = list(values)
            for index, number in zip(free, numbers, strict=True):
                result[index] = float(np.exp(min(number, 0.0))) if respects[index].field == "eps" else float(number)
            return result

        def residuals(numbers: Array) -> Array:
            full = complete(numbers)
            for index in free:
                if not respects[index].low <= full[index] < respects[index].high:
                    return np.full(1, np.nan)
            return self._residuals(names, list(zip(respects, full, strict=True)))

        start = np.array([np.log(values[p].at) if respects[p].field == "eps" else values[p].at for p in free])
        if not np.all(np.isfinite(residuals(start))):
            return list(values), np.inf
        numbers = least_squares(residuals, start)
        final = residuals(numbers)
        return complete(numbers), float(final @ final)

    def _elements(self, names: Sequence[str]) -> int:
        return sum(self.sample.parameters[0][name].size for name in names)

    def _residuals(self, names: Sequence[str], changes: Sequence[tuple[Respect, Any]]) -> Array:
        """The errors of a replay, in units of their limits."""
        self._spend(names)
        trajectory, parts = self.sample, []
        for name in names:
            predicted = trajectory.prediction(name, changed_rules(trajectory.plan[name], changes))
            for step, (change, guess) in enumerate(zip(trajectory.changes(name), predicted, strict=True)):
                limit = trajectory.limit(name, step, change) or 1.0
                parts.append((guess - change) / limit)
        return np.concatenate(parts)

    def _rounded(
        self, names: Sequence[str], respects: Sequence[Respect], values: Sequence[Any], starts: Sequence[Any]
    ) -> Finding | None:
        """Return the change with estimates rounded as far as the replay still agrees, without what has no effect."""
        changes = dict(enumerate(zip(respects, values, strict=True)))
        if any(isinstance(value, Start) for value in values) or not self._proved(names, [*changes.values()]):
            return None
        for index, (respect, value) in list(changes.items()):
            rest = {other: change for other, change in changes.items() if other != index}
            if rest and self._proved(names, [*rest.values()]):
                changes = rest
            elif isinstance(starts[index], Start):
                base = self._base(names, respect)
                for number in plain_numbers(value * base):
                    if not respect.low <= number < respect.high:
                        continue
                    rounded = changes | {index: (respect, number / base)}
                    if self._proved(names, [*rounded.values()]):
                        changes = rounded
                        break
        rule = self.trajectory.plan[names[0]][0]
        if any(is_same(respect, value, rule) for respect, value in changes.values()):
            return None  # explained by what is no difference
        return self._proved(names, [*changes.values()])

    def _base(self, names: Sequence[str], respect: Respect) -> float:
        """What a value is to be multiplied by to give the number that a person writes."""
        rates = {rule.lr for name in names for rule in self.trajectory.plan[name]}
        return rates.pop() if respect.field == "lr" and len(rates) == 1 else 1.0

    def _other_rates(self, names: Sequence[str]) -> Finding | None:
        """Return the learning rate of each step that explains the parameters: every change is a multiple of it."""
        trajectory = self.trajectory
        if len({tuple(rule.lr for rule in trajectory.plan[name]) for name in names}) > 1:
            return None
        if self._elements(names) < LEAST_EQUATIONS:
            return None
        rates = []
        for step in range(trajectory.steps):
            products = squares = 0.0
            for name in names:
                change = trajectory.changes(name)[step]
                predicted = trajectory.prediction(name, trajectory.plan[name])[step]
                weight = (trajectory.limit(name, step, change) or 1.0) ** -2
                products += weight * float((change * predicted).sum())
                squares += weight * float((predicted * predicted).sum())
            if not squares:
                return None
            rates.append(products / squares * trajectory.plan[names[0]][step].lr)
        if self._proved(names, (), tuple(rates)) is None:
            return None
        for step in range(len(rates)):
            for number in plain_numbers(rates[step]):
                rounded = [*rates[:step], number, *rates[step + 1 :]]
                if self._proved(names, (), tuple(rounded)):
                    rates = rounded
                    break
        return self._proved(names, (), tuple(rates))

    def _holds(self, name: str, finding: Finding) -> bool:
        return self._proved([name], finding.changes, finding.rates) is not None

    def _proved(
        self, names: Sequence[str], changes: Sequence[tuple[Respect, Any]], rates: tuple[float, ...] = ()
    ) -> Finding | None:
        """Return the finding if the replay agrees in every step and parameter."""
        self._spend(names)
        plan = {name: changed_rules(self.sample.plan[name], changes, rates) for name in names}
        if not self.sample.agrees(names, plan):
            return None
        finding = self._finding(names, changes, rates)
        return finding if np.isfinite(finding.error) else None

    def _finding(
        self, names: Sequence[str], changes: Sequence[tuple[Respect, Any]], rates: tuple[float, ...]
    ) -> Finding:
        plan = {name: changed_rules(self.trajectory.plan[name], changes, rates) for name in names}
        error = 0.0
        for name in names:
            error = max(error, self.trajectory.error(name, plan[name]))
            if not np.isfinite(error):
                break
        return Finding(tuple(names), tuple(changes), plan, error, rates)
