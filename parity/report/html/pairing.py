"""The tables of what was paired how: Cells, and parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...results.comparison import PASSED_ON, UNPAIRED
from ...results.correspondence import PairedCell
from ...results.network_result import NetworkResult
from ..detail import pluralize
from ..hunks import cell_of_pair, way_in_words
from .page import link_to
from .side_by_side import PairingTable, PairLine

MOST = 1000  # lines of each table
ALONE = {PASSED_ON: "passed on", UNPAIRED: "unpaired"}


def pairing_table(report: NetworkResult) -> PairingTable | None:
    """Return the tables; None where all Cells are paired by their paths."""
    pairs = report.correspondence
    if not pairs.cells:
        return None
    cells = [_line(pair, report) for pair in pairs.cells]
    cells += [
        PairLine(path, link_to(path), cell.class_name, "", "", ALONE[cell.presence])
        for path, cell in report.cells.items()
        if cell.presence in ALONE and pairs.pair_of(path) is None
    ]
    parameters = [PairLine(w.source, "", "", w.parameter, "", way_in_words(w)) for w in pairs.parameters]
    summary = f"{pluralize(len(cells), 'Cell')} ({_counts(cells)})"
    if parameters:
        summary += f", {pluralize(len(parameters), 'parameter')} ({_counts(parameters)})"
    left_out = sum(max(0, len(lines) - MOST) for lines in (cells, parameters))
    return PairingTable(summary, cells[:MOST], parameters[:MOST], left_out)


def _counts(lines: Sequence[PairLine]) -> str:
    return ", ".join(f"{count} {way}" for way, count in Counter(line.how for line in lines).most_common())


def _line(pair: PairedCell, report: NetworkResult) -> PairLine:
    name = pair.module or "(root)" if pair.module_class else ""
    link = link_to(name) if pair.module in report.cells and pair.module_class else ""
    how = way_in_words(pair) if pair.module_class and pair.cell_class else "no partner"
    partner = cell_of_pair(pair) if pair.cell_class else ""
    return PairLine(
        name, link, pair.module_class, partner, pair.cell_class, f"{how}; {pair.apart}" if pair.apart else how
    )
