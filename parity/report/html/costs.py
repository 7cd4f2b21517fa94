"""The tables of what 8 bits cost: by Cells, and of the files that were tried."""

from __future__ import annotations

from collections.abc import Container

from ...results.quantization_costs import Mixture, QuantizationCosts
from ..detail import pluralize
from ..globs import list_names
from .page import SHARE_WIDTH, CostLine, CostsTable, FileLine, link_to

MOST = 30  # Cells that are listed


def costs_table(costs: QuantizationCosts, paths: Container[str]) -> CostsTable:
    """Return the tables; `paths` are those of the Cells that have a row on the page."""
    squares = costs.squares
    shown = [cell for cell in costs.cells if cell.errors.outputs][:MOST]
    widest = shown[0].errors.outputs if shown else 1.0
    lines = [
        CostLine(
            cell.path or "(root)",
            link_to(cell.path or "(root)") if cell.path in paths else "",
            f"{cell.errors.outputs:.2%}",
            f"{cell.errors.outputs**2 / squares:.1%}",
            _loss(cell.errors.loss),
            f"{cell.weights:,}",
            round(SHARE_WIDTH * cell.errors.outputs / widest, 1),
        )
        for cell in shown
    ]
    left_out = len(costs.cells) - len(shown)
    more = f"; {pluralize(left_out, 'Cell')} that cost less or nothing aren't listed" if left_out else ""
    on = pluralize(costs.samples, "sample")
    caption = (
        f"Errors with one Cell in 8 bits, relative to the norm of the outputs, on {on}, and shares of their squares; "
        f"together {squares**0.5:.2%} if the errors are independent{more}."
    )
    files = [FileLine("float32", "", _size(costs.float_size), _time(costs.float_seconds), "", "", "", chosen=False)]
    files += [_file(mixture, costs, chosen=mixture is costs.files[-1]) for mixture in costs.files]
    return CostsTable(costs.bits, caption, lines, files)


def _file(mixture: Mixture, costs: QuantizationCosts, *, chosen: bool) -> FileLine:
    name = (
        f"{len(mixture.kept)} of {len(costs.cells)} Cells in float32"
        if mixture.kept
        else f"all Cells in {costs.bits} bits"
    )
    kept = f"in float32: {list_names([path or '(root)' for path in mixture.kept])}" if mixture.kept else ""
    errors = mixture.errors
    return FileLine(
        name, kept, _size(mixture.size), _time(mixture.seconds), f"{errors.outputs:.2%}", f"{errors.top1:.2%}",
        _loss(errors.loss), chosen,
    )  # fmt: skip


def _loss(change: float | None) -> str:
    return "" if change is None else f"{change:+.2%}"


def _size(size: int) -> str:
    return f"{size / 1e6:.3g}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"
