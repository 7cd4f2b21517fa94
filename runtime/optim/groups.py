"""The parameter groups of the optimizers in `runtime.optim`."""

from __future__ import annotations

from typing import Any


def as_groups(params: Any) -> list[Any]:
    """Return groups for `nn.Optimizer`; a plain list of Parameters is one group, with weight decay for all of them."""
    items = list(params)
    return items if items and all(isinstance(item, dict) for item in items) else [{"params": items}]
