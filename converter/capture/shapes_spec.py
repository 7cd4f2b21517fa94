"""`ShapesSpec` and `ParamsSpec`, which declare the sizes that may vary in torch 2.14 and newer.

Their sizes are unbacked symbols of torch: the module may not branch on their values.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import UsageError
from ..torch_version import has_change

KINDS = ("ShapesSpec", "ParamsSpec")
_MODULE = "torch.fx.experimental.dynamic_spec"


def is_spec(dynamic_shapes: Any) -> bool:
    """Whether `dynamic_shapes` is a spec, rather than a tuple or a dict of `Dim`s."""
    kind = type(dynamic_shapes)
    return kind.__module__ == _MODULE and kind.__name__ in KINDS and has_change("ShapesSpec")


def resolve_spec(module: torch.nn.Module, dynamic_shapes: Any) -> Any:
    """`dynamic_shapes`, or the spec that `@dynamic_spec` attached to the module's `forward`.

    Raises:
        UsageError: both exist.
    """
    attached = getattr(module.forward, "_dynamic_spec", None)
    if attached is None:
        return dynamic_shapes
    if dynamic_shapes is not None and dynamic_shapes is not attached:
        raise UsageError("forward has a @dynamic_spec, and dynamic_shapes was passed: leave out one of the two")
    return attached


def leaf_specs(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any) -> list[Any]:
    """The part of the spec for each leaf of the arguments, in flat order; None for a fixed one.

    Raises:
        UsageError: the spec doesn't fit the arguments.
    """
    # imported by name: mypy may run with a torch that lacks the module
    binding: Any = importlib.import_module("torch.fx.experimental._spec_binding")
    whole = importlib.import_module(_MODULE)._coerce_to_shapes_spec(spec)
    try:
        return list(binding._bind_spec_to_args(module, args, kwargs, whole)[0])
    except ValueError as error:
        raise UsageError(f"dynamic_shapes: {error}") from error


def tensors_with_sizes(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any
) -> Iterator[tuple[torch.Tensor, list[Any]]]:
    """The tensors among the arguments, each with a size, a variable or None for each of its axes."""
    leaves = pytree.tree_leaves((args, kwargs))
    for leaf, leaf_spec in zip(leaves, leaf_specs(module, args, kwargs, spec), strict=True):
        if isinstance(leaf, torch.Tensor):
            sizes = [None] * leaf.ndim if leaf_spec is None else list(leaf_spec)
            if len(sizes) != leaf.ndim:
                raise UsageError(
                    f"dynamic_shapes: a TensorSpec has {len(sizes)} sizes for a tensor of shape {list(leaf.shape)}"
                )
            yield leaf, sizes
        elif leaf_spec is not None and not isinstance(leaf_spec, int):
            raise UsageError(f"dynamic_shapes: the argument {leaf!r} can't vary: only sizes of tensors can")


def variables(spec: Any) -> dict[str, tuple[int, int | None]]:
    """The smallest and the largest size of each named variable of the spec."""
    bounds: dict[str, tuple[int, int | None]] = {}
    for variable in _variables(spec):
        if variable.name != "anon":
            bounds[variable.name] = max(1, variable.min or 0), variable.max
    return bounds


def spec_predicate(spec: Any) -> Callable[[dict[str, int]], bool]:
    """A predicate: whether all assumptions of the spec hold for given sizes, by the names of their variables."""
    symbols = {variable.sympy_sym: variable.name for variable in _variables(spec)}

    def agrees(sizes: dict[str, int]) -> bool:
        numbers = {symbol: sizes[name] for symbol, name in symbols.items() if name in sizes}
        return all(bool(a.node.expr.subs(numbers)) for a in getattr(spec, "assumptions", ()))

    return agrees


def _variables(spec: Any) -> list[Any]:
    kind: Any = importlib.import_module(_MODULE).IntVar
    variables: list[Any] = []

    def visit(value: Any) -> None:
        if isinstance(value, kind):
            variables.append(value)
        elif isinstance(value, dict):
            for inner in value.values():
                visit(inner)
        elif isinstance(value, (list, tuple)):
            for inner in value:
                visit(inner)
        elif type(value).__module__ == _MODULE:
            visit(vars(value))

    visit(spec)
    return variables
