"""The variables that a function uses: they hold its Cells and Parameters, and tracing must not change them."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, CodeType, ModuleType
from typing import Any

from ..nn.cell import Cell
from .sources import is_internal_code, is_library_code

_NOTHING = object()


@dataclass(frozen=True)
class _Location:
    """The location of a variable: a namespace, or the cell of a closure."""

    name: str
    scope: dict[str, Any] | CellType
    key: str

    def value(self) -> Any:
        """Return its value; `_NOTHING` if it has none."""
        if isinstance(self.scope, dict):
            return self.scope.get(self.key, _NOTHING)
        try:
            return self.scope.cell_contents
        except ValueError:
            return _NOTHING

    def set_value(self, value: Any) -> None:
        """Set its value."""
        if isinstance(self.scope, dict):
            self.scope[self.key] = value
        else:
            self.scope.cell_contents = value


class Variables:
    """The current values of a function's variables and default arguments, by name.

    They include variables of modules that its code names, e.g. `settings.factor`, and those of functions that wrap it,
    e.g. `factor of scaled.<locals>.wrapper`. For a Cell or its method, the only variable is the Cell, under the empty
    name; for another callable object, they are its attributes.

    Args:
        function: a Cell, a function, or another callable object. The functions that it wraps are included.

    Attributes:
        names: all names in its code, including names of attributes.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.names: frozenset[str] = frozenset()
        self._cell: Cell | None = function if isinstance(function, Cell) else None
        self._owners: list[Any] = []
        self._functions: list[Any] = []
        self._places: list[_Location] = []
        if self._cell is None:
            self._look_at(function)

    def __call__(self) -> dict[str, Any]:
        """Return the current values."""
        result: dict[str, Any] = {}
        for location in self._places:
            value = location.value()
            if value is not _NOTHING:
                result[location.name] = value
        for function in self._functions:
            for name, value in _defaults(function).items():
                result.setdefault(name, value)
        for owner in self._owners:
            result.update(vars(owner))
        if self._cell is not None:
            result[""] = self._cell
        return result

    def restore(self, before: dict[str, Any]) -> None:
        """Restore the variables that now refer to another object."""
        for location in self._places:
            value = location.value()
            if value is not _NOTHING and location.name in before and value is not before[location.name]:
                location.set_value(before[location.name])

    def _look_at(self, function: Any) -> None:
        if isinstance(function, functools.partial):
            self._owners.append(_Arguments(function))
            function = function.func
        while hasattr(function, "__wrapped__"):
            code = getattr(function, "__code__", None)
            if code is not None and not is_internal_code(code):
                self._add(function, f" of {function.__qualname__}")
            function = function.__wrapped__
        if isinstance(function, Cell):
            self._owners.append(_Arguments(cell=function))
            return
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Cell):
            self._cell = owner
        elif owner is not None and hasattr(owner, "__dict__") and not inspect.ismodule(owner):
            self._owners.append(owner)
        function = getattr(function, "__func__", function)
        if not hasattr(function, "__code__") and hasattr(function, "__dict__"):  # a callable object
            self._owners.append(function)
            function = inspect.getattr_static(type(function), "__call__", None)
        if hasattr(function, "__code__"):
            self._functions.append(function)
            self._add(function)

    def _add(self, function: Any, suffix: str = "") -> None:
        """Add the variables of one function."""
        code, scope = function.__code__, function.__globals__
        used_globals, names = dict.fromkeys(_globals(code)), frozenset(_names(code))
        self.names |= names
        self._places += [_Location(name + suffix, scope, name) for name in used_globals]
        self._places += [
            _Location(name + suffix, cell, name)
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
        ]
        values = [(location.name, location.value()) for location in self._places]
        values += [(name, sys.modules[name]) for name in names if name in sys.modules]  # imported in the function
        self._add_modules([(name, value) for name, value in values if isinstance(value, ModuleType)], names)

    def _add_modules(self, modules: list[tuple[str, ModuleType]], names: frozenset[str]) -> None:
        """Add the variables of modules, and of modules in them, that the code names."""
        visited: set[int] = set()
        while modules:
            path, module = modules.pop()
            if id(module) in visited or is_library_code(module):
                continue
            visited.add(id(module))
            scope = vars(module)
            for name in sorted(names & scope.keys()):
                self._places.append(_Location(f"{path}.{name}", scope, name))
                if isinstance(scope[name], ModuleType):
                    modules.append((f"{path}.{name}", scope[name]))


class _Arguments:
    """An object whose attributes are the arguments of a partial function, or the Cell that a function wraps."""

    def __init__(self, partial: functools.partial[Any] | None = None, cell: Cell | None = None) -> None:
        if partial is not None:
            vars(self).update({f"argument_{i}": item for i, item in enumerate(partial.args)} | partial.keywords)
        if cell is not None:
            vars(self)[cell.cls_name] = cell


def _defaults(function: Any) -> dict[str, Any]:
    """The default arguments of a function, by name."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return dict(zip(names[len(names) - len(values) :], values, strict=True)) | (function.__kwdefaults__ or {})


@functools.lru_cache(maxsize=4096)
def _globals(code: CodeType) -> tuple[str, ...]:
    """The names of the globals that a function and its nested functions use."""
    names = (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return (*names, *(name for inner in _within(code) for name in _globals(inner)))


def _names(code: CodeType) -> Iterator[str]:
    """All names in a function and its nested functions, except its local variables."""
    yield from code.co_names
    for inner in _within(code):
        yield from _names(inner)


def _within(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))
