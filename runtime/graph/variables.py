"""The variables that a function uses: where Cells and Parameters are found, and what tracing must leave alone."""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from ..nn.cell import Cell


class Variables:
    """What the variables of a function, and its defaults, hold, by name, at any time.

    For a Cell, or a method of one, it is the Cell, under the empty name; for another object that is called, its
    attributes.

    Args:
        function: a Cell, a function, or another object that can be called. What it wraps is looked at.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._cell: Cell | None = function if isinstance(function, Cell) else None
        self._owners: list[Any] = []
        self._functions: list[tuple[Any, tuple[str, ...]]] = []
        if self._cell is None:
            self._look_at(function)

    def __call__(self) -> dict[str, Any]:
        """The values now."""
        found: dict[str, Any] = {}
        for function, names in self._functions:
            scope = function.__globals__
            found.update((name, scope[name]) for name in names if name in scope)
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                with contextlib.suppress(ValueError):  # it has no value yet
                    found[name] = cell.cell_contents
            for name, value in _defaults(function).items():
                found.setdefault(name, value)
        for owner in self._owners:
            found.update(vars(owner))
        if self._cell is not None:
            found[""] = self._cell
        return found

    def restore(self, before: dict[str, Any]) -> None:
        """Let the variables of the function hold what they held, where that is another object now."""
        for function, names in self._functions:
            scope = function.__globals__
            for name in names:
                if name in scope and name in before and scope[name] is not before[name]:
                    scope[name] = before[name]
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                if name in before and cell.cell_contents is not before[name]:
                    cell.cell_contents = before[name]

    def _look_at(self, function: Any) -> None:
        if isinstance(function, functools.partial):
            self._owners.append(_Arguments(function))
            function = function.func
        function = inspect.unwrap(function)
        if isinstance(function, Cell):
            self._owners.append(_Arguments(cell=function))
            return
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Cell):
            self._cell = owner
        elif owner is not None and hasattr(owner, "__dict__") and not inspect.ismodule(owner):
            self._owners.append(owner)
        function = getattr(function, "__func__", function)
        if not hasattr(function, "__code__") and hasattr(function, "__dict__"):  # an object that can be called
            self._owners.append(function)
            function = inspect.getattr_static(type(function), "__call__", None)
        if hasattr(function, "__code__"):
            self._functions.append((function, tuple(dict.fromkeys(_globals(function.__code__)))))


class _Arguments:
    """Has as attributes what a partial function was given, or the Cell that a function wraps."""

    def __init__(self, given: functools.partial[Any] | None = None, cell: Cell | None = None) -> None:
        if given is not None:
            vars(self).update({f"argument_{i}": item for i, item in enumerate(given.args)} | given.keywords)
        if cell is not None:
            vars(self)[cell.cls_name] = cell


def _defaults(function: Any) -> dict[str, Any]:
    """What the parameters of a function hold where no argument is given."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return dict(zip(names[len(names) - len(values) :], values, strict=True)) | (function.__kwdefaults__ or {})


def _globals(code: CodeType) -> Iterator[str]:
    """Names of the globals that a function and those within it use."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)
