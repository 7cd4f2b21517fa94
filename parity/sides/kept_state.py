"""What a network keeps from one call to the next: attributes of its modules or Cells and of their classes, and buffers.

It can be put back to what it was before, to see whether that is why later calls differ.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ...converter.capture.holders import MAX_DEPTH, OF_EVERY_MODULE, custom_classes, is_plain_object, is_special
from ...runtime.common.tensor import Tensor, from_array
from ...runtime.nn.cell import Cell

_ABSENT = object()
_OF_EVERY_CELL = frozenset(vars(Cell()))


class StateName(NamedTuple):
    """An attribute, buffer or Parameter of the module or Cell at a path."""

    path: str
    name: str


class _Place(NamedTuple):
    """Where a value is: under a name in a dictionary, or in a class."""

    holder: Any
    name: str

    def read(self) -> Any:
        names = vars(self.holder) if isinstance(self.holder, type) else self.holder
        return names.get(self.name, _ABSENT)

    def write(self, value: Any) -> None:
        if isinstance(self.holder, type) and value is _ABSENT:
            delattr(self.holder, self.name)
        elif isinstance(self.holder, type):
            setattr(self.holder, self.name, value)
        elif value is _ABSENT:
            self.holder.pop(self.name, None)
        else:
            self.holder[self.name] = value


class KeptState:
    """A copy of the state of a network, by which changes are found and undone.

    Args:
        owners: the modules or Cells of the network, by path.
    """

    def __init__(self, owners: Iterable[tuple[str, Any]]) -> None:
        self._owners = list(owners)
        self._copies = {name: _copy(location.read()) for name, location in self._places().items()}

    def changed(self) -> dict[StateName, int | float | None]:
        """Return what has changed since, with its value now if that is a number."""
        changes: dict[StateName, int | float | None] = {}
        for name, location in self._places().items():
            now = location.read()
            if not _equal(self._copies.get(name, _ABSENT), now):
                changes[name] = now if isinstance(now, (int, float)) else None
        return changes

    def restore(self, names: Collection[StateName]) -> None:
        """Put names back to what they were; those that are unknown are left alone."""
        places = self._places()
        for name in names:
            if name in places:
                places[name].write(_copy(self._copies.get(name, _ABSENT)))

    def _places(self) -> dict[StateName, _Place]:
        locations: dict[StateName, _Place] = {}
        for path, owner in self._owners:
            for kind in custom_classes(type(owner)):
                names = [name for name, value in vars(kind).items() if _is_data(name, value)]
                locations |= {StateName(path, name): _Place(kind, name) for name in names}
            excluded = OF_EVERY_MODULE if isinstance(owner, torch.nn.Module) else _OF_EVERY_CELL
            own_names = [name for name, value in vars(owner).items() if name not in excluded and _is_data(name, value)]
            locations |= {StateName(path, name): _Place(vars(owner), name) for name in own_names}
            if isinstance(owner, torch.nn.Module):
                locations |= {StateName(path, name): _Place(owner._buffers, name) for name in owner._buffers}
            elif isinstance(owner, Cell):
                locations |= {StateName(path, name): _Place(vars(p), "_array") for name, p in owner._params.items()}
        return locations


def _is_data(name: str, value: Any) -> bool:
    return not is_special(name) and not callable(value) and not isinstance(value, (property, classmethod, staticmethod))


def _copy(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a copy of a value, with its tensors and containers; modules, Cells and Parameters stay the same."""
    if isinstance(value, torch.Tensor):
        return value if isinstance(value, torch.nn.Parameter) else value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Tensor):
        return from_array(value.asnumpy().copy()) if type(value) is Tensor else value
    if not depth:
        return value
    if type(value) in (list, tuple, set, frozenset, deque):
        return type(value)(_copy(item, depth - 1) for item in value)
    if isinstance(value, dict):
        result = copy.copy(value)
        result.update({key: _copy(item, depth - 1) for key, item in value.items()})
        return result
    if is_plain_object(value):
        result = copy.copy(value)
        vars(result).update({name: _copy(item, depth - 1) for name, item in vars(value).items()})
        return result
    return value


def _equal(before: Any, now: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether a value is as it was: tensors by their elements, containers and objects by their parts."""
    if type(before) is not type(now):
        return False
    if isinstance(now, torch.Tensor):
        same = before.shape == now.shape and before.dtype == now.dtype
        return before is now or (same and bool(torch.equal(before, now)))
    if isinstance(now, Tensor):
        return before is now or _equal(before.asnumpy(), now.asnumpy())
    if isinstance(now, np.ndarray):
        return np.array_equal(before, now)
    if isinstance(now, (bool, int, float, str)):
        return bool(before == now)
    if not depth:
        return before is now
    if isinstance(now, (list, tuple, deque)):
        return len(before) == len(now) and all(_equal(a, b, depth - 1) for a, b in zip(before, now, strict=True))
    if isinstance(now, (set, frozenset)):
        return bool(before == now)
    if isinstance(now, Mapping):
        return before.keys() == now.keys() and all(_equal(before[key], now[key], depth - 1) for key in now)
    if is_plain_object(now):
        return _equal(vars(before), vars(now), depth - 1)
    return before is now
