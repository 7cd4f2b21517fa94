"""Tensors in nested tuples, lists and dicts: what functions and Cells take and return."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .tensor import Tensor


def leaves(structure: Any) -> list[Any]:
    """What is in nested tuples, lists and dicts, in order; anything else is a leaf itself."""
    found: list[Any] = []
    _collect(structure, found)
    return found


def _collect(structure: Any, found: list[Any]) -> None:
    if isinstance(structure, (tuple, list)):
        for item in structure:
            _collect(item, found)
    elif isinstance(structure, dict):
        for item in structure.values():
            _collect(item, found)
    else:
        found.append(structure)


def tensors_in(structure: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dicts, in order."""
    return (leaf for leaf in leaves(structure) if isinstance(leaf, Tensor))


def mapped(structure: Any, function: Callable[[Any], Any]) -> Any:
    """The same nested tuples, lists and dicts with `function(leaf)` in place of each leaf, in order."""
    if isinstance(structure, dict):
        return refilled(structure, [mapped(item, function) for item in structure.values()])
    if isinstance(structure, (tuple, list)):
        return refilled(structure, [mapped(item, function) for item in structure])
    return function(structure)


def refilled(container: Any, items: list[Any]) -> Any:
    """A tuple, list or dict of the same class, and with the same keys and attributes, that holds `items`."""
    made = type(container)
    if isinstance(container, defaultdict):
        return made(container.default_factory, zip(container, items, strict=True))
    if isinstance(container, dict):
        return made(dict(zip(container, items, strict=True)))  # of pairs, a Counter would count them
    if isinstance(container, list) and made is not list:
        copied = copy.copy(container)
        copied[:] = items
        return copied
    if hasattr(container, "refilled"):  # a ParameterTuple
        return container.refilled(items)
    return made(*items) if hasattr(container, "_fields") else made(items)


def with_tensors(structure: Any, tensors: Iterator[Any]) -> Any:
    """The same nested tuples, lists and dicts with the next of `tensors` in place of each tensor."""
    return mapped(structure, lambda leaf: next(tensors) if isinstance(leaf, Tensor) else leaf)


def is_alike(a: Any, b: Any) -> bool:
    """Whether nested tuples, lists and dicts hold the very same leaves, in the same places."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(is_alike(item, b[key]) for key, item in a.items())
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(is_alike, a, b))
    return a is b
