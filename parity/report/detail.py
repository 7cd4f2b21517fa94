"""The lines on a failing Cell: tensor, error, index, both values and the truth, and the source line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from rich.text import Text

from ..results.cause import Cause
from ..results.cell_report import NOT_FOUND, CellReport
from ..results.comparison import NOT_KNOWN, REFERENCE_WRONG, Comparison, times
from ..results.hunk import NOWHERE, CodeLine
from ..results.network_result import NetworkResult
from .globs import list_names, summarize_paths
from .hunks import has_lines_of_both, hunk_lines, pair_in_words, place_lines, way_in_words
from .layout import paragraph, shorten
from .multiples import rounding_of

INDENT = 2
MARKS = {REFERENCE_WRONG: ("!", "bold yellow"), NOT_KNOWN: ("?", "bold yellow")}
"""The marks of Cells that differ and don't fail, each with its style."""
MAX_CAUSES = 3
"""The most causes of a Cell that are listed one by one."""


def cell_detail(
    cell: CellReport,
    report: NetworkResult,
    width: int,
    everything: bool = False,
    alike: Sequence[str] = (),
    same_as: str | None = None,
) -> list[Text]:
    """Return the lines on a failing Cell.

    Of the failing checks of one tensor, the most important is shown in full, and the others are listed below it;
    of several failing tensors of a kind, the first is.

    Args:
        cell: the Cell.
        report: the report that it is in.
        width: characters of a line.
        everything: show every check in full.
        alike: paths of other Cells with the same fault, which this one represents.
        same_as: path of the Cell that represents this one, and has the causes; None for a Cell with its own.
    """
    calls = f", called {cell.calls} times" if cell.calls > 1 else ""
    pair = report.correspondence.pair_of(cell.path)
    port = f", ported as {cell.counterpart}" if cell.counterpart else ""
    port += f", {way_in_words(pair)}" if port and pair is not None and pair.how not in ("root", "name") else ""
    mark, style = MARKS.get(cell.status, ("✗", "bold red"))
    lines = paragraph(f"{mark} {cell.path or '(root)'}  {cell.class_name}{port}{calls}", width, style=style)
    if pair is not None and pair.is_by_values:
        lines += paragraph(f"paired with {pair_in_words(pair)}", width, INDENT)
    if alike:
        same = same_in_words([cell.path, *alike], report)
        lines += paragraph(f"{same}; this one has the largest error", width, INDENT, "red")
    if cell.wrong_side:
        lines += paragraph(f"wrong side: {cell.wrong_side_in_words}", width, INDENT, "yellow")
    if same_as is None:
        lines += causes_lines(cell, report, width)
    else:
        lines += paragraph(f"the same cause as in {same_as or '(root)'}", width, INDENT, "yellow")
    possible = [] if cell.causes else cell.explanations
    texts = [text if text == NOT_FOUND else f"possible cause: {text}" for text in possible]
    explained = [line for text in texts for line in paragraph(text, width, INDENT, "yellow")]
    if everything:
        for comparison in sorted(cell.differences, key=lambda c: importance(c, report)):
            lines += _comparison_lines(comparison, cell, report, width)
        return lines + explained
    tensors = _by_tensor(cell.differences, report)
    kinds_shown: set[str] = set()
    for checks in tensors:
        if checks[0].kind not in kinds_shown:
            kinds_shown.add(checks[0].kind)
            lines += _comparison_lines(checks[0], cell, report, width)
            if len(checks) > 1:
                also = "; ".join(f"{check_in_words(c)} ({amount(c, report)})" for c in checks[1:])
                lines += paragraph(f"also: {also}", width, 2 * INDENT)
            same_kind = [other for other in tensors if other[0].kind == checks[0].kind and other is not checks]
            if same_kind:
                others = [f"{tensor_in_words(c[0], cell)} ({amount(c[0], report)})" for c in same_kind]
                lines += paragraph(f"others that differ: {list_names(others)}", width, INDENT)
    return lines + explained


def same_in_words(paths: Sequence[str], report: NetworkResult) -> str:
    """Return which Cells have the same fault: `the same in 3 Cells: layers.0, layers.1, layers.2`."""
    names = summarize_paths([path for path in report.cells if path in paths], report.cells)
    return f"the same in {len(paths)} Cells: {names}"


def causes_lines(cell: CellReport, report: NetworkResult, width: int) -> list[Text]:
    """Return the lines on the proved causes of a Cell: where, what they are, the proof, and what to do.

    A Cell without causes has the lines of both sides that compute what differs.
    """
    sides = report.reference, side_that_differs(cell, report)
    if not cell.causes:
        return hunk_lines(cell.hunk, sides, width) if has_lines_of_both(cell.hunk) else []
    if len(cell.causes) > MAX_CAUSES:  # a rewritten Cell
        shown = "; ".join(cause.in_words for cause in cell.causes[:MAX_CAUSES])
        rest = len(cell.causes) - MAX_CAUSES
        text = (
            f"cause, proved: {len(cell.causes)} differences together: {shown}; and {rest} more; {cell.causes[0].proof}"
        )
        lines = hunk_lines(cell.causes[0].hunk, sides, width) + paragraph(text, width, INDENT, "yellow")
    else:
        lines = []
        before = NOWHERE
        for cause in cell.causes:
            if cause.hunk != before:
                lines += hunk_lines(cause.hunk, sides, width)
            before = cause.hunk
            lines += cause_lines(cause, width)
    return lines + [line for text in _of_causes(cell) for line in paragraph(text, width, INDENT, "yellow")]


def side_that_differs(cell: CellReport, report: NetworkResult) -> str:
    """Return the name of the side of the most important comparison that fails in a Cell."""
    return min(cell.differences, key=lambda c: importance(c, report)).side


def cause_lines(cause: Cause, width: int) -> list[Text]:
    """Return the lines on a proved cause: what it is, the proof, and what to do; and where, if it has no hunk."""
    lines = paragraph(f"cause, proved: {cause.in_words}; {cause.proof}", width, INDENT, "yellow")
    lines += [] if cause.hunk else _source(cause.source, width)
    return lines + (paragraph(f"to fix: {cause.fix}", width, INDENT, "yellow") if cause.fix else [])


def _of_causes(cell: CellReport) -> list[str]:
    """Return the known differences of the APIs that may stand behind proved causes, and say what to write."""
    texts = [text for text in cell.explanations if "; write " in text or "give weights=" in text]
    names = [cause.attribute.lower() for cause in cell.causes]
    if all(names):  # what is different is known by name
        texts = [text for text in texts if any(name in text.lower() for name in names)]
    return [f"in the APIs: {text}" for text in texts]


def cell_line(cell: CellReport, report: NetworkResult, width: int) -> Text:
    """Return a failing Cell's most important failure in one line."""
    first = min(cell.differences, key=lambda c: importance(c, report))
    reason = f"{amount(first, report)}, {first.reason}" if first.index is not None else first.reason
    mark, _ = MARKS.get(cell.status, ("✗", ""))
    line = f"{mark} {cell.path or '(root)'}  {cell.class_name}  {tensor_in_words(first, cell)}: {reason}"
    return Text(shorten(line, width))


def group_by_fault(report: NetworkResult, cells: Iterable[CellReport]) -> list[list[CellReport]]:
    """Group failing Cells whose faults differ only in numbers; the worst Cell comes first in each group.

    Groups are in order of importance: meaning before rounding, isolated before end to end, then the order of the
    network.
    """
    groups: dict[object, list[CellReport]] = {}
    for cell in cells:
        groups.setdefault(_fault(cell, report), []).append(cell)

    def most_important(group: list[CellReport]) -> tuple[bool, bool, bool, int]:
        return min(importance(c, report) for c in group[0].differences)

    return sorted((sorted(group, key=_by_largest_ratio) for group in groups.values()), key=most_important)


def _by_largest_ratio(cell: CellReport) -> float:
    ratios = [c.ratio for c in cell.differences if not math.isnan(c.ratio)]
    return -max(ratios, default=0.0)


def _fault(cell: CellReport, report: NetworkResult) -> object:
    """Return a key that is equal for Cells with the same fault.

    That is the same proved causes; where there are none, the most important check of each kind of tensor.
    """
    port = cell.counterpart.partition(" ")[0]
    if cell.causes:
        return cell.class_name, port, tuple((c.kind, _without_path(c.summary, cell.path)) for c in cell.causes)
    checks_by_kind: dict[str, tuple[str, ...]] = {}
    for checks in _by_tensor(cell.differences, report):
        c = checks[0]
        tensor = c.tensor.removeprefix(cell.path)
        checks_by_kind.setdefault(
            c.kind, (tensor, c.side, c.check, c.feeding, re.sub(r"\d[\d.e+-]*", "#", c.reason), c.sizes, c.probe)
        )
    causes: tuple[object, ...] = tuple(text.replace(cell.path, "") if cell.path else text for text in cell.explanations)
    return cell.class_name, port, tuple(sorted(checks_by_kind.items())), causes


def _without_path(text: str, path: str) -> str:
    """Return a text with names inside a Cell in place of their paths; numbers such as 0.001 are no paths."""

    def name(match: re.Match[str]) -> str:
        rest = match[0].removeprefix(f"{path}.")
        return rest if re.search("[A-Za-z_]", rest) else match[0]

    return re.sub(r"[\w.]+", name, text)


def _by_tensor(comparisons: Sequence[Comparison], report: NetworkResult) -> list[list[Comparison]]:
    """Group the comparisons by tensor, with the most important first."""
    together: dict[tuple[str, str, int], list[Comparison]] = {}
    for comparison in comparisons:
        together.setdefault((comparison.kind, comparison.tensor, comparison.call), []).append(comparison)
    return [sorted(checks, key=lambda c: importance(c, report)) for checks in together.values()]


def importance(comparison: Comparison, report: NetworkResult) -> tuple[bool, bool, bool, int]:
    """Return a sort key that is smaller for the more important of two comparisons that fail."""
    side = report.sides.index(comparison.side) if comparison.side in report.sides else len(report.sides)
    return bool(comparison.sizes), not comparison.of_cell_alone, comparison.check != "meaning", side


def _comparison_lines(c: Comparison, cell: CellReport, report: NetworkResult, width: int) -> list[Text]:
    shape = f" {c.dtype}[{', '.join(map(str, c.shape))}]" if c.dtype else ""
    lines = paragraph(f"{tensor_in_words(c, cell)}{shape}", width, INDENT, "bold")
    lines += paragraph(check_in_words(c), width, 2 * INDENT)
    if c.reason:
        lines += paragraph(c.reason, width, 2 * INDENT)
    if c.index is not None:
        lines += (
            paragraph(error_line(c, report.reference, report.conditions.tolerance), width, 2 * INDENT) if c.bar else []
        )
        lines += value_lines(c, report.reference, width)
    return lines if _is_shown(c.source, cell) else lines + _source(c.source, width)


def _is_shown(source: str, cell: CellReport) -> bool:
    """Whether a line of the candidate stands in the hunk of the Cell, or of one of its causes."""
    hunks = [cause.hunk for cause in cell.causes] or [cell.hunk] * has_lines_of_both(cell.hunk)
    line = CodeLine.read(source)
    return any(
        (line.file, line.line) == (other.file, other.line) for hunk in hunks for other in hunk.candidate if other.file
    )


def tensor_in_words(c: Comparison, cell: CellReport) -> str:
    """Return which tensor was compared: `input gradient x, call 1`."""
    name = c.kind if c.tensor in ("", c.kind) else f"{c.kind} {c.tensor}"
    return name + (f", call {c.call}" if cell.calls > 1 else "")


def check_in_words(c: Comparison) -> str:
    """Return how a tensor was compared: `interpreter, meaning in float64, isolated`."""
    at = f", at {c.sizes}" if c.sizes else ""
    at += f", with {c.probe}" if c.probe else ""
    at += f", on input {c.input}" if c.input > 1 else ""
    return f"{c.side}, {c.check}{' in float64' if c.check == 'meaning' else ''}, {c.feeding}{at}"


def amount(c: Comparison, report: NetworkResult) -> str:
    """Return how far off a tensor is: `5e3×`, or for a failure of meaning, whose unit is another, `off by 0.0002`."""
    if c.index is None:
        return c.reason
    return f"off by {c.error:.3g}" if c.check == "meaning" and not report.conditions.tolerance else times(c.ratio)


def error_line(c: Comparison, reference: str, tolerance: str = "") -> str:
    """Return a line on the largest error and the bar, which is the tolerance in words where one was given.

    Multiples are those of the table: of rounding, or of the tolerance. A failure of meaning without a tolerance has
    none, because what double precision allows is another unit.
    """
    if c.kind == "quantization error":
        unit = "what rounding to the steps of its quantizers makes"
        return f"error {c.error:.3g} (root mean square), {times(c.ratio)} {unit}; up to {c.bar:.3g} passes"
    if c.check == "quantization":
        return f"error {c.error:.3g}, {c.ratio:.3g} steps of its quantizer; up to {c.allowed:g} passes"
    if c.check == "meaning" and not tolerance:
        return f"error {c.error:.3g}; up to {c.bar:.3g} passes"
    unit = tolerance or rounding_of(reference)
    return f"error {c.error:.3g}, {times(c.ratio)} {unit}; up to {c.bar:.3g} passes"


def value_lines(c: Comparison, reference: str, width: int) -> list[Text]:
    """Return lines with the values at the worst element, with as many digits as it takes to distinguish them."""
    named = [(reference, c.reference_value), (c.side, c.candidate_value), ("float64 truth", c.truth)]
    named = named[:2] if c.check == "quantization" else named
    numbers = [(name, value) for name, value in named if value is not None]
    if not numbers:  # where only sums over a tensor were compared
        return []
    digits = digits_to_tell_apart([value for _, value in numbers])
    index = f"[{', '.join(map(str, c.index or ()))}]"
    lines = paragraph(f"worst at {index}", width, 2 * INDENT)
    margin = max((len(name) for name, _ in numbers), default=0)
    return lines + [Text(f"{' ' * 3 * INDENT}{name:{margin}}  {value: .{digits}g}") for name, value in numbers]


def digits_to_tell_apart(values: Sequence[float]) -> int:
    """Return the number of significant digits, from 6 to 17, with which values that differ look different."""
    numbers = {value for value in values if not math.isnan(value)}
    return next((n for n in range(6, 17) if len({f"{v:.{n}g}" for v in numbers}) == len(numbers)), 17)


def _source(source: str, width: int) -> list[Text]:
    """Return `file:line` on one line, and the text of that source line below."""
    return place_lines(CodeLine.read(source), width) if source else []


def pluralize(number: int, singular: str) -> str:
    """Return a count with its noun: `1 Cell`, `2 Cells`."""
    return f"{number} {singular}{'' if number == 1 else 's'}"
