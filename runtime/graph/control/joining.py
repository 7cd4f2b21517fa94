"""Joins the results of two branches: tensors become outputs of a `cond`, other values must be the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...common.dtype import bool_, dtype_name, float32, int64
from ...common.tensor import Tensor
from ...errors import UnsupportedPython
from ...ir.types import is_floating
from ...tree import map_leaves, rebuild
from ..current import Recording
from ..objects import is_same
from .state import Undefined

_NUMBERS = (bool, int, float, np.generic)


@dataclass(frozen=True)
class _Constant:
    """A value that is the same in both branches."""

    value: Any


@dataclass(frozen=True)
class _Output:
    """The index of an output of the `cond`."""

    number: int


class BranchJoiner:
    """Collects the results of two branches.

    Args:
        trace: the trace.
        when: the names of the branches in errors, in order.

    Attributes:
        pairs: for each output, the value from the first and from the second branch: symbolic data, or arrays.
    """

    def __init__(self, trace: Recording, when: tuple[str, str] = ("the true branch", "the false branch")) -> None:
        self._trace = trace
        self._when = when
        self.pairs: list[tuple[Any, Any]] = []

    def join(self, a: Any, b: Any, what: str, *, may_be_undefined: bool = False) -> Any:
        """Join the results of both branches; `fill_outputs` replaces the placeholders in the returned value by outputs.

        Args:
            a: the result of the first branch.
            b: the result of the second branch.
            what: the name of the result in errors.
            may_be_undefined: whether code reads the result only where it is defined.

        Raises:
            UnsupportedPython: the results differ in more than the elements of tensors.
        """
        if isinstance(a, Undefined) or isinstance(b, Undefined):
            if not may_be_undefined:
                return _Constant(a if isinstance(a, Undefined) else b)
            a, b = (
                (zeros_like_nested(b) if isinstance(a, Undefined) else a),
                (zeros_like_nested(a) if isinstance(b, Undefined) else b),
            )
        if is_same(a, b):
            return _Constant(a)
        if _is_tensor(a) or _is_tensor(b):
            return self._output(a, b, what)
        if isinstance(a, (tuple, list, dict)) and type(a) is type(b):
            return self._container(a, b, what)
        if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
            return self._output(a, b, what)
        if type(a) is type(b) and a == b and isinstance(a, (bytes, frozenset, set, slice, range, np.dtype)):
            return _Constant(a)
        raise self._refusal(f"{what} is {describe(a)} in {self._when[0]} and {describe(b)} in {self._when[1]}")

    def _container(self, a: Any, b: Any, what: str) -> Any:
        if isinstance(a, dict) and [*a] != [*b]:
            raise self._refusal(f"{what} has the keys {[*a]} in {self._when[0]} and {[*b]} in {self._when[1]}")
        if len(a) != len(b):
            raise self._refusal(f"{what} has {len(a)} items in {self._when[0]} and {len(b)} in {self._when[1]}")
        keys = [*a] if isinstance(a, dict) else range(len(a))
        return rebuild(a, [self.join(a[key], b[key], f"{what}[{key!r}]") for key in keys])

    def _output(self, a: Any, b: Any, what: str) -> _Output:
        """Add an output for a tensor or number in both branches."""
        dtype = _common_dtype(a, b)
        if dtype is None:
            raise self._refusal(f"{what} is {describe(a)} in {self._when[0]} and {describe(b)} in {self._when[1]}")
        first, second = _data(a, dtype), _data(b, dtype)
        if len(first.shape) != len(second.shape) or any(
            x != y and 1 in (x, y) for x, y in zip(first.shape, second.shape, strict=True)
        ):
            raise self._refusal(
                f"{what} has shape {tuple(first.shape)} in {self._when[0]} and {tuple(second.shape)} in {self._when[1]}"
            )
        self.pairs.append((first, second))
        return _Output(len(self.pairs) - 1)

    def _refusal(self, what: str) -> Exception:
        return self._trace.guard.refusal(
            UnsupportedPython,
            f"cannot join the results of two branches, between which the program decides when it runs: {what}",
            "make both results alike: tensors of the same dtype and shape (`.astype`, `ops.zeros_like`), in the same "
            "tuples, lists and dicts",
        )


def fill_outputs(joined: Any, outputs: Sequence[Tensor]) -> Any:
    """Put the outputs into the structure that `BranchJoiner.join` returned."""
    return map_leaves(lambda leaf: outputs[leaf.number] if isinstance(leaf, _Output) else leaf.value, joined)


def zeros_like_nested(value: Any) -> Any:
    """Replace tensors by zeros."""
    return map_leaves(lambda leaf: _Zeros(leaf.dtype, tuple(leaf.shape)) if _is_tensor(leaf) else leaf, value)


class _Zeros(Tensor):
    """Zeros of a shape that may be symbolic; user code never sees it."""

    def __init__(self, dtype: Any, shape: tuple[Any, ...]) -> None:
        from ...common.tensor import create
        from ...ops import creation

        self._data = create(creation.full, shape=shape, value=0, dtype=dtype)._data


def describe(value: Any) -> str:
    """Describe a value in an error; a tensor by dtype and shape."""
    if isinstance(value, Undefined):
        return "not defined"
    if _is_tensor(value):
        return f"a tensor of {dtype_name(value.dtype)}{list(value.shape)}"
    if isinstance(value, (str, bool, int, float, type(None))) and len(repr(value)) < 60:
        return repr(value)
    return f"a {type(value).__name__}"


def number_dtype(value: Any) -> Any:
    """The dtype of the tensor that a Python number becomes."""
    if isinstance(value, np.generic):
        return value.dtype
    return bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else float32


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray))


def _common_dtype(a: Any, b: Any) -> Any:
    """The dtype of an output, None if there is no common one; a number takes the dtype of a tensor of its kind."""
    if _is_tensor(a) and _is_tensor(b):
        return a.dtype if a.dtype == b.dtype else None
    if _is_tensor(a) or _is_tensor(b):
        tensor, number = (a, b) if _is_tensor(a) else (b, a)
        if not isinstance(number, _NUMBERS) or (number_dtype(number) == bool_) != (tensor.dtype == bool_):
            return None
        return tensor.dtype if is_floating(tensor.dtype) or not is_floating(number_dtype(number)) else None
    first, second = number_dtype(a), number_dtype(b)
    if first == second:
        return first
    return None if bool_ in (first, second) else float32 if is_floating(first) or is_floating(second) else int64


def _data(value: Any, dtype: Any) -> Any:
    """The symbolic data or the array of a tensor or number."""
    if isinstance(value, Tensor):
        return value._data
    return np.asarray(value, dtype)
