"""The report's note on parts of a module that have another mode than the run."""

from __future__ import annotations

import torch

from ...converter.capture.modes import parts_in_other_mode

MAX_NAMES = 12


def mode_notes(module: torch.nn.Module, train: bool | None) -> list[str]:
    """Return a note that names the parts whose mode differs from that of the run, or that `train=False` changes.

    Args:
        module: the module as it is given.
        train: as for `in_mode`.
    """
    if train:
        text = "in eval mode, as set in the module, while the others are in train mode"
    elif train is None:
        text = "in train mode, as set in the module, while the others are in eval mode"
    else:
        text = "put into eval mode, though in train mode in the given module, while the others are in eval mode"
    paths = parts_in_other_mode(module, train or None)
    more = f" and {len(paths) - MAX_NAMES} more" if len(paths) > MAX_NAMES else ""
    return [f"{text}: {', '.join(paths[:MAX_NAMES])}{more}"] if paths else []
