"""`Observer`: what crosses the boundaries of Cells while a function of JAX is traced, with taps for its gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from ....runtime.ir.types import CellCall
from ..cell_arguments import input_tensors, output_tensors
from ..records import INPUT, OUTPUT, Key


class Observer:
    """Records the values of one call of a network.

    At each boundary, a tap is added: a zero. The derivative with respect to a tap is the gradient that arrives at the
    boundary; at a Cell's input, the part of it that comes through this Cell.

    Args:
        taps: zeros by boundary; a boundary without one isn't differentiated.
        returns: makes what the network is said to return of its result; None for the result itself.

    Attributes:
        calls: the calls, in the order in which they began.
        values: the values by boundary.
    """

    def __init__(self, taps: Mapping[str, Any], returns: Callable[[Any], Any] | None = None) -> None:
        self.taps, self.returns = taps, returns
        self.calls: list[CellCall] = []
        self.values: dict[str, Any] = {}
        self.keys: dict[str, Key] = {}
        self._running: list[int] = []
        self._counts: dict[str, int] = {}

    def call(
        self, path: str, class_name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a Cell, and return its result."""
        index = self._counts.get(path, 0)
        self._counts[path] = index + 1
        self.calls.append(CellCall(path, class_name, index, self._running[-1] if self._running else None))
        self._running.append(len(self.calls) - 1)
        slots, tensors, with_tensors = input_tensors(function, args, kwargs, is_array)
        args, kwargs = with_tensors(self._cross_all(path, index, INPUT, slots, tensors))
        result = function(*args, **kwargs)
        self._running.pop()
        if not path and self.returns is not None:
            result = self.returns(result)
        slots, tensors, result_with = output_tensors(result, is_array)
        return result_with(self._cross_all(path, index, OUTPUT, slots, tensors))

    def _cross_all(self, path: str, index: int, kind: str, slots: Sequence[str], tensors: Sequence[Any]) -> list[Any]:
        return [self._cross(Key(path, index, kind, slot), x) for slot, x in zip(slots, tensors, strict=True)]

    def _cross(self, key: Key, value: Any) -> Any:
        name = str(len(self.keys))
        self.keys[name] = key
        if name in self.taps:
            value = value + self.taps[name]
        self.values[name] = jnp.asarray(value)
        return value


def is_array(value: Any) -> bool:
    """Whether a value is an array of JAX, or one that is traced."""
    return hasattr(value, "shape") and hasattr(value, "dtype")
