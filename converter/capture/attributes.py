"""Attributes and buffers that `forward` sets anew: what is captured is one call, and all is put back after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from ..warning import warn
from .holders import Place, unchanged
from .kept_state import kept_tensors, newly_kept

PLAIN = (bool, int, float, str)


@contextlib.contextmanager
def changes_told(root: torch.nn.Module) -> Iterator[list[Place]]:
    """Within the context, a call of `root` that changes numbers or texts among modules' attributes is warned of.

    A counter of calls, say, is fixed in what is captured: a `ConversionWarning` names it. Likewise a buffer that the
    first call makes, or replaces by one of another shape. The places in which the call keeps tensors are put into the
    list. What is in all places is put back.
    """
    kept: list[Place] = []
    tensors = kept_tensors(root)
    before = {path: _plain(module) for path, module in root.named_modules()}
    shapes = {path: _shapes(module) for path, module in root.named_modules()}
    changed: list[str] = []
    replaced: list[str] = []

    def compare(module: torch.nn.Module, args: Any, result: Any) -> None:
        kept[:] = newly_kept(tensors, kept_tensors(root))
        for path, inner in root.named_modules():
            after = _plain(inner)
            for name, value in before.get(path, {}).items():
                if name in after and after[name] != value:
                    changed.append(f"{f'{path}.' if path else ''}{name} (from {value!r} to {after[name]!r})")
            for name, shape in _shapes(inner).items():
                if shapes.get(path, {}).get(name, shape) != shape:
                    replaced.append(f"{f'{path}.' if path else ''}{name} (of shape {list(shape)})")

    handle = root.register_forward_hook(compare)
    try:
        with unchanged(root):
            yield kept
    finally:
        handle.remove()
    if changed:
        warn(f"forward changes attributes of modules, {', '.join(changed)}: the program is what the first call does")
    if replaced:
        warn(
            f"forward replaces buffers, {', '.join(replaced)}: call the module once before it is converted, "
            "so that it holds them already"
        )


def _shapes(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of the buffers that a module holds, () for one that isn't there yet."""
    return {name: () if x is None else tuple(x.shape) for name, x in module._buffers.items()}


def _plain(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if isinstance(value, PLAIN)}
