"""Which Cells and parameters of a recording were compared with the reference's, by names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ....runtime.visible import visible_name
from ...results.cell_report import CellReport
from ...results.correspondence import GIVEN, HABIT, NAME, ROOT, CarriedWeight, Correspondence, PairedCell
from .names import Match, NameMap
from .recorded_side import RecordedSide

UNKNOWN_CLASS = "Cell"
"""Stands for the class of a Cell of which a recording doesn't have it."""


def correspondence(
    side: RecordedSide, cells: Mapping[str, CellReport], compared: Collection[str], parameters: Collection[str]
) -> Correspondence:
    """Return the pairs that were compared.

    Args:
        side: the recording, with the names that the reference's Cells have there.
        cells: the reports on the reference's Cells, by path.
        compared: paths of the Cells that both have.
        parameters: names of the reference's parameters that were compared.
    """
    names = side.names if side.names is not None else NameMap()
    given = side.given_names if side.given_names is not None else NameMap()
    classes = {visible_name(call.cell): visible_name(call.class_name) for call in side.recording.index.calls}
    pairs = []
    for path, cell in cells.items():
        if path in compared:
            match = names.cell(path)
            name = visible_name(match.name)
            how = ROOT if not path else _way(path, match, given.cell(path))
            layout = "another layout" if match.outputs.transpose else ""
            class_name = classes.get(name) or UNKNOWN_CLASS
            pairs.append(PairedCell(path, cell.class_name, name, class_name, how, is_part=match.is_part, layout=layout))
    matches = {name: names.parameter(name) for name in parameters}
    carried = [
        CarriedWeight(visible_name(match.name), name, _way(name, match, given.parameter(name)), _layout(match))
        for name, match in matches.items()
        if match.name != name or _layout(match)
    ]
    return Correspondence.by_names(pairs, carried)


def _way(name: str, match: Match, given: Match) -> str:
    """Return how a name was found: a map of the user's that says nothing of it returns the name itself."""
    if match.name == name:
        return NAME
    return GIVEN if match.name == given.name else HABIT


def _layout(match: Match) -> str:
    """Return how the recording's tensor has the reference's, in words."""
    words = ("a part" if match.outputs.index else "", "transposed" if match.outputs.transpose else "")
    return ", ".join(filter(None, words))
