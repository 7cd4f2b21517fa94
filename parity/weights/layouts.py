"""The layout of an array in a Cells' checkpoint, relative to torch's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from .arrangements import Array


@dataclass(frozen=True)
class CheckpointLayout:
    """A change of layout: axes in another order, and an additional axis of size 1.

    Attributes:
        transpose: True to exchange the last two axes, or torch's axis for each axis of the Cell's; None for neither.
        unit_axis: position of an axis of size 1 that only the Cell's array has; None for none.
    """

    transpose: bool | tuple[int, ...] | None = None
    unit_axis: int | None = None

    def shape_in_cells(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the Cell's array; raise `UsageError` if the array of `name` has too few axes."""
        result = [shape[axis] for axis in self.order(name, len(shape))]
        if self.unit_axis is not None:
            if self.unit_axis > len(shape):
                raise self._refusal(name, shape)
            result.insert(self.unit_axis, 1)
        return tuple(result)

    def to_torch(self, name: str, array: Array) -> Array:
        """Return torch's array."""
        if self.unit_axis is not None:
            if self.unit_axis >= array.ndim or array.shape[self.unit_axis] != 1:
                raise self._refusal(name, array.shape)
            array = array.squeeze(self.unit_axis)
        if self.transpose:
            array = array.transpose(np.argsort(self.order(name, array.ndim)))
        return array

    def order(self, name: str, axes: int) -> tuple[int, ...]:
        """Return torch's axis for each of the Cell's; raise `UsageError` if the array of `name` has other axes."""
        order = tuple(range(axes))
        if not self.transpose:
            return order
        if self.transpose is True and axes > 1:
            return (*order[:-2], order[-1], order[-2])
        if isinstance(self.transpose, tuple) and tuple(sorted(self.transpose)) == order:
            return self.transpose
        raise UsageError(f"{name} has {axes} axes, which don't fit {self}")

    def _refusal(self, name: str, shape: tuple[int, ...]) -> UsageError:
        return UsageError(f"{name} has shape {list(shape)}, which doesn't fit {self}")

    def __str__(self) -> str:
        """Format it as in a map file; empty if the layout is torch's."""
        return ", ".join(f"{key} = {_toml(value)}" for key, value in self.as_dict().items())

    def as_dict(self) -> dict[str, Any]:
        """Return the keys of a map file with their values."""
        transpose = list(self.transpose) if isinstance(self.transpose, tuple) else self.transpose
        values = {"transpose": transpose, "expand_dims": self.unit_axis}
        return {key: value for key, value in values.items() if value is not None}


UNCHANGED = CheckpointLayout()


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
