"""The lines on differences in structure: Cells that aren't compared one by one, parameters of one side."""

from __future__ import annotations

from rich.text import Text

from ..results.network_result import NetworkResult
from .layout import paragraph

SHOWN = 8  # differences that are listed


def structure_lines(report: NetworkResult, width: int) -> list[Text]:
    """Return a line for each difference in structure; the first of them if there are many."""
    texts = [difference.text for difference in report.structure]
    lines = [line for text in texts[:SHOWN] for line in paragraph(f"structure: {text}", width, 2, "yellow")]
    if len(texts) > SHOWN:
        lines.append(Text(f"  structure: and {len(texts) - SHOWN} more (--json writes them)", "yellow"))
    return lines
