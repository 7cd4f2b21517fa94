"""The API differences between torch and Cells: a table, and a search for the entries that apply to a pair.

`table.py` joins the entries, which are in one file per family of layers; `explain.py` finds those that apply; `page.py`
writes the table as documentation, `docs/differences.md`.
"""

from __future__ import annotations

from .explain import explain, explain_optimizer

__all__ = ["explain", "explain_optimizer"]
