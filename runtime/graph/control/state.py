"""What Python may change in a branch or loop: variables, what they hold, Parameters, tensors that are written to.

It is noted before, so that each branch begins with the same, and what differs afterwards is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any, Protocol

from ...common.nested import refilled
from ...common.tensor import Tensor, wrapped
from ...nn.cell import Cell
from ...tracing import SymbolicTensor
from ..current import Recording, SymbolicParameter
from ..objects import MAX_DEPTH, MAX_ELEMENTS, is_same, is_the_users
from .rewriting import MODULE


class Undefined:
    """What a variable holds that has no value."""

    def __repr__(self) -> str:
        return "nothing"


UNDEFINED = Undefined()


class Place(Protocol):
    """Where something is held that Python may change; `str()` says what it is called."""

    def get(self) -> Any:
        """What it holds now."""

    def put(self, value: Any) -> None:
        """Let it hold a value."""

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether two things that it held are the very same."""


@dataclass(frozen=True)
class Variable:
    """A variable of the user's function, or one of our making, in the cell of a closure."""

    cell: CellType
    name: str

    @property
    def is_ours(self) -> bool:
        """Whether it is of our making: it may have no value in one of the branches."""
        return self.name.startswith(MODULE)

    def get(self) -> Any:
        """What it holds; `UNDEFINED` if it has no value."""
        try:
            return self.cell.cell_contents
        except ValueError:
            return UNDEFINED

    def put(self, value: Any) -> None:
        """Let it hold a value, or none."""
        if not isinstance(value, Undefined):
            self.cell.cell_contents = value
        elif not isinstance(self.get(), Undefined):
            del self.cell.cell_contents

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether two values are the same object, or equal numbers."""
        return is_same(a, b)

    def __str__(self) -> str:
        return f"the variable '{self.name}'"


@dataclass(frozen=True)
class Contents:
    """What a list, dict, set, deque or the attributes of an object hold; `get` copies it."""

    container: Any
    name: str

    def get(self) -> Any:
        """A copy."""
        if isinstance(self.container, (set, deque)):
            return self.container.copy()
        items = self.container.values() if isinstance(self.container, dict) else self.container
        return refilled(self.container, list(items))

    def put(self, value: Any) -> None:
        """Let it hold what a copy does."""
        self.container.clear()
        if isinstance(self.container, (dict, set)):
            self.container.update(value)
        else:
            self.container.extend(value)

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether two copies hold the same."""
        if isinstance(a, set):
            return bool(a == b)
        if isinstance(a, dict) and [*a] != [*b]:
            return False
        pairs = (a.values(), b.values()) if isinstance(a, dict) else (a, b)
        return len(a) == len(b) and all(map(is_same, *pairs))

    def __str__(self) -> str:
        return f"what '{self.name}' holds"


@dataclass(frozen=True)
class Written:
    """What a tensor holds that may be written to; `get` gives it as another one."""

    tensor: Tensor
    name: str

    def get(self) -> Tensor:
        """A plain tensor with its elements and what is known of how they were computed."""
        return self.tensor.value()

    def put(self, value: Tensor) -> None:
        """Let it hold what another does."""
        self.tensor._data, self.tensor._tape, self.tensor._number = value._data, value._tape, value._number

    def is_same(self, a: Tensor, b: Tensor) -> bool:
        """Whether nothing was written."""
        return _data_is_same(a._data, b._data)

    def __str__(self) -> str:
        return f"the tensor '{self.name}'"


@dataclass(frozen=True)
class Assigned:
    """The value of a Parameter."""

    held: SymbolicParameter

    def get(self) -> Tensor:
        """It, as a plain tensor."""
        parameter = self.held.parameter
        return wrapped(self.held.now, parameter._tape, parameter._number if parameter._tape is not None else None)

    def put(self, value: Tensor) -> None:
        """Assign another."""
        parameter = self.held.parameter
        self.held.now = value._data
        parameter._tape, parameter._number = value._tape, value._number

    def is_same(self, a: Tensor, b: Tensor) -> bool:
        """Whether nothing was assigned."""
        return _data_is_same(a._data, b._data)

    def __str__(self) -> str:
        return f"Parameter '{self.held.parameter.name}'"


def _data_is_same(a: Any, b: Any) -> bool:
    return a.value is b.value if isinstance(a, SymbolicTensor) and isinstance(b, SymbolicTensor) else a is b


Changes = dict[Any, tuple[Place, Any, Any]]
"""By key: a place, what it held before, and what it holds now."""


class State:
    """What functions may change, as it is now.

    Args:
        trace: the trace.
        functions: the functions, whose variables are looked at, and those of functions among them.
        further: other places, by key.
    """

    def __init__(
        self, trace: Recording, functions: Iterable[Callable[..., Any]], further: Mapping[Any, Place] | None = None
    ) -> None:
        self._trace = trace
        self._places: dict[Any, Place] = dict(further or {})
        self._seen: set[int] = set()
        for function in functions:
            self._look_at_function(function)
        self._before = {key: place.get() for key, place in self._places.items()}
        self._held = {key: Assigned(held).get() for key, held in trace.held.items()}

    def changes(self) -> Changes:
        """What is other now."""
        found: Changes = {}
        for key, place in self._places.items():
            before, now = self._before[key], place.get()
            if not place.is_same(before, now):
                found[key] = place, before, now
        for number, held in self._trace.held.items():
            assigned = Assigned(held)
            before = self._held[number] if number in self._held else wrapped(held.first, *held.began)
            if not assigned.is_same(before, assigned.get()):
                found["parameter", number] = assigned, before, assigned.get()
        return found

    def restore(self, changes: Changes) -> None:
        """Let all be as it was."""
        for place, before, _ in changes.values():
            place.put(before)

    def _look_at_function(self, function: Any) -> None:
        function = getattr(function, "func", getattr(function, "__func__", function))
        if id(function) in self._seen or not isinstance(function, FunctionType):
            return
        self._seen.add(id(function))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            variable = Variable(cell, name)
            if ("cell", id(cell)) not in self._places:
                self._places["cell", id(cell)] = variable
                self._look_at(variable.get(), name, 0)

    def _look_at(self, value: Any, name: str, depth: int) -> None:
        if depth > MAX_DEPTH or id(value) in self._seen:
            return
        if isinstance(value, (FunctionType, MethodType)):
            self._look_at_function(value)
        elif type(value) is Tensor:
            self._seen.add(id(value))
            self._places["tensor", id(value)] = Written(value, name)
        elif isinstance(value, tuple):
            for item in value:
                self._look_at(item, name, depth + 1)
        elif isinstance(value, (list, dict, set, deque)):
            if len(value) <= MAX_ELEMENTS:
                self._seen.add(id(value))
                self._places["contents", id(value)] = Contents(value, name)
                for item in list(value.values() if isinstance(value, dict) else value):
                    self._look_at(item, name, depth + 1)
        elif has_attributes(value):
            self._look_at(vars(value), f"{name}.__dict__", depth)


def has_attributes(value: Any) -> bool:
    """Whether it is an object of a class of the user's, other than a Cell or Parameter, with attributes."""
    plain = isinstance(value, (Cell, Tensor, type)) or not isinstance(getattr(value, "__dict__", None), dict)
    return not plain and is_the_users(type(value)) and not callable(value)
