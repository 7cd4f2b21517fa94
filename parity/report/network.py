"""The text view of a comparison of networks: the Cell tree with verdicts, failing Cells in detail, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from ..results.cell_report import CellReport
from ..results.comparison import (
    AFFECTED,
    FAIL,
    INLINED,
    NOT_COMPARED,
    NOT_KNOWN,
    NOT_REACHED,
    PASS,
    PASSED_ON,
    REFERENCE_WRONG,
    SKIPPED,
    UNPAIRED,
    Comparison,
)
from ..results.network_result import NetworkResult
from .detail import amount, cell_detail, cell_line, group_by_fault, pluralize, same_in_words
from .globs import join_names, list_names, patterns, summarize_paths
from .hunks import cell_of_pair, pairs_in_words, way_in_words
from .layout import Piece, Row, paragraph, shorten_path, tree_lines
from .multiples import legend, worst_in_words
from .structure import structure_lines
from .tree import Line, tree

IN_FULL = 4  # faults that are shown in full
IN_A_LINE = 12  # faults that are shown in one line
TREE = 60  # lines of a tree with failing Cells
QUANTIZERS = 24  # lines of the quantizers that are shown
PAIRS = 12  # lines of the pairing that are shown; more are counted

VERDICTS: dict[str, Piece] = {
    PASS: ("✓ pass", "green"),
    FAIL: ("✗ FAIL", "bold red"),
    NOT_COMPARED: ("? not compared", "bold red"),
    NOT_KNOWN: ("? not known", "bold yellow"),
    REFERENCE_WRONG: ("! reference wrong", "bold yellow"),
    AFFECTED: ("~ affected", "yellow"),
    NOT_REACHED: ("- not reached", "yellow"),
    PASSED_ON: ("✓ passed on", "green"),
    UNPAIRED: ("- unpaired", "yellow"),
    INLINED: ("- inlined", "dim"),
    SKIPPED: ("- skipped", "dim"),
}
MEANINGS = {
    NOT_KNOWN: "not known: the computation is too ill-conditioned to be judged there, or the reference is NaN",
    REFERENCE_WRONG: "reference wrong: the reference's own gradients are wrong there; no failure of the other side",
    AFFECTED: "affected: differs end to end only, because of other Cells",
    PASSED_ON: "passed on: it returns what it is given, which was judged where other Cells return or take it",
    UNPAIRED: "unpaired: it has no counterpart, or one that is called differently; judged in the Cell around it",
    INLINED: "inlined: never called itself; its parameters are judged in the Cell that uses them",
}


def report_lines(report: NetworkResult, width: int, verbose: bool) -> list[Text]:
    """Return the whole view; `verbose` collapses nothing and shows every failing check in full."""
    if report.nothing_in_common and not verbose:
        return _nothing_in_common(report, width)
    lines = _tree_lines(report, width, verbose)
    lines += _pair_lines(report, width, verbose)
    lines += _weight_lines(report, width) if verbose and report.correspondence.parameters else []
    lines += _quantizer_lines(report, width, verbose)
    return [*lines, Text(), *_details(report, width, verbose), *_summary(report, width)]


def failure_lines(report: NetworkResult, width: int) -> list[Text]:
    """Return the summary and the failing Cells in detail, without the tree."""
    if report.nothing_in_common:
        return _nothing_in_common(report, width)
    return [*_summary(report, width), Text(), *_details(report, width, False)]


def _nothing_in_common(report: NetworkResult, width: int) -> list[Text]:
    """Return one sentence, and what was compared: Cells without a partner and their causes say nothing."""
    lines = paragraph(f"✗ {verdict_in_words(report)}", width, style="bold red")
    lines += paragraph(f"{_subject(report, width)} (-v shows the Cells)", width, 2)
    return lines + paragraph("what to do: see whether these are the two networks that were meant", width, 2)


def _tree_lines(report: NetworkResult, width: int, verbose: bool) -> list[Text]:
    tree_rows = tree(report, everything=verbose)
    rows = [Row(line.siblings_follow, _columns(line)) for line in (tree_rows if verbose else tree_rows[:TREE])]
    lines = tree_lines(("Cell", "class", "verdict", "outputs", "gradients", "Cells"), rows, width, left=3)
    if len(tree_rows) > len(rows):
        lines.append(Text(f"… and {pluralize(len(tree_rows) - len(rows), 'line')} more (-v shows them)", "dim"))
    if any(cell.comparisons for cell in report.cells.values()):
        lines += [Text(), *paragraph(legend_of(report), width, style="dim")]
    return lines


def legend_of(report: NetworkResult) -> str:
    """Return what the errors in the columns are multiples of, and what `≠` means where it occurs."""
    compared = (c for cell in report.cells.values() for c in cell.comparisons)
    return legend(compared, report.reference, report.conditions.tolerance)


def _pair_lines(report: NetworkResult, width: int, verbose: bool) -> list[Text]:
    """Return a table of the Cells that aren't paired by their paths; a line with their number if they are many."""
    pairs = [p for p in report.correspondence.cells if p.module_class and p.cell_class and p.how != "root"]
    listed = [p for p in pairs if p.module != p.cell or p.is_part]
    if not pairs or not (listed or pairs[0].is_by_values):
        return []
    if not verbose and (len(listed) > PAIRS or pairs[0].is_by_values):
        more = " (-v lists them)" if listed else ""
        return [Text(), *paragraph(f"{pairs_in_words(pairs)}{more}", width, style="dim")]
    rows = [Row((), ((p.module, ""), (cell_of_pair(p), ""), (way_in_words(p), "dim"))) for p in listed]
    return [Text(), *tree_lines(("Cell", "is paired with", ""), rows, width, left=3)] if rows else []


def _weight_lines(report: NetworkResult, width: int) -> list[Text]:
    """Return a table of the sources of the Parameters' values."""
    weights = report.correspondence.parameters
    rows = [Row((), ((w.parameter, ""), (w.source, ""), (way_in_words(w), "dim"))) for w in weights]
    return [Text(), *tree_lines(("Parameter", "is", ""), rows, width, left=3)]


def _quantizer_lines(report: NetworkResult, width: int, verbose: bool) -> list[Text]:
    """Return a table of the errors of values that are rounded, or computed from rounded weights."""
    by_tensor: dict[tuple[str, str], dict[str, Comparison]] = {}
    for path, cell in report.cells.items():
        for c in cell.comparisons:
            if c.check == "quantization" and c.kind != "parameter":
                by_tensor.setdefault((path, c.tensor), {})[c.kind if c.kind != "quantizer" else c.feeding] = c
    rows = [
        Row((), tuple(_quantizer_cells(path or "(root)", name, by_feeding)))
        for (path, name), by_feeding in by_tensor.items()
    ]
    shown = rows if verbose or len(rows) <= QUANTIZERS else rows[: QUANTIZERS - 1]
    if not shown:
        return []
    columns = ("Rounding in", "in Cell", "step", "isolated", "end to end", "× expected")
    lines = [Text(), *tree_lines(columns, shown, width, left=2)]
    if len(shown) < len(rows):
        lines.append(Text(f"and {len(rows) - len(shown)} more (-v shows them)", "dim"))
    expected = "× expected: the error of the Cell alone, as a multiple of what rounding to steps of these sizes makes."
    if any("end to end" in by_feeding for by_feeding in by_tensor.values()):
        alone = "isolated, from rounding the Cell's own weights, inputs and result"
        expected = f"Errors in steps: {alone}; end to end, from all rounding. {expected}"
    return lines + paragraph(expected, width, style="dim")


def _quantizer_cells(path: str, name: str, by_feeding: Mapping[str, Comparison]) -> Iterator[Piece]:
    """Yield the cells of a row."""
    failed = any(c.status == FAIL for c in by_feeding.values())
    yield name, "bold" if failed else ""
    yield path, ""
    alone = by_feeding.get("isolated")
    yield "" if alone is None else f"{alone.bar:.3g}", ""
    for key in ("isolated", "end to end", "quantization error"):
        c = by_feeding.get(key)
        yield "" if c is None else _steps(c.ratio), "red" if c is not None and c.status == FAIL else ""


def _steps(count: float) -> str:
    return f"{count:.2f}" if count < 9.995 else f"{count:.0f}" if count < 1e5 else f"{count:.0e}"


def _columns(line: Line) -> tuple[Piece, ...]:
    first, *inside = line.cells
    reached = sum(cell.status != NOT_REACHED for cell in line.cells)
    count = (str(reached), "dim") if reached == len(line.cells) else (f"{reached}/{len(line.cells)}", "yellow")
    calls = f" ×{first.calls}" if first.calls > 1 and not inside else ""
    return (
        (line.label, "bold" if line.verdict == FAIL else ""),
        (_classes(first) + calls, "cyan"),
        VERDICTS[line.verdict],
        worst_in_words([c for cell in line.cells for c in cell.outputs]),
        worst_in_words([c for cell in line.cells for c in cell.gradients]),
        count if inside else ("", ""),
    )


def _classes(cell: CellReport) -> str:
    """Return the class of the module, and that of its port if it has another name."""
    port = cell.counterpart.partition(" ")[0]
    return cell.class_name if port in ("", cell.class_name) else f"{cell.class_name} / {port}"


def _details(report: NetworkResult, width: int, verbose: bool) -> list[Text]:
    """Return the failures, grouped by fault: the first groups in full, others in a line; everything if `verbose`."""
    failing = {*report.failing, *report.reference_wrong, *report.cells_not_known}
    if verbose:
        cells = [cell for path, cell in report.cells.items() if path in failing or cell.differences]
        return [line for cell in cells for line in [*cell_detail(cell, report, width, everything=True), Text()]]
    groups = group_by_fault(report, [cell for path, cell in report.cells.items() if path in failing])
    lines: list[Text] = []
    for first, *others in groups[:IN_FULL]:
        lines += [*cell_detail(first, report, width, alike=[cell.path for cell in others]), Text()]
    for first, *others in groups[IN_FULL : IN_FULL + IN_A_LINE]:
        lines.append(cell_line(first, report, width))
        if others:
            lines += paragraph(same_in_words([cell.path for cell in (first, *others)], report), width, 2)
    if more := sum(map(len, groups[IN_FULL + IN_A_LINE :])):
        lines.append(Text(f"and {pluralize(more, 'Cell')} more (-v shows them, --json writes them)"))
    return [*lines, Text()] if len(groups) > IN_FULL else lines


def _summary(report: NetworkResult, width: int) -> list[Text]:
    """Return the verdict, the counts behind it, and the settings of the comparison."""
    counts = Counter(report.verdicts.values())
    mode = "train" if report.train else "eval"
    compared = "outputs and gradients" if any(cell.gradients for cell in report.cells.values()) else "outputs"
    mark, style = ("✓", "bold green") if report.ok else ("✗", "bold red") if report.failed else ("!", "bold yellow")
    lines = paragraph(f"{mark} {verdict_in_words(report)}", width, style=style)
    lines += paragraph(f"the network as a whole: {report.network_verdict.sentence}", width, 2)
    lines += paragraph(f"{pluralize(len(report.cells), 'Cell')}: {counts_in_words(report)}", width, 2)
    lines += [line for status in MEANINGS if counts[status] for line in paragraph(MEANINGS[status], width, 2, "dim")]
    lines += [line for remark in remarks(report) for line in paragraph(remark, width, 2, "yellow")]
    lines += structure_lines(report, width)
    lines += paragraph(
        f"{_subject(report, width)}; {compared}, {report.dtype}, {mode} mode, seed {report.seed}", width, 2
    )
    if report.inputs > 1 and report.worst is not None:
        path, worst = report.worst
        where = f"{path or '(root)'}, {worst.kind}, {amount(worst, report) or 'no difference'}"
        lines += paragraph(f"compared on {report.inputs} inputs; the worst is number {worst.input} ({where})", width, 2)
    if report.sizes:
        lines += paragraph(f"compared also at {'; and at '.join(report.sizes)}", width, 2)
    if report.probing_seconds:
        took = f"further inputs took {report.probing_seconds:.1f} s; --no-probe, or probe=False, leaves them out"
        lines += paragraph(took, width, 2, "dim")
    return lines + [line for note in report.notes for line in paragraph(f"note: {note}", width, 2, "yellow")]


def _subject(report: NetworkResult, width: int) -> str:
    model, sides = shorten_path(report.model, width // 2), join_names(report.sides)
    if reference := report.origin.reference:
        return f"{sides} ({model}) against {report.reference} ({shorten_path(reference, width // 2)})"
    return f"{model}: {sides} against {report.reference}"


def faults_as_data(report: NetworkResult) -> list[dict[str, Any]]:
    """Return the faults of the failing Cells as JSON values: each with its Cells, the worst first, and its causes."""
    groups = group_by_fault(report, [report.cells[path] for path in report.failing])
    return [
        {"cells": [cell.path for cell in group], "causes": [cause.in_words for cause in group[0].causes]}
        for group in groups
    ]


def counts_in_words(report: NetworkResult) -> str:
    """Return the number of Cells with each verdict: `25 pass, 3 fail`."""
    counts = Counter(report.verdicts.values())
    return ", ".join(f"{counts[status]} {VERDICTS[status][0][2:].lower()}" for status in VERDICTS if counts[status])


def remarks(report: NetworkResult) -> list[str]:
    """Return remarks on the Cells that weren't reached, or aren't compared with a counterpart of their own."""
    notes = []
    if names := patterns(report.not_reached):  # paths that differ only in numbers, as patterns
        notes.append(f"not reached: the inputs never exercise {list_names(names)}, so nothing is known there")
    pairs = report.correspondence
    for pair in pairs.cells:
        if pair.apart:
            port = "" if pair.module == pair.cell else f" (its port: {pair.cell})"
            notes.append(f"{pair.module}{port} is judged in the Cell around it: {pair.apart}")
    unpaired = [path for path in pairs.unpaired if path in report.cells and report.cells[path].status != UNPAIRED]
    if alone := [pair.module for pair in pairs.cells if pair.module in unpaired and not pair.cell_class]:
        notes.append(f"modules without a port, judged in the Cell around them: {list_names(alone)}")
    if pairs.lone_cells:
        lone = list_names(pairs.lone_cells)
        notes.append(f"Cells that are the port of no module, judged in the Cell around them: {lone}")
    return notes


def verdict_in_words(report: NetworkResult) -> str:
    """Return the verdict on the whole network in a sentence."""
    compared = [cell for cell in report.cells.values() if cell.comparisons]
    conditions = ", ".join(report.conditions_in_words)
    if report.ok:
        sides = [f"{side} ({_compared_parts(side, compared)})" for side in report.sides]
        agreed = f"{join_names(sides)} agree{'s' if len(sides) == 1 else ''} with {report.reference}"
        return f"Parity holds{conditions and f' {conditions}'}: {agreed} in {pluralize(len(compared), 'Cell')}"
    if not report.failed and report.not_known:
        agreed = f"nothing differs in {pluralize(len(compared), 'Cell')}, but " if compared else ""
        return f"Parity is not known: {agreed}{report.not_known}"
    if not report.failed:
        parts = []
        if report.reference_wrong:
            wrong = summarize_paths(report.reference_wrong, report.cells)
            parts.append(f"{report.reference}'s gradient is wrong in {wrong}")
        if report.cells_not_known:
            names = summarize_paths(report.cells_not_known, report.cells)
            parts.append(f"parity is not known in {names}")
        return f"Nothing fails, but {', and '.join(parts)}"
    if report.nothing_in_common:
        return report.nothing_in_common
    if not compared:
        return "Nothing was compared, so parity is not shown"
    if not report.failing and report.strict and report.divided_differently:
        return f"The structure differs, which strict doesn't allow: {list_names(report.divided_differently)}"
    names = summarize_paths(report.failing, report.cells)
    within = report.conditions.within
    fails = f"Parity fails {within}," if within else "Parity fails"
    return f"{fails} in {pluralize(len(report.failing), 'Cell')}: {names}"


def _compared_parts(side: str, cells: list[CellReport]) -> str:
    """Describe which parts of a side were compared."""
    outputs = any(c.side == side for cell in cells for c in cell.outputs)
    gradients = any(c.side == side for cell in cells for c in cell.gradients)
    return (
        join_names([name for name, present in (("outputs", outputs), ("gradients", gradients)) if present]) or "nothing"
    )
