"""Converts the learning rate of an optimizer to the Parameter or schedule Cell that it reads at every step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...common.dtype import DType
from ...common.parameter import Parameter
from ...common.tensor import Tensor, is_known
from ...ops import indexing, shaping
from ...precision import cast_external
from ..cell import Cell
from ..learning_rate_schedule import LearningRateSchedule


class FixedRate(LearningRateSchedule):
    """A constant rate in an optimizer whose other groups have changing rates."""

    def __init__(self, learning_rate: Parameter) -> None:
        super().__init__()
        self.learning_rate = learning_rate

    def construct(self, global_step: Any) -> Any:
        """Return the rate."""
        return self.learning_rate.value()


class ListedRates(LearningRateSchedule):
    """A list with one rate per step; `RuntimeError` for a step beyond the last."""

    def __init__(self, learning_rate: Parameter) -> None:
        super().__init__()
        self.learning_rate = learning_rate

    def construct(self, global_step: Any) -> Any:
        """Return the rate of a step."""
        step = shaping.reshape(global_step, shape=())
        if is_known(step):
            self.require(int(step))
        return indexing.take(self.learning_rate, step, axis=0)

    def require(self, steps: int) -> None:
        """Raise `RuntimeError` unless there is a rate for the step after `steps` steps."""
        require_rate(self.learning_rate.name, self.learning_rate.size, steps)


def require_rate(name: str, count: int, steps: int) -> None:
    """Raise `RuntimeError` unless a list of `count` rates has one for the step after `steps` steps."""
    if steps >= count:
        raise RuntimeError(
            f"'{name}' lists {count} learning rates, one per step, and all were used: there is none for step "
            f"{steps + 1}"
        )


def as_rate(learning_rate: Any, name: str, dtype: DType, *, of: str) -> Parameter | Cell:
    """Return the Parameter or Cell from which an optimizer reads the learning rate.

    Args:
        learning_rate: a number >= 0, a tensor or other iterable of them (one per step), or a `LearningRateSchedule`.
        name: the name of the Parameter.
        dtype: the dtype of the rate.
        of: the name of the optimizer, for messages.

    Returns:
        A 0-d Parameter for a constant rate; otherwise a Cell to be called with the step.

    Raises:
        TypeError: `learning_rate` is none of these.
        ValueError: a rate is negative, the list is empty, or a tensor of rates has more than one dimension.
    """
    if isinstance(learning_rate, LearningRateSchedule):
        for _, cell in learning_rate.cells_and_names():
            if isinstance(cell, LearningRateSchedule):
                cell.dtype = dtype
        return learning_rate
    if isinstance(learning_rate, (int, float)):
        if learning_rate < 0:
            raise ValueError(f"For '{of}', the learning rate 'learning_rate' must be >= 0, but got {learning_rate}")
    elif isinstance(learning_rate, (str, Cell)) or not isinstance(learning_rate, (Tensor, np.generic, Iterable)):
        raise TypeError(
            f"For '{of}', 'learning_rate' must be a number, a Tensor or list of numbers, or a LearningRateSchedule, "
            f"but got {type(learning_rate).__name__}: {learning_rate!r}"
        )
    is_array_like = isinstance(learning_rate, (Tensor, np.ndarray, np.generic, int, float))
    rates = np.asarray(learning_rate if is_array_like else list(learning_rate))
    rates = cast_external(rates).astype(dtype)
    if rates.ndim > 1:
        raise ValueError(f"For '{of}', 'learning_rate' must have 0 or 1 dimensions, but got shape {rates.shape}")
    if not rates.size or not (rates >= 0).all():
        raise ValueError(
            f"For '{of}', the learning rates 'learning_rate' must be numbers >= 0, but got {rates.tolist()}"
        )
    parameter = Parameter(rates, name)
    return ListedRates(parameter) if rates.ndim else parameter
