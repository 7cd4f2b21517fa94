"""`Metric`: something that is measured over many batches, and the choice of what it is given of each."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ... import checks
from ...common.tensor import Tensor

Array = np.ndarray[Any, Any]
M = TypeVar("M", bound="Metric")

EVAL_TYPES = ("classification", "multilabel")


class Metric(ABC):
    """Base of metrics: a subclass defines `clear`, `update` and `eval`.

    `clear()` before the first batch, `update(...)` with what each batch gave, `eval()` at the end; called, it does all
    three for one batch.
    """

    def __init__(self) -> None:
        self._indexes: list[int] | None = None

    @property
    def indexes(self) -> list[int] | None:
        """Which of what `update` is given counts, in order; None: all."""
        return self._indexes

    def set_indexes(self: M, indexes: list[int]) -> M:
        """Choose which of what `update` is given counts, in order. Returns the metric.

        Raises:
            ValueError: `indexes` isn't a list of ints.
        """
        if not isinstance(indexes, list) or not all(isinstance(index, int) for index in indexes):
            raise ValueError(f"For 'set_indexes', 'indexes' must be a list of ints, but got {indexes!r}")
        self._indexes = indexes
        return self

    def __call__(self, *inputs: Any) -> Any:
        """What is measured on one batch alone."""
        self.clear()
        self.update(*inputs)
        return self.eval()

    @abstractmethod
    def clear(self) -> None:
        """Forget all batches."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Take in what a batch gave."""

    @abstractmethod
    def eval(self) -> Any:
        """What was measured; `RuntimeError` before the first batch."""

    def _convert_data(self, data: Any) -> Array:
        """The array of a tensor, list or array; else `TypeError`."""
        if isinstance(data, (Tensor, np.ndarray, list)):
            return np.asarray(data)
        raise TypeError(
            f"For '{type(self).__name__}', what is measured must be a Tensor, an array or a list, but got "
            f"{type(data).__name__}"
        )

    def _given(self, inputs: tuple[Any, ...], *names: str) -> list[Array]:
        """As many arrays as there are names; else `ValueError`."""
        if len(inputs) != len(names):
            raise ValueError(
                f"For '{type(self).__name__}.update', needed {len(names)} inputs ({', '.join(names)}), but got "
                f"{len(inputs)}"
            )
        return [self._convert_data(data) for data in inputs]

    def _require_batches(self, count: Any) -> None:
        if not count:
            raise RuntimeError(
                f"For '{type(self).__name__}', nothing was measured yet: call update(...) with at least one sample "
                "before eval()"
            )


def rearrange_inputs(func: Callable[..., Any]) -> Callable[..., Any]:
    """Let an `update` be given only those of its inputs that `set_indexes` chose."""

    @functools.wraps(func)
    def chosen(self: Metric, *inputs: Any) -> Any:
        return func(self, *(inputs if not self.indexes else (inputs[i] for i in self.indexes)))

    return chosen


class EvaluationBase(Metric):
    """Base of metrics that hold predictions against labels.

    Args:
        eval_type: "classification": scores (N, C, ...) and classes (N, ...), or one-hot (N, C, ...).
            "multilabel": zeros and ones (N, C, ...), both.

    Raises:
        TypeError: `eval_type` is another.
    """

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__()
        if eval_type not in EVAL_TYPES:
            raise TypeError(
                f"For '{type(self).__name__}', 'eval_type' must be one of {list(EVAL_TYPES)}, but got {eval_type!r}"
            )
        self._type = eval_type
        self._class_num = 0

    def _compared(self, inputs: tuple[Any, ...]) -> tuple[Array, Array]:
        """Scores or labels that were predicted, and true classes or labels, checked."""
        predicted, true = self._given(inputs, "predicted", "true")
        of = type(self).__name__
        if self._type == "classification":
            true = without_one_hot(predicted, true)
            if true.shape != predicted.shape[:1] + predicted.shape[2:] or predicted.ndim < 2:
                raise ValueError(
                    f"For '{of}.update', needed scores (N, C, ...) and classes (N, ...), but got {predicted.shape} and "
                    f"{true.shape}"
                )
        elif predicted.shape != true.shape or predicted.ndim < 2:
            raise ValueError(
                f"For '{of}.update', needed labels (N, C, ...) of one shape, but got {predicted.shape} and {true.shape}"
            )
        elif not all(np.isin(labels, (0, 1)).all() for labels in (predicted, true)):
            raise ValueError(f"For '{of}.update', labels must be 0 or 1, but got others")
        self._count_classes(predicted.shape[1], true)
        return predicted, true

    def _count_classes(self, classes: int, true: Array) -> None:
        of = type(self).__name__
        if self._class_num not in (0, classes):
            raise ValueError(f"For '{of}.update', there were {self._class_num} classes before, but now {classes}")
        if self._type == "classification" and true.size and not 0 <= true.min() <= true.max() < classes:
            raise ValueError(
                f"For '{of}.update', classes must be in [0, {classes}), but got {true.min()} to {true.max()}"
            )
        self._class_num = classes


def without_one_hot(predicted: Array, true: Array) -> Array:
    """Classes, if they are given one-hot in the shape of `predicted`."""
    one_hot = predicted.ndim == true.ndim > 1 and np.isin(true, (0, 1)).all() and (true.sum(axis=1) == 1).all()
    return np.asarray(true.argmax(axis=1)) if one_hot else true


def flag(value: Any, name: str, *, of: str) -> bool:
    """A bool; else `TypeError`."""
    return bool(checks.of_type(value, name, bool, of=of))
