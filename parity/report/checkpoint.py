"""The text view of a comparison of two checkpoints."""

from __future__ import annotations

import re

from rich.text import Text

from ...runtime.visible import visible_name
from ..weights.audit.findings.finding import LOOK, WRONG, Finding
from ..weights.audit.names import kind_of
from ..weights.audit.result import CheckpointResult
from ..weights.audit.words import sources_in_words, way_in_words
from .detail import INDENT, pluralize
from .layout import Row, paragraph, shorten, shorten_path, tree_lines

MARKS = {WRONG: ("✗", "red"), LOOK: ("?", "yellow")}
"""The sign of a finding by its rank."""


def checkpoint_lines(report: CheckpointResult, width: int, verbose: bool) -> list[Text]:
    """Return the whole view."""
    lines = [*_table(report, width, verbose), Text()]
    for finding in report.findings:
        lines += [*finding_lines(finding, width), Text()]
    style = "green" if report.ok else "red"
    lines += paragraph(f"{'✓' if report.ok else '✗'} {report.sentence}", width, style=style)
    for checkpoint in (report.before, report.after):
        count = pluralize(len(checkpoint.tensors), "tensor")
        lines += paragraph(f"{checkpoint.path}: {count}, {checkpoint.format}", width, INDENT)
    return lines + [line for note in report.notes for line in paragraph(f"note: {note}", width, INDENT, "yellow")]


def finding_lines(finding: Finding, width: int) -> list[Text]:
    """Return what is found, the evidence and what to do."""
    mark, style = MARKS.get(finding.rank, ("note:", ""))
    lines = paragraph(f"{mark} {finding.text}", width, style=style)
    lines += paragraph(finding.evidence, width, INDENT)
    return lines + paragraph(f"to do: {finding.advice}", width, INDENT, "dim")


def _table(report: CheckpointResult, width: int, verbose: bool) -> list[Text]:
    """Return a line for the tensors of all layers that are made alike, or with `verbose` one for each tensor."""
    derivation = report.derivation
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name in sorted(derivation.after, key=_natural):  # a file has them in any order
        origin = derivation.origins.get(name)
        sources = "" if origin is None else sources_in_words(origin.join.assembly)
        way = "comes from nowhere" if origin is None else way_in_words(derivation, name)
        key = name if verbose else kind_of(name), sources, way
        groups.setdefault(key, []).append(name)
    third = max(14, width // 3 - 2)
    rows = []
    for (name, sources, way), members in groups.items():
        count = f" ×{len(members)}" if len(members) > 1 else ""
        style = "red" if not sources else ""
        rows.append(
            Row(
                (),
                (
                    (shorten_path(visible_name(name), third - len(count)) + count, ""),
                    (shorten(visible_name(sources), third), ""),
                    (shorten(way, max(14, width - 2 * third - 4)), style),
                ),
            )
        )
    return tree_lines(("Tensor", "made of", "how"), rows, width, left=3)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts names with their numbers as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
