"""Dropout on several processes: parts of a batch must not lose the same elements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...results.comparison import FAIL, Comparison

LEAST = 16
"""The fewest elements of which it isn't chance that processes drop the same."""

ALIKE = (
    "each process drops the same elements of its part of the batch: their random numbers are alike; seed them by rank, "
    "in parallelize() as in the training script"
)


def dropouts(module: nn.Module) -> dict[str, nn.Module]:
    """Return the Cells that drop elements, by path."""
    kind = nn.modules.dropout._DropoutNd
    return {path: one for path, one in module.named_modules() if isinstance(one, kind) and one.p > 0}


def record_dropped(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path) -> None:
    """Run a network in train mode, and write digests of which elements its Cells dropped."""
    found: dict[str, str] = {}

    def watch(name: str) -> Any:
        def after(_: nn.Module, given: tuple[torch.Tensor, ...], result: torch.Tensor) -> None:
            dropped = (result == 0) & (given[0] != 0)
            if result.numel() >= LEAST and dropped.any():
                found[name] = hashlib.sha256(dropped.numpy().tobytes()).hexdigest()

        return after

    inner = dropouts(module)
    handles = [one.train().register_forward_hook(watch(name.removeprefix("module."))) for name, one in inner.items()]
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    finally:
        for handle, one in zip(handles, inner.values(), strict=True):
            handle.remove()
            one.eval()
    path.write_text(json.dumps(found), encoding="utf-8")


def alike(paths: list[Path], side: str) -> Iterator[tuple[str, Comparison]]:
    """Yield a failure, with the path of its Cell, for each Cell that dropped the same elements in all processes."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for name, digest in found[0].items():
        if all(one.get(name) == digest for one in found):
            yield name, Comparison(side, "rounding", "isolated", "output", "result", 0, FAIL, ALIKE)
