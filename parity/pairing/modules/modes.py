"""Parts of two torch modules that are in train mode on one side alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ....converter.capture.modes import in_mode
from ....converter.structure.program_names import named_modules
from ...results.cell_report import CellReport
from ...results.structure import MODE, StructureDifference
from ...sides.reported_cells import owner


def mode_differences(
    reference: torch.nn.Module, candidate: torch.nn.Module, train: bool | None, cells: Mapping[str, CellReport]
) -> list[StructureDifference]:
    """Return the parts without parts of their own that run in another mode in the candidate than in the reference.

    Args:
        reference: the reference.
        candidate: the candidate, with the same paths.
        train: as for `in_mode`.
        cells: the reports on the Cells, by path.
    """
    reference_modes, candidate_modes = _modes(reference, train), _modes(candidate, train)
    differences = []
    for path in reference_modes:
        if path in candidate_modes and reference_modes[path] != candidate_modes[path]:
            reference_mode, candidate_mode = (
                "train" if mode else "eval" for mode in (reference_modes[path], candidate_modes[path])
            )
            around = path if path in cells and cells[path].calls else owner(path, cells)
            text = (
                f"{path or '(root)'} runs in {candidate_mode} mode in the candidate, "
                f"and in {reference_mode} mode in the reference"
            )
            differences.append(StructureDifference(MODE, path, around, text))
    return differences


def _modes(module: torch.nn.Module, train: bool | None) -> dict[str, bool]:
    """Whether each part without parts of its own is in train mode, by path."""
    with in_mode(module, train):
        return {
            path: part.training for path, _, part in named_modules(module) if not any(True for _ in part.children())
        }
