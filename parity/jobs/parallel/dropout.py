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
    return {path: dropout for path, dropout in module.named_modules() if isinstance(dropout, kind) and dropout.p > 0}


def record_dropped(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path) -> None:
    """Run a network in train mode, and write digests of which elements its Cells dropped."""
    digests: dict[str, str] = {}

    def watch(name: str) -> Any:
        def after(_: nn.Module, inputs: tuple[torch.Tensor, ...], result: torch.Tensor) -> None:
            dropped = (result == 0) & (inputs[0] != 0)
            if result.numel() >= LEAST and dropped.any():
                digests[name] = hashlib.sha256(dropped.numpy().tobytes()).hexdigest()

        return after

    inner = dropouts(module)
    handles = [
        dropout.train().register_forward_hook(watch(name.removeprefix("module."))) for name, dropout in inner.items()
    ]
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    finally:
        for handle, dropout in zip(handles, inner.values(), strict=True):
            handle.remove()
            dropout.eval()
    path.write_text(json.dumps(digests), encoding="utf-8")


def alike(paths: list[Path], side: str) -> Iterator[tuple[str, Comparison]]:
    """Yield a failure, with the path of its Cell, for each Cell that dropped the same elements in all processes."""
    by_process = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for name, digest in by_process[0].items():
        if all(digests.get(name) == digest for digests in by_process):
            yield name, Comparison(side, "rounding", "isolated", "output", "result", 0, FAIL, ALIKE)
