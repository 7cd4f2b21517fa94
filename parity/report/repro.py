"""Writes a folder with a minimal reproduction of each fault of a report."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from ...runtime.errors import CellbridgeError
from ..results.cell_report import CellReport
from ..results.network_result import NetworkResult
from ..support.files import new_folder
from .detail import group_by_fault

LONGEST_NAME = 40
TRIES = 3
"""Of the Cells with the same fault, so many are tried."""
MOST = 20
"""The most faults that are reproduced: each takes seconds."""


@dataclass
class Reproductions:
    """What was written.

    Attributes:
        folders: the names of the folders inside the given one, by the path of the Cell that each reproduces.
        missing: why there is no reproduction, by the path of the Cell.
        notes: that the search for a smaller one was cut, by the path of the Cell.
    """

    folders: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def write(report: NetworkResult, path: str | PathLike[str]) -> Reproductions:
    """Write a folder that has a folder for each fault; nothing if no fault can be reproduced.

    Cells with the same fault are represented by the one with the largest error that can be reproduced.

    Raises:
        UsageError: the folder is there and not empty, or can't be written.
    """
    reproductions = Reproductions()
    groups = group_by_fault(report, [report.cells[path] for path in report.failing])
    with new_folder(path) as folder:
        for group in groups[MOST:]:
            reproductions.missing[group[0].path] = f"only {MOST} faults are reproduced"
        for group in groups[:MOST]:
            reasons: dict[str, str] = {}
            for cell in group[:TRIES]:
                name = folder_name(len(reproductions.folders) + 1, cell.path)
                reason, note = _write(report, cell, folder / name)
                if not reason:
                    reproductions.folders[cell.path] = name
                    reproductions.notes |= {cell.path: note} if note else {}
                    break
                reasons[cell.path] = reason
            else:
                reproductions.missing[group[0].path] = reasons[group[0].path]
    return reproductions


def _write(report: NetworkResult, cell: CellReport, folder: Path) -> tuple[str, str]:
    """Write the reproduction of a Cell to a new folder; return why there is none, or an empty text, and a note."""
    reason = _why_nothing_is_kept(report, cell)
    for reproducible in [reproducible for reproducible in report.reproducible if reproducible.path == cell.path]:
        folder.mkdir()
        try:
            return "", reproducible.write(folder, cell)
        except CellbridgeError as error:
            folder.rmdir()
            reason = f"{error}".partition("\n")[0]
    return reason, ""


def _why_nothing_is_kept(report: NetworkResult, cell: CellReport) -> str:
    if cell.wrong_side:
        return f"the gradients of {cell.wrong_side} aren't the derivative of its program"
    if any(c.kind == "call" for c in cell.failures):
        return "a call of it raises, or differs in more than numbers"
    if not any(c.feeding == "isolated" for c in cell.failures):
        return "it fails end to end only"
    if not any((c.check, c.feeding) == ("meaning", "isolated") for c in cell.failures):
        return "it fails by rounding alone"
    return "its program can't be taken out of the network, or causes weren't looked for"


def folder_name(number: int, path: str) -> str:
    """Return the name of the folder of a Cell: a number, which makes it unique, and the letters of its path."""
    letters = re.sub("[^A-Za-z0-9]+", "_", path).strip("_")[:LONGEST_NAME].strip("_")
    return f"{number}_{letters or 'root'}"
