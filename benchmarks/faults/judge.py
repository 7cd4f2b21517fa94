"""Deciding whether a finding is right, from what is known of the case."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellbridge.parity.results.cell_report import is_inside
from fixtures.planted_faults.cases import ANY_NAME, UNKNOWN, Case, Either

from .tools.finding import Finding

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Verdict:
    """How right a finding is. None where there is nothing to be right about.

    Attributes:
        found: it says that the two differ.
        placed: it accuses the Cells that are wrong and no others.
        innocent: number of Cells that it accuses without reason; see `innocent`.
        cause: the first cause that it names for each wrong Cell is true, and all that is wrong is named so; None where
            no cause is expected.
        explained: its texts for the wrong Cells contain the words of the true cause.
        side: the values that it gives for the two sides are those of these sides, and not exchanged.
    """

    found: bool
    placed: bool | None
    innocent: int
    cause: bool | None
    explained: bool | None
    side: bool | None


def judge(case: Case, finding: Finding) -> Verdict:
    """Return how right a finding on a case is."""
    accused = finding.accused
    true = set(case.cells)
    accused_wrongly = len(innocent(accused, true)) if accused is not None and (true or not case.is_fault) else 0
    if not case.is_fault:
        return Verdict(finding.found, None, accused_wrongly, None, None, None)
    placed = accused == true if case.cells else None
    faults_of_one = max(1, len(case.expected) - len(case.cells) + 1)  # two faults may be in one Cell
    first = [cause for causes in _of(case, finding.causes) for cause in causes[:faults_of_one]]
    right = all(any(matches(cause, other) for cause in first) for other in case.expected)
    right = right and all(any(matches(cause, other) for other in case.expected) for cause in first)
    cause_is_right = right if case.expected else None
    texts = " ".join(text for texts in _of(case, finding.texts) for text in texts).lower()
    explained = bool(texts) and contains(texts, case.words) if case.words else None
    placed = placed if finding.found else False
    return Verdict(finding.found, placed, accused_wrongly, cause_is_right, explained, _side(case, first))


def innocent(accused: Collection[str], wrong: Collection[str]) -> set[str]:
    """Return the Cells that are accused without reason.

    A fault is the reason for the smallest accused Cell that holds it. If that isn't the Cell that is wrong, the fault
    isn't placed, but the Cell isn't innocent: what it computes is wrong.

    Args:
        accused: paths of the Cells that are accused.
        wrong: paths of the smallest Cells that hold a fault.
    """
    around = ([path for path in accused if path == cell or is_inside(cell, path)] for cell in wrong)
    return {*accused} - {max(paths, key=len) for paths in around if paths}


def _of(case: Case, by_cell: Mapping[str, Sequence[Any]]) -> list[Sequence[Any]]:
    """What is said of the Cells that are wrong; of everything in training, where a case has none or tensors instead."""
    return [causes for path, causes in by_cell.items() if path in case.cells or case.kind == "training"]


def matches(cause: Any, expected: Mapping[str, Any]) -> bool:
    """Whether a cause that a tool names is the expected one: its kind, and its attribute with values, or its words."""
    kinds = expected["kind"]
    if getattr(cause, "kind", None) not in ((kinds,) if isinstance(kinds, str) else kinds):
        return False
    if "name" not in expected:
        return contains(_text(cause), expected.get("words", ()))
    names = expected["name"].split("|")
    if ANY_NAME not in names and getattr(cause, "attribute", None) not in names:
        return False
    values = [expected.get("reference"), expected.get("candidate")]
    return _all_equal(_values(cause), values) or _all_equal(_values(cause)[::-1], values)


def _values(cause: Any) -> list[Any]:
    return [getattr(cause, name, None) for name in ("reference_value", "candidate_value")]


def contains(text: str, words: Sequence[str]) -> bool:
    """Whether all words occur in a text; alternatives are divided by `|`."""
    text = text.lower()
    return all(any(alternative.lower() in text for alternative in word.split("|")) for word in words)


def _text(cause: Any) -> str:
    parts = (getattr(cause, name, "") for name in ("summary", "op", "attribute"))
    return " ".join(str(part) for part in parts if part).replace("axes", "axes axis")


def _side(case: Case, causes: Sequence[Any]) -> bool | None:
    """Whether values aren't exchanged; None unless a cause has the expected attribute."""
    for expected in case.expected:
        for cause in causes:
            if "name" in expected and matches(cause, expected):
                values = [expected.get("reference"), expected.get("candidate")]
                return _all_equal(_values(cause), values)
    return None


def _all_equal(values: Sequence[Any], expected: Sequence[Any]) -> bool:
    return all(_equal(a, b) for a, b in zip(values, expected, strict=True))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(b, str) and b == UNKNOWN:
        return True
    if isinstance(b, Either):
        return any(_equal(a, way) for way in b.ways)
    if isinstance(a, (tuple, list)) or isinstance(b, (tuple, list)):
        first, second = (list(v) if isinstance(v, (tuple, list)) else [v] for v in (a, b))
        if len(first) != len(second):  # 2 is (2, 2)
            return len({*map(str, first)}) == 1 and len({*map(str, second)}) == 1 and _equal(first[0], second[0])
        return all(_equal(x, y) for x, y in zip(first, second, strict=True))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or math.isclose(a, b, rel_tol=TOLERANCE)
    return str(a) == str(b)
