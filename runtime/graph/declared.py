"""The inputs that `set_inputs` and `input_signature` declare, whose sizes may be open."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..common.parameter import Parameter
from ..common.placeholder import OPEN_SIZE, Placeholder
from ..common.tensor import Tensor
from ..ir.dims import Dim, SymbolicDim, symbol
from ..tree import flatten
from .boundaries import parameter_names
from .signature import Shapes
from .sizes import is_input


@dataclass(frozen=True)
class DeclaredInputs:
    """The declared inputs of a function or Cell.

    Attributes:
        inputs: the declarations (placeholders, Tensors or Python values) by the names of parameters.
        is_complete: whether all inputs are declared.
        source: the function that declared them, for messages: `set_inputs`.
    """

    inputs: Mapping[str, Any]
    is_complete: bool
    source: str

    @classmethod
    def of(cls, function: Callable[..., Any], inputs: Any, *, of: str) -> DeclaredInputs:
        """Create the declaration from a tuple or list of all inputs, a dict of some, or a Tensor for a single input.

        Raises:
            TypeError: the function takes fewer inputs, or `inputs` has another type.
            ValueError: the function has no parameter of a given name.
        """
        if isinstance(inputs, Mapping):
            _, parameters = parameter_names(function, 0)
            if unknown := [name for name in inputs if name not in parameters]:
                raise ValueError(f"For '{of}', the inputs must be among {parameters}, but got {unknown[0]!r}")
            return cls(dict(inputs), False, of)
        if isinstance(inputs, Tensor):
            inputs = (inputs,)
        if not isinstance(inputs, (tuple, list)):
            raise TypeError(f"For '{of}', inputs must be Tensors, but got {type(inputs).__name__}: {inputs!r}")
        try:
            inspect.signature(getattr(function, "construct", function)).bind(*inputs)
        except TypeError as error:
            raise TypeError(f"For '{of}', got {len(inputs)} inputs, but the call would fail: {error}") from None
        names, _ = parameter_names(function, len(inputs))
        return cls(dict(zip(names, inputs, strict=True)), True, of)

    def arguments(self, function: Callable[..., Any]) -> tuple[Any, ...] | None:
        """The declared inputs as positional arguments; None if some aren't declared, or a rank is open."""
        if any(map(_has_open_rank, flatten(self.inputs)[0])):
            return None
        if self.is_complete:
            return tuple(self.inputs.values())
        try:
            bound = inspect.signature(getattr(function, "construct", function)).bind(**self.inputs)
        except TypeError:
            return None
        return None if bound.kwargs else bound.args

    def shapes(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Shapes, ...]:
        """Return candidate shapes for tracing a call, the most general first, for its tensors in flat order.

        In the first candidate, each open size has its own symbol; in the second, sizes that are equal in the call share
        one. A size of 1 stays fixed, because it broadcasts.

        Raises:
            TypeError: the call has undeclared inputs, or an input has another type or dtype.
            ValueError: an input has another shape.
        """
        names, _ = parameter_names(function, len(args))
        arguments = {**dict(zip(names, args, strict=True)), **kwargs}
        if self.is_complete and arguments.keys() - self.inputs.keys():
            raise TypeError(f"For '{self.source}', inputs are {list(self.inputs)}, but the call has {list(arguments)}")
        apart, shared = (
            tuple(
                shape
                for name, value in arguments.items()
                for shape in self._shapes(self.inputs.get(name), value, name, symbols)
            )
            for symbols in (_Symbols(are_shared=False), _Symbols(are_shared=True))
        )
        return (apart,) if apart == shared else (apart, shared)

    def _shapes(self, declared: Any, argument: Any, name: str, symbols: _Symbols) -> Iterator[tuple[Dim, ...]]:
        if isinstance(declared, Tensor):
            self._check(declared, argument, name)
        if is_input(argument):
            if not isinstance(argument, Parameter):
                is_open = isinstance(declared, Tensor) and isinstance(declared._data, Placeholder)
                yield symbols.shape(declared._data if is_open else None, argument.shape)
        elif isinstance(argument, (tuple, list, Mapping)):
            items = argument.items() if isinstance(argument, Mapping) else enumerate(argument)
            if isinstance(declared, (tuple, list, Mapping)) and (
                isinstance(declared, Mapping) is not isinstance(argument, Mapping) or len(declared) != len(argument)
            ):
                raise TypeError(
                    f"For '{self.source}', the input {name} must be like {declared!r}, but got {argument!r}"
                )
            for key, item in items:
                yield from self._shapes(_part(declared, key), item, f"{name}[{key!r}]", symbols)

    def _check(self, declared: Tensor, argument: Any, name: str) -> None:
        if not is_input(argument):
            raise TypeError(
                f"For '{self.source}', the input {name} must be a Tensor, but got {type(argument).__name__}"
            )
        if declared.dtype != argument.dtype:
            raise TypeError(
                f"For '{self.source}', the input {name} must have dtype {declared.dtype}, but got {argument.dtype}"
            )
        is_open = isinstance(declared._data, Placeholder)
        if not (declared._data.accepts(argument.shape) if is_open else tuple(declared.shape) == tuple(argument.shape)):
            shape = declared._data.text if is_open else list(declared.shape)
            raise ValueError(
                f"For '{self.source}', the input {name} must have shape {shape}, but got {list(argument.shape)}"
            )


@dataclass
class _Symbols:
    """Creates the symbols for open sizes; the open sizes of placeholders count as equal on the same axis."""

    are_shared: bool

    def __post_init__(self) -> None:
        self._by_size: dict[int, SymbolicDim] = {}
        self._count = 0

    def shape(self, declared: Placeholder | None, sizes: tuple[int, ...]) -> tuple[Dim, ...]:
        """Return the shape of an input, with symbols for open sizes."""
        if declared is None:
            return tuple(sizes)
        rank_is_open = declared.has_open_rank
        opened = [rank_is_open or declared.shape[axis] == OPEN_SIZE for axis in range(len(sizes))]
        return tuple(
            self._dim(size if size >= 0 else OPEN_SIZE - axis) if is_open and size != 1 else size
            for axis, (size, is_open) in enumerate(zip(sizes, opened, strict=True))
        )

    def _dim(self, size: int) -> Dim:
        if self.are_shared and size in self._by_size:
            return self._by_size[size]
        new = self._by_size[size] = symbol(f"size_{self._count}")
        self._count += 1
        return new


def _part(declared: Any, key: Any) -> Any:
    if isinstance(declared, Mapping):
        return declared.get(key)
    return declared[key] if isinstance(declared, (tuple, list)) else None


def _has_open_rank(x: Any) -> bool:
    return isinstance(x, Tensor) and isinstance(x._data, Placeholder) and x._data.has_open_rank
