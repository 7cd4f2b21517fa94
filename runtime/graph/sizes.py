"""Finds the tensors among the arguments of a traced call, and their symbolic sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..common.parameter import Parameter
from ..errors import UsageError
from ..ir.dims import Dim, symbol
from ..tree import is_tensor
from .boundaries import parameter_names


@dataclass(frozen=True)
class Argument:
    """A tensor among the arguments of a call: its name, e.g. `x` or `states[0]`, and its shape."""

    name: str
    shape: tuple[Dim, ...]
    is_parameter: bool = False

    @property
    def identifier(self) -> str:
        """The name as an identifier, for a value of the program."""
        return re.sub(r"\W+", "_", self.name).strip("_")


def is_input(leaf: Any) -> bool:
    """Whether an argument is an input of the program: a tensor or array, but not an `np.float64` (it is a `float`)."""
    return is_tensor(leaf) and not isinstance(leaf, float)


def tensor_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> list[Argument]:
    """Return the tensors among the arguments of a call, in flat order, with symbols for the sizes in `dynamic_shapes`.

    Args:
        function: the function that is called; the names of its parameters are the keys of a dict of specs.
        args: positional arguments.
        kwargs: keyword arguments.
        dynamic_shapes: a tuple with one spec for each argument, or a dict by parameter; None: all sizes are fixed. The
            spec of a tensor is a dict from axes to names, or a tuple or list with a name or None for each axis. The
            spec of a tuple, list or dict of tensors has the same structure.

    Raises:
        UsageError: the specs don't fit the arguments, or a name isn't an identifier.
    """
    names, _ = parameter_names(function, len(args))
    arguments = [*zip(names, args, strict=True), *kwargs.items()]
    if dynamic_shapes is None:
        specs: dict[str, Any] = {}
    elif isinstance(dynamic_shapes, dict):
        specs = {name: _of_parameter(name, dynamic_shapes) for name, _ in arguments}
        if unknown := sorted(set(dynamic_shapes) - {name.partition("[")[0] for name, _ in arguments}):
            raise UsageError(
                f"dynamic_shapes: there is no argument {unknown[0]!r}; there are {[n for n, _ in arguments]}"
            )
    elif isinstance(dynamic_shapes, (tuple, list)) and len(dynamic_shapes) <= len(arguments):
        specs = {name: spec for (name, _), spec in zip(arguments, dynamic_shapes, strict=False)}
    else:
        raise UsageError(
            f"dynamic_shapes: needed a dict or a tuple of at most {len(arguments)}, given {dynamic_shapes!r}"
        )
    return [argument for name, value in arguments for argument in _arguments(value, specs.get(name), name)]


def _arguments(value: Any, spec: Any, where: str) -> Iterator[Argument]:
    if is_input(value):
        yield Argument(where, _shape(tuple(value.shape), spec, where), isinstance(value, Parameter))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _arguments(item, _part(spec, key, where), f"{where}[{key!r}]")
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _arguments(item, _part(spec, i, where), f"{where}[{i}]")


def _of_parameter(name: str, specs: dict[str, Any]) -> Any:
    """Look up the spec of an argument in specs by parameter; `batch[1]` belongs to the parameter `*batch`."""
    parameter, _, index = name.partition("[")
    return _part(specs.get(parameter), int(index[:-1]), parameter) if index else specs.get(parameter)


def _part(spec: Any, key: Any, where: str) -> Any:
    if spec is None:
        return None
    try:
        return spec[key]
    except (KeyError, IndexError, TypeError):
        raise UsageError(f"dynamic_shapes: {where} needs a spec for {key!r}, given {spec!r}") from None


def _shape(sizes: tuple[int, ...], spec: Any, where: str) -> tuple[Dim, ...]:
    if spec is None:
        return sizes
    if isinstance(spec, (tuple, list)) and len(spec) == len(sizes):
        spec = dict(enumerate(spec))
    axes = range(-len(sizes), len(sizes))
    if not isinstance(spec, dict) or not all(isinstance(axis, int) and axis in axes for axis in spec):
        raise UsageError(
            f"dynamic_shapes: {where} has {len(sizes)} axes: needed a dict from axes to names, given {spec!r}"
        )
    dims: list[Dim] = list(sizes)
    for axis, name in spec.items():
        if name is None:
            continue
        if not isinstance(name, str) or not name.isidentifier():
            raise UsageError(f"dynamic_shapes: a dimension's name must be an identifier, given {name!r} for {where}")
        dims[axis] = symbol(name)
    return tuple(dims)
