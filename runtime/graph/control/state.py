"""The state that Python may change in a branch or loop: variables, containers, Parameters, tensors written in place.

The state is recorded first, so that both branches start from the same values and their changes can be compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any, Protocol

from ...common.tensor import Tensor, from_array
from ...nn.cell import Cell
from ...tracing import SymbolicTensor
from ...tree import rebuild
from ..current import Recording, SymbolicParameter
from ..objects import MAX_DEPTH, MAX_ELEMENTS, is_same, is_user_class
from .syntax import MODULE


class Undefined:
    """The content of a variable without a value."""

    def __repr__(self) -> str:
        return "nothing"


UNDEFINED = Undefined()


class Place(Protocol):
    """A place whose content Python may change; `str()` returns its name for messages."""

    def get(self) -> Any:
        """Return the current content."""

    def put(self, value: Any) -> None:
        """Replace the content."""

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether two contents are identical."""


@dataclass(frozen=True)
class Variable:
    """A variable of the user's function, or one that the rewriting introduced, in the cell of a closure."""

    cell: CellType
    name: str

    @property
    def is_generated(self) -> bool:
        """Whether the rewriting introduced the variable: it may be undefined in one of the branches."""
        return self.name.startswith(MODULE)

    def get(self) -> Any:
        """Return the value, or `UNDEFINED`."""
        try:
            return self.cell.cell_contents
        except ValueError:
            return UNDEFINED

    def put(self, value: Any) -> None:
        """Set the value; `Undefined` deletes it."""
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
    """The items of a list, dict, set, deque or the attributes of an object; `get` returns a copy."""

    container: Any
    name: str

    def get(self) -> Any:
        """Return a copy of the container."""
        if isinstance(self.container, (set, deque)):
            return self.container.copy()
        items = self.container.values() if isinstance(self.container, dict) else self.container
        return rebuild(self.container, list(items))

    def put(self, value: Any) -> None:
        """Replace the items by those of a copy."""
        self.container.clear()
        if isinstance(self.container, (dict, set)):
            self.container.update(value)
        else:
            self.container.extend(value)

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether two copies have the same items."""
        if isinstance(a, set):
            return bool(a == b)
        if isinstance(a, dict) and [*a] != [*b]:
            return False
        pairs = (a.values(), b.values()) if isinstance(a, dict) else (a, b)
        return len(a) == len(b) and all(map(is_same, *pairs))

    def __str__(self) -> str:
        return f"the container '{self.name}'"


@dataclass(frozen=True)
class TensorContents:
    """The data of a tensor that may be written in place; `get` returns it as a new tensor."""

    tensor: Tensor
    name: str

    def get(self) -> Tensor:
        """Return a plain tensor with the same data and the same entry on the tape."""
        return self.tensor.value()

    def put(self, value: Tensor) -> None:
        """Take over the data and the tape entry of another tensor."""
        self.tensor._data, self.tensor._tape, self.tensor._number = value._data, value._tape, value._number

    def is_same(self, a: Tensor, b: Tensor) -> bool:
        """Whether the data are identical."""
        return _data_is_same(a._data, b._data)

    def __str__(self) -> str:
        return f"the tensor '{self.name}'"


@dataclass(frozen=True)
class ParameterValue:
    """The value of a Parameter."""

    symbolic: SymbolicParameter

    def get(self) -> Tensor:
        """Return the value as a plain tensor."""
        parameter = self.symbolic.parameter
        return from_array(
            self.symbolic.current, parameter._tape, parameter._number if parameter._tape is not None else None
        )

    def put(self, value: Tensor) -> None:
        """Assign a new value."""
        parameter = self.symbolic.parameter
        self.symbolic.current = value._data
        parameter._tape, parameter._number = value._tape, value._number

    def is_same(self, a: Tensor, b: Tensor) -> bool:
        """Whether the data are identical."""
        return _data_is_same(a._data, b._data)

    def __str__(self) -> str:
        return f"Parameter '{self.symbolic.parameter.name}'"


def _data_is_same(a: Any, b: Any) -> bool:
    return a.value is b.value if isinstance(a, SymbolicTensor) and isinstance(b, SymbolicTensor) else a is b


Changes = dict[Any, tuple[Place, Any, Any]]
"""By key: a place, its content before, and its content now."""


class State:
    """A snapshot of the state that functions may change.

    Args:
        trace: the trace.
        functions: the functions whose variables are recorded; functions in these variables are included.
        extra: other places, by key.
    """

    def __init__(
        self, trace: Recording, functions: Iterable[Callable[..., Any]], extra: Mapping[Any, Place] | None = None
    ) -> None:
        self._trace = trace
        self._places: dict[Any, Place] = dict(extra or {})
        self._seen: set[int] = set()
        for function in functions:
            self._look_at_function(function)
        self._before = {key: place.get() for key, place in self._places.items()}
        self._parameter_values = {key: ParameterValue(symbolic).get() for key, symbolic in trace.parameters.items()}

    def changes(self) -> Changes:
        """The places whose content has changed since the snapshot."""
        result: Changes = {}
        for key, place in self._places.items():
            before, now = self._before[key], place.get()
            if not place.is_same(before, now):
                result[key] = place, before, now
        for number, symbolic in self._trace.parameters.items():
            parameter = ParameterValue(symbolic)
            before = (
                self._parameter_values[number]
                if number in self._parameter_values
                else from_array(symbolic.initial, *symbolic.initial_tracking)
            )
            if not parameter.is_same(before, parameter.get()):
                result["parameter", number] = parameter, before, parameter.get()
        return result

    def restore(self, changes: Changes) -> None:
        """Undo changes."""
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
            self._places["tensor", id(value)] = TensorContents(value, name)
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
    """Whether a value is an object with attributes, of a user's class other than Cell and Parameter."""
    plain = isinstance(value, (Cell, Tensor, type)) or not isinstance(getattr(value, "__dict__", None), dict)
    return not plain and is_user_class(type(value)) and not callable(value)
