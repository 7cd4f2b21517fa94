"""The report's note on Cells that stay in eval mode."""

from __future__ import annotations

import torch

from ...converter.capture.modes import modules_in_eval_mode

MAX_NAMES = 12


def eval_mode_notes(module: torch.nn.Module, train: bool) -> list[str]:
    """Return a note that names the Cells that stay in eval mode in a run in train mode, if there are any."""
    paths = modules_in_eval_mode(module) if train else []
    if not paths:
        return []
    more = f" and {len(paths) - MAX_NAMES} more" if len(paths) > MAX_NAMES else ""
    return [
        f"in eval mode, as set in the module, while the others are in train mode: {', '.join(paths[:MAX_NAMES])}{more}"
    ]
