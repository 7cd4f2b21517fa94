"""Which sizes of the arguments of a traced call are symbolic."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from ..ir.dims import Dim, symbol
from ..tree import is_tensor


@dataclass(frozen=True)
class Argument:
    """A tensor among the arguments of a call: what it is called, e.g. `x` or `states[0]`, and its shape."""

    name: str
    shape: tuple[Dim, ...]

    @property
    def identifier(self) -> str:
        """Its name as that of a value."""
        return re.sub(r"\W+", "_", self.name).strip("_")


def tensor_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> dict[int, Argument]:
    """The tensors among the arguments of a call, by identity, with symbols where `dynamic_shapes` names them.

    Args:
        function: what is called with the arguments: its parameters are the keys of a dict of specs.
        args: positional arguments.
        kwargs: keyword arguments.
        dynamic_shapes: a tuple with one spec for each positional argument, or a dict by parameter; None: all sizes are
            as given. The spec of a tensor is a dict from axes to names, or a tuple or list with a name or None for each
            axis; that of a tuple, list or dict of tensors has its structure.

    Raises:
        UsageError: the specs don't fit the arguments, or a name isn't an identifier.
    """
    found: dict[int, Argument] = {}
    bound = _bound(function, args, kwargs)
    if dynamic_shapes is None:
        specs: Mapping[str, Any] = {}
    elif isinstance(dynamic_shapes, dict):
        specs = dynamic_shapes
    elif isinstance(dynamic_shapes, (tuple, list)) and len(dynamic_shapes) <= len(bound):
        specs = dict(zip(bound, dynamic_shapes, strict=False))
    else:
        raise UsageError(f"dynamic_shapes: needed a dict or a tuple of at most {len(bound)} specs: {dynamic_shapes!r}")
    if unknown := sorted(set(specs) - set(bound)):
        raise UsageError(f"dynamic_shapes: there is no argument {unknown[0]!r}; given are {list(bound)}")
    for name, value in bound.items():
        _collect(value, specs.get(name), name, found)
    return found


def _bound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    construct = getattr(function, "construct", function)
    return dict(inspect.signature(construct).bind(*args, **kwargs).arguments)


def _collect(value: Any, spec: Any, where: str, found: dict[int, Argument]) -> None:
    if is_tensor(value):
        found[id(value)] = Argument(where, _shape(tuple(value.shape), spec, where))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _collect(item, _part(spec, key, where), f"{where}[{key!r}]", found)
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            _collect(item, _part(spec, i, where), f"{where}[{i}]", found)


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
