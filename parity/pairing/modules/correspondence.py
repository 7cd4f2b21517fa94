"""Which Cells and parameters of two torch modules were compared with one another, as names and the user say."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ...results.cell_report import CellReport, is_inside
from ...results.correspondence import GIVEN, NAME, ROOT, CarriedWeight, Correspondence, PairedCell
from .prefixes import Prefixes
from .rearranged import Rearrangements


def correspondence(
    candidate: torch.nn.Module, prefixes: Prefixes, rearrangements: Rearrangements, cells: Mapping[str, CellReport]
) -> Correspondence:
    """Return the pairs that were compared; differences in structure say what has no partner, or was set apart.

    Args:
        candidate: the candidate.
        prefixes: the reference's names for its Cells.
        rearrangements: the parameters that it has otherwise than under the same name.
        cells: the reports on the reference's Cells, by path.
    """
    modules = {prefixes.rename(path): (path, module) for path, module in candidate.named_modules()}
    pairs = []
    for path, cell in cells.items():
        if cell.comparisons and path in modules:
            own_path, module = modules[path]
            is_given = any(own_path == given or is_inside(own_path, given) for given in prefixes.given)
            how = GIVEN if is_given else NAME if path else ROOT
            pairs.append(PairedCell(path, cell.class_name, own_path, type(module).__name__, how))
    tensors = [name for name, _ in candidate.named_parameters(remove_duplicate=False)]
    tensors += [name for name, _ in candidate.named_buffers(remove_duplicate=False)]
    own_names = {prefixes.rename(name): name for name in tensors}
    parameters = [
        CarriedWeight(own_names[name], " and ".join(sorted(rearrangements.sources(name))), GIVEN)
        for name in rearrangements.arrangements
    ]
    return Correspondence.by_names(pairs, parameters)
