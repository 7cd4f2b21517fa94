"""Attributes and buffers that `forward` changes: one call is captured, and all of them are restored after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from ..warning import warn
from .holders import Place, preserve_state
from .unregistered_state import new_places, unregistered_tensors

PLAIN_TYPES = (bool, int, float, str)


@contextlib.contextmanager
def warn_about_changes(root: torch.nn.Module) -> Iterator[list[Place]]:
    """Within the context, warn about a call of `root` that changes numbers or strings among modules' attributes.

    Such an attribute (for example a counter of calls) is constant in the captured program: a `ConversionWarning` names
    it. A `ConversionWarning` also names each buffer that the first call creates or replaces by one of another shape.
    The list receives the places in which the call keeps tensors. The contents of all places are restored at the end.
    """
    state_places: list[Place] = []
    tensors = unregistered_tensors(root)
    before = {path: _plain_attributes(module) for path, module in root.named_modules()}
    shapes = {path: _buffer_shapes(module) for path, module in root.named_modules()}
    changed: list[str] = []
    replaced: list[str] = []

    def compare(module: torch.nn.Module, args: Any, result: Any) -> None:
        state_places[:] = new_places(tensors, unregistered_tensors(root))
        for path, inner in root.named_modules():
            after = _plain_attributes(inner)
            for name, value in before.get(path, {}).items():
                if name in after and after[name] != value:
                    changed.append(f"{f'{path}.' if path else ''}{name} (from {value!r} to {after[name]!r})")
            for name, shape in _buffer_shapes(inner).items():
                if shapes.get(path, {}).get(name, shape) != shape:
                    replaced.append(f"{f'{path}.' if path else ''}{name} (of shape {list(shape)})")

    handle = root.register_forward_hook(compare)
    try:
        with preserve_state(root):
            yield state_places
    finally:
        handle.remove()
    if changed:
        warn(f"forward changes attributes of modules, {', '.join(changed)}: the program repeats the first call")
    if replaced:
        warn(
            f"forward replaces buffers, {', '.join(replaced)}: call the module once before it is converted, "
            "so that these buffers already have their final shape"
        )


def _buffer_shapes(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of the buffers of a module, () for a buffer that is still None."""
    return {name: () if x is None else tuple(x.shape) for name, x in module._buffers.items()}


def _plain_attributes(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if isinstance(value, PLAIN_TYPES)}
