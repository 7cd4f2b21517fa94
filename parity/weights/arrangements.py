"""How a Cell's Parameter is computed from a module's parameters, and its gradient converted back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ...runtime.errors import UsageError
from ..correspondence.name_patterns import did_you_mean
from ..support.user_code import report_user_errors

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]


class Arrangement(Protocol):
    """Converts the module's arrays to the Cell's, and back."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the module's parameters that it is computed from."""

    def to_cell(self, arrays: Arrays) -> Array:
        """Return the Cell's array, from the module's by name."""

    def to_module(self, array: Array) -> dict[str, Array]:
        """Return the module's arrays (or gradients) by name, from the Cell's; empty if they can't be determined."""

    def __str__(self) -> str:
        """Describe the change of layout; empty if there is none."""


@dataclass(frozen=True)
class Axes:
    """One parameter with its axes in another order, or with axes of size 1 added or removed.

    Attributes:
        name: name of the module's parameter.
        shape: shape of the module's parameter.
        axes: the module's axis for each axis of the Cell's; None for the same order.
        unit_axes: shape of the Cell's parameter, if its axes of size 1 differ.
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    unit_axes: tuple[int, ...] | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The one parameter."""
        return (self.name,)

    def to_cell(self, arrays: Arrays) -> Array:
        """Return the Cell's array."""
        array = arrays[self.name]
        if self.axes is not None:
            array = array.transpose(self.axes)
        return array.reshape(self.unit_axes) if self.unit_axes is not None else array

    def to_module(self, array: Array) -> dict[str, Array]:
        """Return the module's array."""
        if self.unit_axes is not None:
            array = array.reshape([self.shape[i] for i in self.axes or range(len(self.shape))])
        if self.axes is not None:
            array = array.transpose(tuple(np.argsort(self.axes)))
        return {self.name: array}

    def __str__(self) -> str:
        if self.axes is not None:
            return f"axes {self.axes}"
        return f"as {self.unit_axes}" if self.unit_axes is not None else ""


@dataclass(frozen=True)
class UserFunction:
    """A function of the user's that computes the Cell's array from the module's arrays.

    If it only selects and moves elements (a slice, or several parameters joined into one), perhaps between constants
    (rows of zeros that pad a table), its inverse is found by applying it to their positions.
    """

    function: Callable[[Arrays], Any]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def sources(self) -> tuple[str, ...]:
        """The parameters that the function reads."""
        return tuple(self._spans)

    def to_cell(self, arrays: Arrays) -> Array:
        """Return the Cell's array."""
        return np.asarray(self._call(_RecordingDict(arrays)))

    def to_module(self, array: Array) -> dict[str, Array]:
        """Return the module's arrays, with 0 for elements that the Cell's array lacks."""
        if self._places is None:
            return {}
        flat = np.zeros(max((end for _, end in self._spans.values()), default=0), array.dtype)
        moved = self._places >= 0
        flat[self._places[moved]] = array[moved]
        return {name: flat[start:end].reshape(self.shapes[name]) for name, (start, end) in self._spans.items()}

    def constants(self) -> Array:
        """Return which elements of the Cell's array are constants, as a mask; none if the function computes."""
        return np.zeros(0, bool) if self._places is None else self._places < 0

    def __str__(self) -> str:
        return f"by {getattr(self.function, '__name__', 'the function given')}"

    def _call(self, arrays: Arrays) -> Any:
        with report_user_errors("weights=", "when its function was called"):
            return self.function(arrays)

    @cached_property
    def _spans(self) -> dict[str, tuple[int, int]]:
        """Start and end of the elements of each parameter that is read, if all were concatenated flat."""
        recorder = _RecordingDict({name: np.zeros(shape) for name, shape in self.shapes.items()})
        self._call(recorder)
        names = list(recorder.accessed or self.shapes)  # or it iterates over all of them
        ends = np.cumsum([np.prod(self.shapes[name], dtype=int) for name in names])
        return {name: (int(end - np.prod(self.shapes[name])), int(end)) for name, end in zip(names, ends, strict=True)}

    @cached_property
    def _places(self) -> Array | None:
        """The position of each element of the Cell's array in that concatenation; -1 for a constant.

        None if the function does more than move elements: then its results aren't positions, or have one of them twice,
        or don't change as the positions do.
        """
        results = []
        for sign, shift in ((1.0, 0.0), (1.0, 0.5), (-1.0, -1.0)):
            positions = {
                name: sign * np.arange(start, end, dtype=np.float64).reshape(self.shapes[name]) + shift
                for name, (start, end) in self._spans.items()
            }
            results.append(np.asarray(self._call(_RecordingDict(positions)), np.float64))
        as_they_are, shifted, negated = results
        constant = (shifted == as_they_are) & (negated == as_they_are)
        moved = ~constant
        places = np.where(constant, -1.0, as_they_are)
        whole = places.astype(np.int64)
        only_moves = (
            np.array_equal(places, whole)
            and np.array_equal(shifted[moved], places[moved] + 0.5)
            and np.array_equal(negated[moved], -places[moved] - 1)
        )
        return whole if only_moves and moved.any() and np.unique(whole[moved]).size == int(moved.sum()) else None


def table_advice(shape: tuple[int, ...], needed: tuple[int, ...]) -> str:
    """Return what to give for a table of which a Cell has fewer rows, or more; empty if other axes differ too.

    Args:
        shape: of the module's parameter.
        needed: of the Cell's.
    """
    if not shape or not needed or shape[1:] != needed[1:]:
        return ""
    if needed[0] < shape[0]:
        return f"; if it has the first {needed[0]} rows, give `lambda table: table[:{needed[0]}]`"
    widths = ", ".join([f"(0, {needed[0] - shape[0]})", *["(0, 0)"] * (len(shape) - 1)])
    return f"; if it has {needed[0] - shape[0]} rows more, give `lambda table: numpy.pad(table, [{widths}])`"


class _RecordingDict(dict[str, Array]):
    """A dict that records which names are read, and raises `UsageError` for unknown ones."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        self.accessed: dict[str, None] = {}

    def __getitem__(self, name: str) -> Array:
        self.accessed[name] = None
        return super().__getitem__(name)

    def __missing__(self, name: str) -> Array:
        raise UsageError(
            f"weights=: a function asks for {name!r}; the module has no such parameter or buffer"
            f"{did_you_mean(name, self)}"
        )


@dataclass(frozen=True)
class FixedValue:
    """A value that doesn't come from the module."""

    array: Array
    words: str

    @property
    def sources(self) -> tuple[str, ...]:
        """Return no names."""
        return ()

    def to_cell(self, arrays: Arrays) -> Array:
        """Return the value."""
        return self.array

    def to_module(self, array: Array) -> dict[str, Array]:
        """Return no arrays."""
        return {}

    def __str__(self) -> str:
        return self.words
