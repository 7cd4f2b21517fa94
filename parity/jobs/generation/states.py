"""States, whose tensors are compared, and passed to programs one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

Rebuild = Callable[[Sequence[Any]], Any]
"""Returns a state with other leaves."""


def flatten(state: Any) -> tuple[dict[str, Any], Rebuild]:
    """Return the leaves of a state by their places in it, and what makes such a state of other leaves.

    A cache of transformers has keys and values in its layers.
    """
    if hasattr(state, "layers") and hasattr(state, "update"):
        leaves: dict[str, Any] = {}
        for number, layer in enumerate(state.layers):
            leaves |= {f".layers[{number}].keys": layer.keys, f".layers[{number}].values": layer.values}
        kind = type(state)

        def rebuild(values: Sequence[Any]) -> Any:
            cache = kind()
            for number in range(len(values) // 2):
                cache.update(values[2 * number], values[2 * number + 1], number)
            return cache

        return leaves, rebuild
    pairs, spec = pytree.tree_flatten_with_path(state)
    return {pytree.keystr(path): leaf for path, leaf in pairs}, lambda values: pytree.tree_unflatten(values, spec)


def tensors(state: Any) -> dict[str, torch.Tensor]:
    """Return the floating-point tensors of a state, by their places in it."""
    leaves, _ = flatten(state)
    return {
        name: leaf.detach()
        for name, leaf in leaves.items()
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    }
