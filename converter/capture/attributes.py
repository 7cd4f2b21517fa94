"""Attributes and buffers that `forward` sets anew: what is captured is one call, and all is put back after it."""

from __future__ import annotations

import contextlib
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from ..warning import warn
from .kept_state import kept_tensors, newly_kept

PLAIN = (bool, int, float, str)


@contextlib.contextmanager
def changes_told(root: torch.nn.Module) -> Iterator[list[tuple[str, str]]]:
    """Within the context, a call of `root` that changes numbers or texts among modules' attributes is warned of.

    A counter of calls, say, is fixed in what is captured: a `ConversionWarning` names it. Likewise a buffer that the
    first call makes, or replaces by one of another shape. Attributes in which the call keeps tensors are put into the
    list, by path of the module and name. All attributes are put back.
    """
    kept: list[tuple[str, str]] = []
    tensors = kept_tensors(root)
    attributes = {module: held_attributes(module) for module in root.modules()}
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
        yield kept
    finally:
        handle.remove()
        for module, held in attributes.items():
            restore_attributes(module, held)
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


_HOLDERS = (dict, OrderedDict, list, deque)
# what belongs to every module, but for the hooks: a library that installs hooks at the first call notes that it did in
# an attribute, and would install them again if that alone were as before
_OF_EVERY_MODULE = frozenset(name for name in vars(torch.nn.Module()) if "forward" not in name)


def held_attributes(module: torch.nn.Module) -> dict[str, tuple[Any, Any]]:
    """A module's own attributes and forward hooks: each with what it holds now, if that is a container or an object."""
    own = {name: value for name, value in vars(module).items() if name not in _OF_EVERY_MODULE}
    return {name: (value, _held(value)) for name, value in own.items()}


def _held(value: Any) -> Any:
    if type(value) in _HOLDERS:
        return value.copy()
    return dict(vars(value)) if _is_plain_object(value) else None


def _is_plain_object(value: Any) -> bool:
    """Whether it is an object whose attributes are all that it is; no module, no function."""
    excluded = (torch.nn.Module, torch.Tensor, type, ModuleType, Mapping, list, tuple, deque)
    return type(getattr(value, "__dict__", None)) is dict and not callable(value) and not isinstance(value, excluded)


def restore_attributes(module: torch.nn.Module, before: Mapping[str, tuple[Any, Any]]) -> None:
    """Put the attributes of a module back to what `held_attributes` found."""
    for name in vars(module).keys() - _OF_EVERY_MODULE - before.keys():
        del vars(module)[name]
    for name, (value, held) in before.items():
        if isinstance(value, dict) and held is not None:
            value.clear()
            value.update(held)
        elif isinstance(held, dict):
            vars(value).clear()
            vars(value).update(held)
        elif held is not None:
            value.clear()
            value.extend(held)
        vars(module)[name] = value
