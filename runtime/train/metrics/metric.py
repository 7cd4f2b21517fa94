"""`Metric`: the base class of metrics, which accumulate over batches and select their inputs from each."""

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
    """The base class of metrics: a subclass defines `clear`, `update` and `eval`.

    Call `clear()` before the first batch, `update(...)` with the outputs of each batch, and `eval()` at the end.
    Calling the metric does all three for one batch.
    """

    def __init__(self) -> None:
        self._indexes: list[int] | None = None

    @property
    def indexes(self) -> list[int] | None:
        """The positions of the arguments of `update` that the metric uses, in order; None: all."""
        return self._indexes

    def set_indexes(self: M, indexes: list[int]) -> M:
        """Choose the positions of the arguments of `update` that the metric uses, in order. Returns the metric.

        Raises:
            ValueError: `indexes` isn't a list of ints.
        """
        if not isinstance(indexes, list) or not all(isinstance(index, int) for index in indexes):
            raise ValueError(f"For 'set_indexes', 'indexes' must be a list of ints, but got {indexes!r}")
        self._indexes = indexes
        return self

    def __call__(self, *inputs: Any) -> Any:
        """Evaluate the metric on a single batch."""
        self.clear()
        self.update(*inputs)
        return self.eval()

    @abstractmethod
    def clear(self) -> None:
        """Reset the metric."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Add the results of a batch."""

    @abstractmethod
    def eval(self) -> Any:
        """Return the value of the metric; `RuntimeError` before the first batch."""

    def _convert_data(self, data: Any) -> Array:
        """Convert a tensor, list or array to an array; else `TypeError`."""
        if isinstance(data, (Tensor, np.ndarray, list)):
            return np.asarray(data)
        raise TypeError(
            f"For '{type(self).__name__}', an input must be a Tensor, an array or a list, but got {type(data).__name__}"
        )

    def _arrays(self, inputs: tuple[Any, ...], *names: str) -> list[Array]:
        """Convert the inputs to arrays; `ValueError` unless there are as many as names."""
        if len(inputs) != len(names):
            raise ValueError(
                f"For '{type(self).__name__}.update', needed {len(names)} inputs ({', '.join(names)}), but got "
                f"{len(inputs)}"
            )
        return [self._convert_data(data) for data in inputs]

    def _require_batches(self, count: Any) -> None:
        if not count:
            raise RuntimeError(
                f"For '{type(self).__name__}', there is no data yet: call update(...) with at least one sample "
                "before eval()"
            )


def rearrange_inputs(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an `update` method so that it gets only the inputs chosen by `set_indexes`."""

    @functools.wraps(func)
    def update(self: Metric, *inputs: Any) -> Any:
        return func(self, *(inputs if not self.indexes else (inputs[i] for i in self.indexes)))

    return update


class EvaluationBase(Metric):
    """The base class of metrics that compare predictions with labels.

    Args:
        eval_type: "classification": scores (N, C, ...) and classes (N, ...), or one-hot (N, C, ...).
            "multilabel": zeros and ones (N, C, ...) for both.

    Raises:
        TypeError: `eval_type` is unknown.
    """

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__()
        if eval_type not in EVAL_TYPES:
            raise TypeError(
                f"For '{type(self).__name__}', 'eval_type' must be one of {list(EVAL_TYPES)}, but got {eval_type!r}"
            )
        self._type = eval_type
        self._class_num = 0

    def _check_inputs(self, inputs: tuple[Any, ...]) -> tuple[Array, Array]:
        """Check the inputs, and return predicted scores or labels and true classes or labels."""
        predicted, true = self._arrays(inputs, "predicted", "true")
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
        self._check_classes(predicted.shape[1], true)
        return predicted, true

    def _check_classes(self, classes: int, true: Array) -> None:
        of = type(self).__name__
        if self._class_num not in (0, classes):
            raise ValueError(f"For '{of}.update', there were {self._class_num} classes before, but now {classes}")
        if self._type == "classification" and true.size and not 0 <= true.min() <= true.max() < classes:
            raise ValueError(
                f"For '{of}.update', classes must be in [0, {classes}), but got {true.min()} to {true.max()}"
            )
        self._class_num = classes


def without_one_hot(predicted: Array, true: Array) -> Array:
    """Convert one-hot labels with the shape of `predicted` to classes; return other labels unchanged."""
    one_hot = predicted.ndim == true.ndim > 1 and np.isin(true, (0, 1)).all() and (true.sum(axis=1) == 1).all()
    return np.asarray(true.argmax(axis=1)) if one_hot else true


def flag(value: Any, name: str, *, of: str) -> bool:
    """Check that an argument is a bool; else `TypeError`."""
    return bool(checks.of_type(value, name, bool, of=of))
