"""What a notebook shows of a report: its page in a frame, and its comparisons as a table of pandas."""

from __future__ import annotations

from dataclasses import asdict, replace
from html import escape
from typing import TYPE_CHECKING

from ...runtime.errors import UsageError
from ..results.network_result import NetworkResult
from .html.page import Page
from .html.writer import to_html

if TYPE_CHECKING:
    import pandas

HEIGHT = 640  # pixels


def in_frame(page: Page) -> str:
    """Return the page as HTML for a notebook's cell; its script runs in the frame and can't reach the notebook."""
    style = f"width: 100%; height: {HEIGHT}px; border: 0"
    return f'<iframe sandbox="allow-scripts" title="parity" style="{style}" srcdoc="{escape(to_html(page))}"></iframe>'


def table(report: NetworkResult) -> pandas.DataFrame:
    """Return a row for each comparison of each Cell, with the Cell's `path`, `class_name` and `verdict`.

    Raises:
        UsageError: pandas isn't installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise UsageError(
            "to_frame() needs pandas: pip install pandas; to_dict() has the same as JSON values"
        ) from error
    verdicts = report.verdicts
    rows = [
        {"path": path, "class_name": cell.class_name, "verdict": verdicts[path]}
        | asdict(replace(comparison, error_map=None))
        for path, cell in report.cells.items()
        for comparison in cell.comparisons
    ]
    return pandas.DataFrame(rows).drop(columns="error_map")
