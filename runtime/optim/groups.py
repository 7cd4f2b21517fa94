"""Parameters as optimizers of `runtime.optim` take them."""

from __future__ import annotations

from typing import Any


def as_groups(params: Any) -> list[Any]:
    """Groups of Parameters, as `nn.Optimizer` takes them; of a bare list one, in which weight decay spares none."""
    listed = list(params)
    return listed if listed and all(isinstance(item, dict) for item in listed) else [{"params": listed}]
