"""`Parameter`: a named, trainable tensor of a Cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..current_trace import current
from ..per_thread import PerThread
from .dtype import dtype_name, float32, int32
from .elements import Data
from .tape import Tape
from .tensor import Tensor, as_data, from_array, initialize

DEFAULT_NAME = "Parameter"
"""The name of an unnamed Parameter."""


class Parameter(Tensor):
    """A named tensor that is trained unless `requires_grad` is False.

    Args:
        default_input: its value: a tensor, array, list or number. A Python int becomes int32, a float float32; arrays
            keep their dtype.
        name: its name; by default the name of the attribute that it is assigned to.
        requires_grad: whether it is trained.

    Raises:
        ValueError: `name` is neither None nor a string.
        TypeError: `requires_grad` isn't a bool, or `default_input` can't be a tensor.
    """

    _tape = PerThread[Tape | None](None)  # each thread differentiates on its own tape
    _number = PerThread(0)
    _is_leaf = True
    _requires_grad: bool
    _is_buffer = False  # untrained state of a Cell, such as moving statistics: becomes a buffer of programs

    def __init__(
        self,
        default_input: Any,
        name: str | None = None,
        requires_grad: bool = True,
        layerwise_parallel: bool = False,
        parallel_optimizer: bool = True,
    ) -> None:
        trace = current()
        if trace is not None:
            trace.guard.refuse_initial_values()
        if isinstance(default_input, bool):
            raise ValueError(f"a Parameter holds numbers, but got bool: {default_input!r}")
        if isinstance(default_input, tuple):
            raise TypeError(f"a Parameter is made of a Tensor, array, number or list, but got tuple: {default_input!r}")
        if isinstance(default_input, (int, float)):
            default_input = np.asarray(default_input, int32 if isinstance(default_input, int) else float32)
        super().__init__(default_input)
        self.name = name
        self.requires_grad = requires_grad
        self.layerwise_parallel = layerwise_parallel
        self.parallel_optimizer = parallel_optimizer

    @property
    def _data(self) -> Data:
        """The array; while Python is traced, the value at the current point of the program."""
        trace = current()
        return self._array if trace is None else trace.value_of(self)

    @_data.setter
    def _data(self, data: Data) -> None:
        trace = current()
        if trace is None or "_array" not in self.__dict__:
            self._array = data
        else:
            trace.assign(self, data)

    @property
    def name(self) -> str:
        """The name; after a Cell registers the Parameter, its path in the outermost Cell."""
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        if name is not None and not isinstance(name, str):
            raise ValueError(f"the name of a Parameter must be a string or None, but got {name!r}")
        self._name = name if name and name.strip() else DEFAULT_NAME

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained: `trainable_params()` lists it, and it gets a gradient other than zeros."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(
                f"`requires_grad` of Parameter '{self.name}' must be bool, but got {type(value).__name__}: {value!r}"
            )
        trace = current()
        if trace is not None and value is not self.__dict__.get("_requires_grad", value):
            trace.guard.refuse_flag_change(self.name)
        self._requires_grad = value

    @property
    def data(self) -> Tensor:
        """The value as a tensor without a gradient; assignment calls `set_data`."""
        return from_array(self._data)

    @data.setter
    def data(self, data: Tensor | float) -> None:
        self.set_data(data)

    def set_data(self, data: Tensor | float, slice_shape: bool = False) -> Parameter:
        """Replace the value; the new value is cast to the dtype of the Parameter.

        Args:
            data: a tensor or number with the shape of the Parameter.
            slice_shape: whether the shape may differ.

        Returns:
            The Parameter.

        Raises:
            TypeError: `data` is neither a tensor nor a number.
            ValueError: its shape differs and `slice_shape` is False.
        """
        if not isinstance(data, (Tensor, int, float)):
            raise TypeError(
                f"the data of Parameter '{self.name}' must be a Tensor or a number, but got {type(data)}: "
                "wrap it, Tensor(...)"
            )
        array = as_data(data, self.dtype)
        if array.shape != self.shape and not slice_shape:
            raise ValueError(
                f"the data of Parameter '{self.name}' must have shape {self.shape}, but got {array.shape}; "
                "slice_shape=True allows another shape"
            )
        self._rebind(from_array(array, data._tape, data._number) if isinstance(data, Tensor) else from_array(array))
        return self

    def clone(self, init: Any = "same") -> Parameter:
        """Return a copy with the same name and flags; its values come from the initializer `init`, unless "same"."""
        keeps_values = (isinstance(init, str) and init == "same") or 0 in self.shape
        data = from_array(self._data.copy()) if keeps_values else initialize(init, self.shape, self.dtype)
        copied = Parameter(data, self.name, self.requires_grad, self.layerwise_parallel, self.parallel_optimizer)
        copied._is_buffer = self._is_buffer
        return copied

    def _rebind(self, value: Tensor) -> None:
        self._data = value._data.astype(self.dtype, copy=False)
        self._tape, self._number = value._tape, value._number

    def __repr__(self) -> str:
        return (
            f"Parameter (name={self.name}, shape={self.shape}, dtype={dtype_name(self.dtype)}, "
            f"requires_grad={self.requires_grad})"
        )

    def __str__(self) -> str:
        return repr(self)

    def __reduce__(self) -> Any:
        return Parameter, (self._data, self._name, self._requires_grad), {"_is_buffer": self._is_buffer}

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        copied = self.clone()
        memo[id(self)] = copied
        return copied


class ParameterTuple(tuple[Parameter, ...]):
    """A tuple of Parameters with different names; unnamed ones become `Parameter$1`, `Parameter$2` and so on.

    Raises:
        TypeError: an element isn't a Parameter.
        ValueError: two different Parameters have the same name.
    """

    def __new__(cls, parameters: Iterable[Parameter]) -> ParameterTuple:
        """Check the Parameters and their names."""
        items = list(parameters)
        by_name: dict[str, Parameter] = {}
        numbers = itertools.count(1)
        for parameter in items:
            if not isinstance(parameter, Parameter):
                raise TypeError(f"a ParameterTuple holds Parameters, but got {type(parameter).__name__}")
            if parameter.name == DEFAULT_NAME:
                parameter.name = f"{DEFAULT_NAME}${next(numbers)}"
            if by_name.setdefault(parameter.name, parameter) is not parameter:
                raise ValueError(
                    f"{parameter!r}: its name '{parameter.name}' already exists among the parameters; give it another"
                )
        return super().__new__(cls, items)

    def rebuild(self, items: Iterable[Any]) -> tuple[Any, ...]:
        """Return a tuple with other items: a plain tuple unless all are Parameters."""
        result = tuple(items)
        return ParameterTuple(result) if all(isinstance(item, Parameter) for item in result) else result

    def clone(self, prefix: str, init: Any = "same") -> ParameterTuple:
        """Return copies named `prefix.name`; their values come from the initializer `init`, unless it is "same"."""
        copies = []
        for parameter in self:
            copy = parameter.clone(init)
            copy.name = f"{prefix}.{parameter.name}"
            copies.append(copy)
        return ParameterTuple(copies)
