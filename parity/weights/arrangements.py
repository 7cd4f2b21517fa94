"""How a Parameter of a Cell is made of a module's, and how its gradient becomes one of theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ...runtime.errors import UsageError
from .rules import did_you_mean

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]


class Arrangement(Protocol):
    """From the module's arrays to the Cell's, and back."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the module's parameters that it is made of."""

    def there(self, arrays: Arrays) -> Array:
        """The Cell's array, from the module's by name."""

    def back(self, array: Array) -> dict[str, Array]:
        """The module's arrays (or gradients), by name, from the Cell's; empty if they can't be told."""

    def __str__(self) -> str:
        """How it is laid out, in words; empty if it is as it is there."""


@dataclass(frozen=True)
class Axes:
    """One parameter with its axes in another order, or with axes of size 1 more or fewer.

    Attributes:
        name: of the module's parameter.
        shape: of the module's parameter.
        axes: where each axis of the Cell's comes from; None for all as they are.
        unit_axes: shape of the Cell's, where that has other axes of size 1.
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    unit_axes: tuple[int, ...] | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The one parameter."""
        return (self.name,)

    def there(self, arrays: Arrays) -> Array:
        """The Cell's array."""
        array = arrays[self.name]
        if self.axes is not None:
            array = array.transpose(self.axes)
        return array.reshape(self.unit_axes) if self.unit_axes is not None else array

    def back(self, array: Array) -> dict[str, Array]:
        """The module's array."""
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
class Computed:
    """What a function of the user's makes of the module's arrays.

    Where it only picks and moves elements (a slice, several parameters in one), the way back is found by letting it
    arrange their positions.
    """

    function: Callable[[Arrays], Any]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def sources(self) -> tuple[str, ...]:
        """The parameters that the function asks for."""
        return tuple(self._spans)

    def there(self, arrays: Arrays) -> Array:
        """The Cell's array."""
        return np.asarray(self.function(_Noting(arrays)))

    def back(self, array: Array) -> dict[str, Array]:
        """The module's arrays, 0 where the Cell's has no element of them."""
        if self._places is None:
            return {}
        flat = np.zeros(max((end for _, end in self._spans.values()), default=0), array.dtype)
        flat[self._places.ravel()] = array.ravel()
        return {name: flat[start:end].reshape(self.shapes[name]) for name, (start, end) in self._spans.items()}

    def __str__(self) -> str:
        return f"by {getattr(self.function, '__name__', 'the function given')}"

    @cached_property
    def _spans(self) -> dict[str, tuple[int, int]]:
        """Where the elements of each parameter that is asked for stand, were all in one row."""
        noting = _Noting({name: np.zeros(shape) for name, shape in self.shapes.items()})
        self.function(noting)
        names = list(noting.asked or self.shapes)  # or it went through all of them
        ends = np.cumsum([np.prod(self.shapes[name], dtype=int) for name in names])
        return {name: (int(end - np.prod(self.shapes[name])), int(end)) for name, end in zip(names, ends, strict=True)}

    @cached_property
    def _places(self) -> Array | None:
        """For each element of the Cell's where it stands in that row.

        None if the function does more than move elements: then what it makes of the positions is none of them, or one
        of them twice, or changes in another way than they do.
        """
        made = []
        for shift in (0.0, 0.5):
            positions = {
                name: np.arange(start, end).reshape(self.shapes[name]) + shift
                for name, (start, end) in self._spans.items()
            }
            made.append(np.asarray(self.function(_Noting(positions)), np.float64))
        places = made[0].astype(np.int64)
        moved = np.array_equal(made[0], places) and np.array_equal(made[1], places + 0.5)
        return places if moved and np.unique(places).size == places.size else None


class _Noting(dict[str, Array]):
    """A dict that notes which of its names are asked for, and says which there are."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        self.asked: dict[str, None] = {}

    def __getitem__(self, name: str) -> Array:
        self.asked[name] = None
        return super().__getitem__(name)

    def __missing__(self, name: str) -> Array:
        raise UsageError(
            f"weights=: a function asks for {name!r}; the module has no such parameter or buffer"
            f"{did_you_mean(name, self)}"
        )


@dataclass(frozen=True)
class Constant:
    """A value that is no parameter of the module's."""

    array: Array
    words: str

    @property
    def sources(self) -> tuple[str, ...]:
        """None."""
        return ()

    def there(self, arrays: Arrays) -> Array:
        """The value."""
        return self.array

    def back(self, array: Array) -> dict[str, Array]:
        """Nothing."""
        return {}

    def __str__(self) -> str:
        return self.words
