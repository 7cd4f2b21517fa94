"""Two networks that have nothing in common, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .cell_report import CellReport, is_inside
from .comparison import PASS, UNPAIRED
from .correspondence import ROOT, Correspondence, PairedCell
from .network_verdict import NOT_SAME, NetworkVerdict

FEWEST = 2
"""Cells that the reference must have inside: of one that has none, nothing can be missing."""
SHARE = 0.25
"""The largest share of them that may agree where nothing else has a partner."""
OF_PARAMETERS = frozenset({"parameter", "parameter gradient"})
"""Kinds of comparisons of a Cell that needn't run: its parameters are missing in the other network."""
RAISES = "it raises "
"""How the reason starts of a candidate that doesn't run."""


def nothing_in_common(
    sides: Sequence[str],
    cells: Mapping[str, CellReport],
    correspondence: Correspondence,
    verdict: NetworkVerdict,
) -> str:
    """Return in a sentence that two networks have nothing in common; empty if they have.

    That is so if the results differ, no Cell inside fails, and the reference's Cells have no partner, but perhaps a few
    that agree, and neither have the weights of the others. They were looked for by values, or the candidate doesn't
    run. A Cell around Cells of which none has a partner doesn't count: it is what lies between two places.

    Args:
        sides: names of the sides that are compared with the reference.
        cells: the reports by path.
        correspondence: how they were paired, and the weights that the candidate has of the reference.
        verdict: that on the networks as a whole.
    """
    alone = [path for path, cell in cells.items() if cell.presence == UNPAIRED]
    compared = [path for path, cell in cells.items() if path and cell.comparisons]
    around = {
        path
        for path in compared
        if any(is_inside(other, path) for other in alone) and not any(is_inside(other, path) for other in compared)
    }
    inside = [cells[path] for path in (*compared, *alone) if path not in around]
    agreeing = [cell.path for cell in inside if cell.comparisons]
    if len(sides) > 1 or len(inside) < FEWEST or verdict.verdict != NOT_SAME:
        return ""
    (side,) = sides
    raised = f"The two networks can't be compared: {side} {verdict.because.removeprefix('it ')}"
    kinds = {c.kind for path in agreeing for c in cells[path].comparisons}
    if verdict.because.startswith(RAISES) and not correspondence.cells and kinds <= OF_PARAMETERS:
        return f"{raised}, and none of its Cells has a counterpart by name"
    isolated = (c for path in agreeing for c in cells[path].comparisons if c.feeding == "isolated")
    if any(c.status != PASS for c in isolated) or len(agreeing) > SHARE * len(inside):
        return ""
    holders = {weight.source.partition(" and ")[0].rpartition(".")[0] for weight in correspondence.parameters}
    if not holders <= {*agreeing}:
        return ""
    if verdict.because.startswith(RAISES) and not agreeing:
        return f"{raised}, and none of its Cells has a counterpart by name"
    if not all(_is_by_values(pair) for pair in correspondence.cells) or not correspondence.cells:
        return ""
    common = " and ".join(["their inputs", ", ".join(agreeing)] if agreeing else ["their inputs"])
    missing = f"{len(inside) - len(agreeing)} of {len(inside)} Cells" if agreeing else f"none of {len(inside)} Cells"
    verb = "weren't found" if agreeing else "was found"
    return (
        f"The two networks have nothing in common but {common}: {missing} of the reference {verb} in {side}, which is "
        f"{NOT_SAME}, because {verdict.because}"
    )


def _is_by_values(pair: PairedCell) -> bool:
    """Whether a pair was found by values, or something was looked for by them."""
    return pair.how == ROOT or pair.is_by_values or not (pair.module_class and pair.cell_class)
