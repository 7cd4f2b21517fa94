"""Snapshots of the objects that existed before tracing, which traced Python must not change."""

from __future__ import annotations

import argparse
import functools
import operator
import random
import sys
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..common.tensor import Tensor
from ..nn.cell import Cell
from ..tree import leaves
from .sources import ROOM, is_library_code
from .variables import Variables

MAX_DEPTH = 4  # levels of nested containers and objects that are recorded
MAX_ELEMENTS = 10_000  # the largest container or array that is recorded

INTERNAL_ATTRIBUTES = frozenset({"_cells", "_compiled", "_forward_run", "_params"})
"""Attributes that the runtime itself may change; the contents of `_cells` and `_params` are recorded separately."""
_CONTAINERS = (dict, list, set, deque)
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
_METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_WITHOUT_STATE = (type, types.ModuleType, types.FunctionType, types.MethodType, Cell, Tensor, np.generic)


@dataclass(frozen=True)
class Snapshot:
    """A container and a copy of its contents before tracing.

    Attributes:
        name: its name in messages, e.g. `history of Net`.
        container: the container, or the `__dict__` of a Cell or another object.
        before: the copy.
        is_state: whether the container is the `__dict__` of an object.
    """

    name: str
    container: Any
    before: Any
    is_state: bool = False

    @cached_property
    def was_empty(self) -> bool:
        """Whether the container was empty, as most containers of hooks are."""
        return isinstance(self.before, _CONTAINERS) and not self.before

    def change(self) -> str | None:
        """Return the name of the changed object or attribute; None if nothing has changed."""
        now, before = self.container, self.before
        if isinstance(now, np.ndarray):
            same = now.shape == before.shape and now.tobytes() == before.tobytes()
            return None if same else self.name
        if not isinstance(now, dict):
            return None if len(now) == len(before) and all(map(is_same, now, before)) else self.name
        if now.keys() == before.keys() and all(map(operator.is_, now.values(), before.values())):
            return None  # the fast path
        for key in dict.fromkeys((*before, *now)):
            if self.is_state and key in INTERNAL_ATTRIBUTES:
                continue
            if key not in now or key not in before or not is_same(now[key], before[key]):
                return f"{key} of {self.name}" if self.is_state else self.name
        return None

    def restore(self) -> None:
        """Restore the contents."""
        if isinstance(self.container, np.ndarray):
            if self.container.flags.writeable:
                self.container[...] = self.before
            return
        keys = INTERNAL_ATTRIBUTES & self.container.keys() if self.is_state else ()
        internal = {key: self.container[key] for key in keys}
        self.container.clear()
        if isinstance(self.container, (dict, set)):
            self.container.update(self.before)
            self.container.update(internal)
        else:
            self.container.extend(self.before)


@dataclass(frozen=True)
class AttributesSnapshot:
    """A class or an object with slots, and its attributes before tracing; used like `Snapshot`."""

    name: str
    owner: Any
    before: dict[str, Any]
    container = None
    was_empty = False

    def change(self) -> str | None:
        """Return the name of the changed attribute; None if nothing has changed."""
        now, before = _attributes(self.owner), self.before
        for key in dict.fromkeys((*before, *now)):
            if key not in now or key not in before or not is_same(now[key], before[key]):
                return f"{key} of {self.name}"
        return None

    def restore(self) -> None:
        """Restore the attributes."""
        set_, delete = (setattr, delattr) if isinstance(self.owner, type) else (object.__setattr__, object.__delattr__)
        now = _attributes(self.owner)
        for key in now.keys() - self.before.keys():
            delete(self.owner, key)
        for key, value in self.before.items():
            if now.get(key, self) is not value:
                set_(self.owner, key, value)


class Objects:
    """Snapshots of the contents of Cells and variables, and of the containers and objects in them.

    Attributes:
        tensors: the names of plain tensors among the contents, by identity.
        data: these tensors, and their data before tracing.
    """

    def __init__(self, variables: Variables) -> None:
        self.tensors: dict[int, str] = {}
        self.data: list[tuple[Tensor, Any]] = []
        self._watched: list[tuple[Variables, dict[str, Any]]] = []
        self._snapshots: dict[int, Snapshot | AttributesSnapshot] = {}
        self._references: list[Any] = []  # keeps objects alive, so that no id is reused
        self._functions: set[int] = set()
        self._classes: list[type] = []
        self._code_names: frozenset[str] = frozenset()
        self._generators: list[tuple[str, Any, str]] = []
        self._watch(variables)

    def watch(self, function: Any) -> None:
        """Record the variables of a user's function and of the functions that it calls, once."""
        inner = function
        while not hasattr(inner, "__code__") and hasattr(inner, "func"):
            inner = inner.func
        code = getattr(inner, "__code__", None)
        if code is None or id(function) in self._functions or is_library_code(code):
            return
        self._functions.add(id(function))
        self._references.append(function)
        self._watch(Variables(function))

    def _watch(self, variables: Variables) -> None:
        before = variables()
        self._watched.append((variables, before))
        new = variables.names - self._code_names
        self._code_names |= new
        for cls in list(self._classes):
            self._watch_methods(cls, new)
        for name, value in before.items():
            self._note(value, f"the variable {name}")

    def _watch_methods(self, cls: type, named: frozenset[str]) -> None:
        """Watch the methods of a class that traced code names, and the special methods."""
        for name, item in list(vars(cls).items()):
            if isinstance(item, _METHODS) and (name in named or name.startswith("__")) and name != "__init__":
                self.watch(
                    getattr(item, "fget", None) or getattr(item, "__func__", None) or getattr(item, "func", item)
                )

    def used_generator(self) -> str | None:
        """Return the name of a random number generator that was used; None if none was."""
        return next((name for name, generator, before in self._generators if _state(generator) != before), None)

    def note_argument(self, name: str, value: Any) -> None:
        """Record the objects in an argument; its tuples, lists and dicts are copied before tracing anyway."""
        for leaf in leaves(value):
            if not isinstance(leaf, Tensor):
                self._note(leaf, f"the argument {name}")

    def note_hook(self, function: Any, cell: str) -> None:
        """Record the contents of a Cell's hook, and of the object that it is a method of."""
        while isinstance(function, functools.partial):
            for item in (*function.args, *function.keywords.values()):
                self._note(item, f"a hook of {cell}")
            function = function.func
        self._note(function, f"a hook of {cell}")
        self._note(getattr(function, "__self__", None), f"a hook of {cell}")

    def add(self, cell: Cell, path: str) -> None:
        """Record the contents of a Cell, once."""
        if id(cell.__dict__) in self._snapshots:
            return
        name = f"{cell.cls_name} '{path}'" if path else cell.cls_name
        self._note_state(cell, name, 0)
        for registered in (cell._params, cell._cells):
            self._snapshots[id(registered)] = Snapshot(name, registered, dict(registered), is_state=True)

    def contains(self, cell: Cell) -> bool:
        """Whether a Cell was recorded."""
        return id(cell.__dict__) in self._snapshots

    def changes(self) -> Iterator[str]:
        """Yield the names of changed objects and attributes, e.g. `history of Net`."""
        for snapshot in self._snapshots.values():
            if snapshot.was_empty and not snapshot.container:
                continue
            change = snapshot.change()
            if change is not None:
                yield change
        for variables, before in self._watched:
            now = variables()
            for name, value in before.items():
                if name in now and not is_same(now[name], value):
                    yield f"the variable {name}"

    def are_unchanged(self) -> bool:
        """Whether everything that traced Python may depend on is unchanged; it can't depend on `phase`."""
        return not any(change.partition(" of ")[0] != "phase" for change in self.changes()) and all(
            tensor._data is data for tensor, data in self.data
        )

    def restore(self) -> None:
        """Undo all changes."""
        for snapshot in self._snapshots.values():
            if snapshot.change() is not None:
                snapshot.restore()
        for variables, before in self._watched:
            variables.restore(before)

    def _note(self, value: Any, name: str, depth: int = 0) -> None:
        if type(value) is Tensor:
            if id(value) not in self.tensors:
                self.tensors[id(value)] = name
                self.data.append((value, value._data))
        elif depth > MAX_DEPTH or id(value) in self._snapshots:
            return
        elif isinstance(value, np.ndarray):
            if value.size <= MAX_ELEMENTS and not value.dtype.hasobject:
                self._snapshots[id(value)] = Snapshot(name, value, value.copy())
        elif isinstance(value, _CONTAINERS):
            if len(value) <= MAX_ELEMENTS:
                self._snapshots[id(value)] = Snapshot(name, value, value.copy())
                for item in value.values() if isinstance(value, dict) else value:
                    self._note(item, name, depth + 1)
        elif isinstance(value, tuple):
            for item in value:
                self._note(item, name, depth + 1)
        elif isinstance(value, _FUNCTIONS):
            self.watch(value)
        elif isinstance(value, _GENERATORS):
            self._generators.append((name, value, _state(value)))
        elif isinstance(value, type):
            self._note_class(value, depth)
        elif not isinstance(value, _WITHOUT_STATE) and is_user_class(type(value)):
            self._note_state(value, f"{type(value).__name__}, {name}", depth)

    def _note_state(self, value: Any, name: str, depth: int) -> None:
        self._note_class(type(value), depth)
        if _slots(type(value)):
            self._note_attributes(value, name, depth)
        state = getattr(value, "__dict__", None)
        if not isinstance(state, dict) or id(state) in self._snapshots:
            return
        self._references.append(value)
        self._snapshots[id(state)] = Snapshot(name, state, dict(state), is_state=True)
        for key, item in state.items():
            if key not in INTERNAL_ATTRIBUTES:
                self._note(item, f"{key} of {name}", depth + 1)

    def _note_class(self, cls: type, depth: int) -> None:
        for each in cls.__mro__:
            if is_user_class(each) and not is_library_code(sys.modules.get(each.__module__)):
                self._note_attributes(each, each.__name__, depth)

    def _note_attributes(self, owner: Any, name: str, depth: int) -> None:
        if id(owner) in self._snapshots:
            return
        self._references.append(owner)
        snapshot = self._snapshots[id(owner)] = AttributesSnapshot(name, owner, _attributes(owner))
        if isinstance(owner, type):
            self._classes.append(owner)
            self._watch_methods(owner, self._code_names)
        for key, item in snapshot.before.items():
            if not isinstance(owner, type) or not isinstance(item, _METHODS):
                self._note(item, f"{key} of {name}", depth + 1)


def contents_of(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the contents of a user's object: its attributes, and those of the containers and objects in them."""
    if depth > MAX_DEPTH or isinstance(value, _WITHOUT_STATE):
        return
    if isinstance(value, dict):
        items = list(value.values())
    elif isinstance(value, (tuple, list, set, deque)):
        items = list(value)
    else:
        items = [*getattr(value, "__dict__", {}).values(), *_attributes(value).values()]
    for item in items:
        yield item
        yield from contents_of(item, depth + 1)


def _slots(cls: type) -> tuple[str, ...]:
    """The names of the slots of a class that hold attributes."""
    declared = (vars(each).get("__slots__", ()) for each in cls.__mro__)
    named = ((slots,) if isinstance(slots, str) else tuple(slots) for slots in declared)
    return tuple(name for names in named for name in names if not name.startswith("__"))


def _attributes(owner: Any) -> dict[str, Any]:
    """The attributes and methods of a class, or the slots of an object."""
    if not isinstance(owner, type):
        return {name: getattr(owner, name) for name in _slots(type(owner)) if hasattr(owner, name)}
    items = vars(owner).items()
    return {name: item for name, item in items if not name.startswith("__") or isinstance(item, types.FunctionType)}


def _state(generator: Any) -> str:
    """The state of a random number generator."""
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    return repr(generator.getstate() if isinstance(generator, random.Random) else generator.get_state())


def is_user_class(cls: type) -> bool:
    """Whether a class is neither the runtime's nor the standard library's, whose objects keep caches."""
    if issubclass(cls, (types.SimpleNamespace, argparse.Namespace)):
        return True
    return not cls.__module__.startswith(ROOM) and cls.__module__.split(".")[0] not in sys.stdlib_module_names


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are the same object, equal numbers, or equal strings."""
    if isinstance(a, tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(is_same, a, b))
    if a is b or type(a) is not type(b):
        return a is b
    return a.hex() == b.hex() if isinstance(a, float) else isinstance(a, (bool, int, str)) and a == b
