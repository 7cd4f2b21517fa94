"""The rows, columns and charts of a `Page` as compact JSON, which the page's script reads.

Each text stands once in a table, and rows and comparisons are arrays that refer to it, so that a page of 5,000 Cells
has a few megabytes. `data.js` gives the fields their names again.
"""

from __future__ import annotations

import json
import math
from itertools import chain, islice, repeat
from typing import Any

from ...results.cause import Cause
from ...results.cell_graph import CellGraph, GraphNode
from ...results.comparison import Comparison
from ...results.error_map import Plane
from ..detail import digits_to_tell_apart
from ..layout import from_here
from ..multiples import rounding_of
from .page import Chart, Page, Row, fraction_of_bar, visible
from .side_by_side import CodeBlock, HunkView

DIGITS = 4  # of errors and ratios
MAX_MAPS_OF_ROW = 4
MAX_MAPS = 300  # about three megabytes
MAX_GRAPHS = 300  # about one megabyte


class _Texts:
    """A table of texts, each of which stands in it once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text in the table."""
        return self.numbers.setdefault(visible(text), len(self.numbers))


def to_json(page: Page) -> str:
    """Return the data as JSON that can stand in HTML: `<`, `>` and `&` are escaped."""
    texts = _Texts()
    of_rows = ([c for c in row.comparisons if c.error_map is not None][:MAX_MAPS_OF_ROW] for row in page.rows)
    with_map = {id(c) for c in islice(chain.from_iterable(of_rows), MAX_MAPS)}
    with_graph = {id(row) for row in islice((row for row in page.rows if row.graph is not None), MAX_GRAPHS)}
    data = {
        "reference": visible(page.reference),
        "unit": visible(page.tolerance or rounding_of(page.reference)),
        "hasTolerance": bool(page.tolerance),
        "legend": visible(page.legend),
        "noun": page.noun,
        "inOrder": page.in_order,
        "columns": [[visible(column.side), column.name] for column in page.columns],
        "rows": [_row(row, texts, with_map, id(row) in with_graph) for row in page.rows],
        "travel": [
            [visible(side), [[texts.number(path or "(root)"), _number(error)] for path, error in errors.items()]]
            for side, errors in page.travel.items()
        ],
        "charts": [_chart(chart) for chart in page.charts],
    }
    data["texts"] = list(texts.numbers)
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _row(row: Row, texts: _Texts, with_map: set[int], with_graph: bool) -> list[Any]:
    return [
        texts.number(row.path),
        texts.number(row.label),
        -1 if row.parent is None else row.parent,
        texts.number(row.verdict),
        texts.number(row.class_name),
        texts.number(row.port),
        row.calls,
        [value if isinstance(value, str) else _number(value) for value in row.values],
        [
            [*_cause(cause, texts), _lines(lines, texts)]
            for cause, lines in zip(row.causes, row.lines_of_causes or repeat(None), strict=False)
        ],
        [texts.number(text) for text in row.explanations],
        [_comparison(c, texts, with_map) for c in row.comparisons],
        row.left_out,
        texts.number(row.wrong_side),
        _graph(row.graph, texts, with_graph) if row.graph is not None else None,
        _lines(row.lines, texts),
        [texts.number(words) for words in row.words],
    ]


def _lines(hunk: HunkView | None, texts: _Texts) -> list[Any]:
    columns = [] if hunk is None else hunk.columns
    return [[texts.number(column.side), [_block(block, texts) for block in column.blocks]] for column in columns]


def _block(block: CodeBlock, texts: _Texts) -> list[Any]:
    lines = [
        [number, [[texts.number(piece), int(is_marked)] for piece, is_marked in pieces]]
        for number, pieces in block.lines
    ]
    return [texts.number(block.file), lines]


def _graph(graph: CellGraph, texts: _Texts, is_drawn: bool) -> list[Any]:
    nodes = [_node(node, texts) for node in graph.nodes] if is_drawn else None  # None says that the JSON has them
    return [graph.call, graph.left_out, nodes]


def _node(node: GraphNode, texts: _Texts) -> list[Any]:
    return [
        *(texts.number(text) for text in (node.kind, node.name, node.type, node.difference, from_here(node.source))),
        node.operands,
        node.candidate_operands,
        [texts.number(f"{name}={value}") for name, value in node.attributes],
        node.in_candidate_alone,
    ]


def _cause(cause: Cause, texts: _Texts) -> list[Any]:
    return [texts.number(text) for text in (cause.in_words, cause.proof, cause.fix, from_here(cause.source))]


def _comparison(c: Comparison, texts: _Texts, with_map: set[int]) -> list[Any]:
    values = [v for v in (c.reference_value, c.candidate_value, c.truth) if v is not None]
    digits = digits_to_tell_apart(values)
    reference, candidate, truth = (_number(v, digits) for v in (c.reference_value, c.candidate_value, c.truth))
    return [
        *(texts.number(text) for text in (c.side, c.check, c.feeding, c.kind, c.tensor)),
        c.call,
        texts.number(c.status),
        texts.number(c.reason),
        texts.number(c.dtype),
        texts.number(_sizes(c.shape)),
        _number(c.error),
        _number(c.bar),
        _number(c.ratio),
        _number(fraction_of_bar(c)),
        texts.number("" if c.index is None else _sizes(c.index)),
        reference,
        candidate,
        truth,
        texts.number(from_here(c.source)),
        texts.number(c.sizes),
        c.input,
        texts.number(c.probe),
        _error_map(c) if id(c) in with_map else None,
    ]


def _error_map(c: Comparison) -> list[Any]:
    error_map = c.error_map
    assert error_map is not None
    digits = digits_to_tell_apart([value for value in (c.truth, c.candidate_value) if value is not None])
    windows = [
        [[_number(value, digits) for value in row] for row in rows]
        for rows in (error_map.reference_values, error_map.candidate_values)
    ]
    return [error_map.counts, [_plane(plane) for plane in error_map.planes], error_map.corner, *windows]


def _plane(plane: Plane) -> list[Any]:
    tiles = "".join(f"{_level(value):02x}" for row in plane.tiles for value in row)
    return [plane.axes, plane.sizes, len(plane.tiles), len(plane.tiles[0]), tiles]


def _level(error: float) -> int:
    """Return an error in units of the bar as one byte: 0 for none, else eight steps for a power of ten, from 1e-4."""
    if error == 0:
        return 0
    return 255 if math.isinf(error) else min(254, max(1, round(8 * (math.log10(error) + 4))))


def _sizes(sizes: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _chart(chart: Chart) -> dict[str, Any]:
    curves = [[visible(curve.name), [_number(value, 6) for value in curve.values]] for curve in chart.curves]
    return {"title": chart.title, "inBars": chart.in_bars, "differing": chart.differing, "curves": curves}


def _number(value: float | None, digits: int = DIGITS) -> float | str | None:
    """Return a number with as many digits, as a JSON value; infinities and NaN, which JSON lacks, as texts."""
    if value is None:
        return None
    if not math.isfinite(value):
        return str(float(value))
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e6 else rounded
