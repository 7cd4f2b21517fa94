"""What a sweep says that an earlier one didn't."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .result import ORDER, Result
from .store import Store

SLOWER = 1.5
"""A model whose process takes so many times as long, and a second more, is listed."""


@dataclass(frozen=True)
class Change:
    """A model of which two sweeps say something else."""

    model: str
    before: Result
    after: Result

    @property
    def is_worse(self) -> bool:
        """Whether the later result is worse."""
        return ORDER.index(self.after.outcome) > ORDER.index(self.before.outcome)


@dataclass(frozen=True)
class SweepComparison:
    """The differences of two sweeps.

    Attributes:
        worse: models whose outcome is worse in the later one.
        better: models whose outcome is better.
        otherwise: models of the same outcome with other wrong Cells or another reason.
        slower: models that take longer.
        added: models of the later one alone.
        removed: models of the earlier one alone.
        same: number of models of which both say the same.
        versions: versions of libraries that differ, as (name, before, after).
    """

    worse: list[Change]
    better: list[Change]
    otherwise: list[Change]
    slower: list[Change]
    added: list[Result]
    removed: list[Result]
    same: int
    versions: list[tuple[str, str, str]]


def compare_sweeps(before: Store, after: Store) -> SweepComparison:
    """Compare the results of two sweeps."""
    old, new = before.results(), after.results()
    both = [Change(model, old[model], new[model]) for model in new if model in old]
    changed = [pair for pair in both if pair.before.outcome != pair.after.outcome]
    same = [pair for pair in both if pair.before.outcome == pair.after.outcome]
    otherwise = [pair for pair in same if pair.before.reason != pair.after.reason]
    return SweepComparison(
        worse=[pair for pair in changed if pair.is_worse],
        better=[pair for pair in changed if not pair.is_worse],
        otherwise=otherwise,
        slower=[
            pair for pair in both if pair.after.seconds > max(SLOWER * pair.before.seconds, pair.before.seconds + 1)
        ],
        added=[result for model, result in new.items() if model not in old],
        removed=[result for model, result in old.items() if model not in new],
        same=len(same) - len(otherwise),
        versions=_changed_versions(before.versions, after.versions),
    )


def _changed_versions(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = sorted(before.keys() | after.keys())
    pairs = [(name, before.get(name, "none"), after.get(name, "none")) for name in names]
    return [(name, a, b) for name, a, b in pairs if a != b]
