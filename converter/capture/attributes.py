"""Attributes and buffers that `forward` sets anew: what is captured is one call, and torch puts them back."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from ...runtime.errors import ConversionWarning

PLAIN = (bool, int, float, str)


@contextlib.contextmanager
def changes_told(root: torch.nn.Module) -> Iterator[None]:
    """Within the context, a call of `root` that changes numbers or texts among modules' attributes is warned of.

    A counter of calls, say, is fixed in what is captured: a `ConversionWarning` names it. Likewise a buffer that the
    first call makes, or replaces by one of another shape.
    """
    before = {path: _plain(module) for path, module in root.named_modules()}
    shapes = {path: _shapes(module) for path, module in root.named_modules()}
    changed: list[str] = []
    replaced: list[str] = []

    def compare(module: torch.nn.Module, args: Any, result: Any) -> None:
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
        yield
    finally:
        handle.remove()
    if changed:
        warnings.warn(
            f"forward changes attributes of modules, {', '.join(changed)}: the program is what the first call does",
            ConversionWarning,
            stacklevel=5,
        )
    if replaced:
        warnings.warn(
            f"forward replaces buffers, {', '.join(replaced)}: call the module once before it is converted, "
            "so that it holds them already",
            ConversionWarning,
            stacklevel=5,
        )


def _shapes(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of the buffers that a module holds, () for one that isn't there yet."""
    return {name: () if x is None else tuple(x.shape) for name, x in module._buffers.items()}


def _plain(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if isinstance(value, PLAIN)}
