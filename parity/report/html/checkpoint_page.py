"""The page of a comparison of two checkpoints: a row for each tensor, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from ...results.comparison import AFFECTED, FAIL, PASS
from ...weights.audit.findings.finding import LOOK, WRONG
from ...weights.audit.result import CheckpointResult
from ...weights.audit.words import sources_in_words, way_in_words
from .page import Fault, Page, Row

MOST_FAULTS = 50


def checkpoint_page(report: CheckpointResult, facts: Sequence[tuple[str, str]]) -> Page:
    """Return what the page shows; `facts` say when and how the report was made."""
    faults = [
        Fault(finding.tensors[0], finding.kind, f"{finding.text}: {finding.evidence}. To do: {finding.advice}.")
        for finding in report.wrong
    ]
    return Page(
        model=report.after.path,
        outcome="holds" if report.ok else "fails",
        verdict=report.sentence,
        facts=[
            ("Before", f"{report.before.path} ({report.before.format}, {len(report.before.tensors)} tensors)"),
            ("After", f"{report.after.path} ({report.after.format}, {len(report.after.tensors)} tensors)"),
            *facts,
        ],
        notes=[*(f"{f.text}: {f.evidence}" for f in report.findings if f.rank != WRONG), *report.notes],
        reference=report.before.path,
        legend="",
        noun=("tensor", "tensors"),
        columns=[],
        rows=_rows(report),
        faults=faults[:MOST_FAULTS],
        more_faults=max(0, len(faults) - MOST_FAULTS),
    )


def _rows(report: CheckpointResult) -> list[Row]:
    """Return the tensors within what their names have in common."""
    derivation = report.derivation
    wrong = {name for finding in report.findings if finding.rank == WRONG for name in finding.tensors}
    looks = {name for finding in report.findings if finding.rank == LOOK for name in finding.tensors}
    rows: list[Row] = []
    numbers: dict[str, int] = {}

    def number_of(path: str) -> int | None:
        if not path:
            return None
        if path not in numbers:
            above, _, label = path.rpartition(".")
            parent = number_of(above)
            numbers[path] = len(rows)
            rows.append(Row(path, label, parent, PASS))
        return numbers[path]

    for name in dict.fromkeys([*derivation.after, *sorted(wrong - derivation.after.keys())]):
        parent = number_of(name.rpartition(".")[0])
        origin = derivation.origins.get(name)
        text = "" if origin is None else f"{sources_in_words(origin.join.assembly)}: {way_in_words(derivation, name)}"
        verdict = FAIL if name in wrong else AFFECTED if name in looks else PASS
        row = Row(name, name.rpartition(".")[2], parent, verdict, explanations=[text] if text else [])
        if name in numbers:  # a tensor and a module of one name
            rows[numbers[name]] = row
            continue
        numbers[name] = len(rows)
        rows.append(row)
    return rows
