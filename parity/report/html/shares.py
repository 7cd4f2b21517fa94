"""The table of the shares that Cells have in the error of the network."""

from __future__ import annotations

from collections.abc import Sequence

from ...results.error_shares import ErrorShares
from ..detail import pluralize
from .page import SHARE_WIDTH, ShareLine, SharesTable, link_to

MOST = 10  # Cells that are listed
LEAST = 1e-3  # of the largest share; smaller ones are added up


def shares_table(shares: ErrorShares, paths: Sequence[str]) -> SharesTable:
    """Return the table of a side's shares; `paths` are those of the Cells that have a row."""
    ordered = sorted(shares.cells.items(), key=lambda item: -abs(item[1]))
    scale = max(abs(value) for _, value in [*ordered, ("", shares.unexplained)])
    shown = [(path, value) for path, value in ordered[:MOST] if abs(value) >= LEAST * scale]
    rest = [value for _, value in ordered[len(shown) :]]
    with_row = set(paths)
    values = [(path or "(root)", value, link_to(path or "(root)") if path in with_row else "") for path, value in shown]
    if rest:
        values.append((pluralize(len(rest), "other Cell"), sum(rest), ""))
    values.append(("not explained to first order", shares.unexplained, ""))
    sizes = sum(abs(value) for _, value, _ in values)

    def line(name: str, value: float, link: str) -> ShareLine:
        adds = value * shares.total >= 0
        part = round(abs(value) / sizes, 3) if sizes else 0.0
        percent = f"{part if adds or not part else -part:.1%}"
        width = SHARE_WIDTH * abs(value) / scale if scale else 0.0
        return ShareLine(name, link, f"{value:.3g}", percent, round(width, 1), adds)

    lines = [line(*value) for value in values]
    what = "to first order in the outputs, the loss" if shares.loss else "the sum of outputs times random cotangents"
    return SharesTable(shares.side, f"{what} is off by {shares.total:.3g}", lines)
