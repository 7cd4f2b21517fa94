"""Running cases, one at a time, with all tools; the outcome of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

from cellbridge.parity.results.comparison import json_value
from fixtures.planted_faults.cases import Case

from .judge import Verdict, judge
from .tools import Tool
from .tools.finding import Finding

CAUSE_FIELDS = ("kind", "summary", "op", "attribute", "reference_value", "candidate_value")
JSON_NAMES = {"cause": "is_cause"}  # `cause` is that of the case


@dataclass(frozen=True)
class Outcome:
    """What one tool made of one case.

    Attributes:
        case: the case.
        tool: name of the tool.
        finding: what it said; None if it can't compare such a pair.
        verdict: how right that is.
        seconds: how long it took.
    """

    case: Case
    tool: str
    finding: Finding | None
    verdict: Verdict | None
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        case, finding = self.case, self.finding
        result: dict[str, Any] = {
            "kind": case.kind,
            "name": case.name,
            "cause": case.cause,
            "cells": list(case.cells),
            "tool": self.tool,
            "seconds": round(self.seconds, 3),
        }
        if finding is None or self.verdict is None:
            return {**result, "compared": False}
        return {
            **result,
            "compared": True,
            **{JSON_NAMES.get(name, name): value for name, value in asdict(self.verdict).items()},
            "accused": sorted(finding.accused) if finding.accused is not None else None,
            "causes": {path: [_fields(cause) for cause in causes] for path, causes in finding.causes.items()},
            "texts": {path: list(texts) for path, texts in finding.texts.items()},
            "error": finding.error,
            "said": finding.said,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any], case: Case) -> Outcome:
        """Return the outcome that `to_dict` wrote of a case, judged by what the case expects now."""
        if not row["compared"]:
            return cls(case, row["tool"], None, None, row["seconds"])
        accused, causes = row["accused"], row["causes"]
        finding = Finding(
            row["found"],
            None if accused is None else frozenset(accused),
            {path: [SimpleNamespace(**fields) for fields in all_fields] for path, all_fields in causes.items()},
            row["texts"],
            row["error"],
            row["said"],
        )
        return cls(case, row["tool"], finding, judge(case, finding), row["seconds"])


def _fields(cause: Any) -> dict[str, Any]:
    """What the judge reads of a cause, as JSON values."""
    return {name: json_value(getattr(cause, name, None)) for name in CAUSE_FIELDS}


def run(
    cases: Iterable[Case], tools: Mapping[str, Tool], progress: Callable[[Case], None] = lambda case: None
) -> Iterator[Outcome]:
    """Yield the outcome of each tool on each case."""
    for case in cases:
        progress(case)
        pair = case.pair()
        try:
            for name, tool in tools.items():
                start = time.perf_counter()
                finding = tool(pair)
                seconds = time.perf_counter() - start
                verdict = None if finding is None else judge(case, finding)
                yield Outcome(case, name, finding, verdict, seconds)
        finally:
            pair.cleanup()
