"""Symbolic sizes: from torch's SymPy expressions to the dimensions of the IR."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import ConversionError, UnsupportedOperators, UsageError
from ...runtime.ir.dims import Dim, maximum, minimum, symbol
from . import shapes_spec

MAX_FRACTION_PART = 2**16  # limit of numerator and denominator: torch's floats are then exact for sizes below 2**37


def as_dim(size: Any, names: Mapping[str, str]) -> Dim:
    """An int or `torch.SymInt` as a dimension; symbols are renamed by `names`."""
    return size if isinstance(size, int) else from_sympy(size.node.expr, names)


def as_expression(size: Any) -> Any:
    """The SymPy expression of a size; None for an int."""
    return None if isinstance(size, int) else size.node.expr


def from_sympy(expr: Any, names: Mapping[str, str]) -> Dim:
    """A SymPy expression as a dimension; `ConversionError` for one that isn't made of `+ - * // %`, max and min."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return symbol(names.get(str(expr), str(expr)))
    kind = type(expr).__name__
    if kind == "TruncToInt":
        return _scale(expr, names)
    arguments = [from_sympy(argument, names) for argument in expr.args]
    if expr.is_Add:
        return sum(arguments[1:], start=arguments[0])
    if expr.is_Mul:
        total: Dim = 1
        for argument in arguments:
            total = total * argument
        return total
    if expr.is_Pow and isinstance(arguments[1], int) and arguments[1] >= 0:
        total = 1
        for _ in range(arguments[1]):
            total = total * arguments[0]
        return total
    if kind in ("FloorDiv", "CleanDiv", "IntTrueDiv"):
        return arguments[0] // arguments[1]
    if kind in ("Mod", "PythonMod"):
        return arguments[0] % arguments[1]
    if kind in ("Max", "Min"):
        combine = maximum if kind == "Max" else minimum
        total = arguments[0]
        for argument in arguments[1:]:
            total = combine(total, argument)
        return total
    raise ConversionError(f"the size expression {expr} ({kind}) can't be expressed in a program")


def _scale(expr: Any, names: Mapping[str, str]) -> Dim:
    """A size times a float, rounded down, in integer arithmetic: exact if the float is a fraction of small integers."""
    factors: tuple[Any, ...] = expr.args[0].args if expr.args[0].is_Mul else ()
    if len(factors) == 2 and factors[0].is_Float and type(factors[1]).__name__ == "ToFloat":
        numerator, denominator = float(factors[0]).as_integer_ratio()
        if 0 < numerator <= MAX_FRACTION_PART and denominator <= MAX_FRACTION_PART:
            return from_sympy(factors[1].args[0], names) * numerator // denominator
    raise ConversionError(
        f"the size expression {expr} can't be expressed in a program; a size can only be multiplied by an integer or "
        "by a fraction such as 1.5 or 0.25"
    )


def parse_dims(dynamic_shapes: Any) -> Any:
    """`dynamic_shapes` with a `torch.export.Dim` for each name in it: `({0: "batch"},)`."""
    if shapes_spec.is_spec(dynamic_shapes):
        return dynamic_shapes
    if not isinstance(dynamic_shapes, (dict, tuple, list, type(None))):
        raise UsageError(
            "dynamic_shapes must be a tuple with an entry for each argument, or a dict of them by name, as in "
            f'({{0: "batch"}},) or {{"x": {{0: "batch"}}}}, or a ShapesSpec of torch 2.14 or newer; '
            f"given {dynamic_shapes!r}"
        )
    dims: dict[str, torch.export.Dim] = {}

    def to_dim(name: str) -> torch.export.Dim:
        if not name.isidentifier():
            raise UsageError(f"dynamic_shapes: a dimension's name must be an identifier, given {name!r}")
        return dims.setdefault(name, torch.export.Dim(name))

    return pytree.tree_map_only(str, to_dim, dynamic_shapes)


def require_axes(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> None:
    """Raise `UsageError` if a tensor lacks an axis that is to vary; torch reports other mistakes."""
    arguments: Any = (*args, *kwargs.values())
    if isinstance(dynamic_shapes, dict):
        arguments = dict(zip(inspect.signature(module.forward).parameters, args, strict=False)) | dict(kwargs)
    for tensor, spec in _with_specs(arguments, dynamic_shapes):
        for axis in spec if isinstance(spec, dict) else ():
            if axis not in range(-tensor.ndim, tensor.ndim):
                raise UsageError(
                    f"dynamic_shapes: {axis!r} is no axis of a tensor of shape {list(tensor.shape)}, whose axes are "
                    f"the integers from 0 to {tensor.ndim - 1}"
                )


def complete_shapes(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> Any:
    """`dynamic_shapes` with None for each argument that a dict by name leaves out: its axes are fixed."""
    if not isinstance(dynamic_shapes, dict):
        return dynamic_shapes
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError:  # the arguments don't fit: torch reports it
        return dynamic_shapes
    return dynamic_shapes if dynamic_shapes.keys() - bound.keys() else {n: dynamic_shapes.get(n) for n in bound}


def double_unit_axes(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs, repeated to size 2 along each axis that may vary and has size 1.

    torch.export treats a size of 0 or 1 as fixed. The program doesn't depend on the sizes it was captured with.
    """
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError:  # the arguments don't fit: torch reports it
        return args, kwargs
    arguments: Any = bound if isinstance(dynamic_shapes, dict) else tuple(bound.values())
    doubled: dict[int, torch.Tensor] = {}
    for tensor, spec in _with_specs(arguments, dynamic_shapes):
        entries = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        axes = [axis for axis, dim in entries if tensor.shape[axis] == 1 and _varies(dim)]
        for axis in axes:
            doubled[id(tensor)] = torch.cat([doubled.get(id(tensor), tensor)] * 2, axis)
    if not doubled:
        return args, kwargs

    def resize(leaf: Any) -> Any:
        return doubled.get(id(leaf), leaf)

    return pytree.tree_map(resize, (args, kwargs))  # type: ignore[no-any-return]


@contextlib.contextmanager
def note_doubled_axes(doubled: bool) -> Iterator[None]:
    """Within the context, an error about inputs that `double_unit_axes` has doubled mentions it."""
    try:
        yield
    except UnsupportedOperators:
        raise
    except (ConversionError, UsageError) as error:
        if not doubled:
            raise
        raise type(error)(f"{error}\n  note: axes of size 1 that dynamic_shapes lets vary were given size 2") from error


def _varies(dim: Any) -> bool:
    """Whether an entry of `dynamic_shapes` allows both sizes 1 and 2, and isn't a multiple of another size."""
    if isinstance(dim, torch.export.Dim):
        return type(dim) is torch.export.Dim and dim.min <= 2 <= dim.max
    return getattr(getattr(dim, "type", None), "name", "") == "DYNAMIC"


def gather_shapes(module: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any) -> Any:
    """`dynamic_shapes` as torch expects it for a `forward(*args)`: the entries of those arguments in one tuple."""
    kinds = [p.kind for p in inspect.signature(module.forward).parameters.values()]
    if not isinstance(dynamic_shapes, (tuple, list)) or inspect.Parameter.VAR_POSITIONAL not in kinds:
        return dynamic_shapes
    first = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    rest = tuple(dynamic_shapes[first:])
    is_gathered = len(rest) == 1 and isinstance(rest[0], (tuple, list))
    if is_gathered or len(dynamic_shapes) != len(args):
        return dynamic_shapes
    return (*dynamic_shapes[:first], rest)


def _with_specs(value: Any, spec: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    """The tensors in `value`, each with its entry in `spec`."""
    if isinstance(value, torch.Tensor):
        yield value, spec
    elif isinstance(value, (tuple, list)) and isinstance(spec, (tuple, list)):
        for item, of_item in zip(value, spec, strict=False):
            yield from _with_specs(item, of_item)
    elif isinstance(value, dict) and isinstance(spec, dict):
        for key, item in value.items():
            yield from _with_specs(item, spec.get(key))


def symbol_names(
    module: torch.nn.Module, args: Any, kwargs: Any, dynamic_shapes: Any, placeholders: list[torch.Tensor]
) -> dict[str, str]:
    """Names for torch's symbols: the user's name of a dimension in `dynamic_shapes`, where the size is a plain symbol.

    Args:
        module: the captured module; the specs follow the parameters of its `forward`.
        args: positional arguments of the capture.
        kwargs: keyword arguments of the capture.
        dynamic_shapes: as `torch.export.export` takes it.
        placeholders: the fake tensors of the graph's inputs, in flat order.
    """
    names: dict[str, str] = {}
    if dynamic_shapes is None:
        return names
    if shapes_spec.is_spec(dynamic_shapes):
        pairs = shapes_spec.tensors_with_sizes(module, args, kwargs, dynamic_shapes)
        for fake, (_, spec_sizes) in zip(placeholders, pairs, strict=True):
            for fake_size, spec_size in zip(fake.shape, spec_sizes, strict=True):
                name = getattr(spec_size, "name", "")
                if name.isidentifier() and name != "anon" and getattr(as_expression(fake_size), "is_Symbol", False):
                    names.setdefault(str(as_expression(fake_size)), name)
        return names
    bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    by_name = dynamic_shapes if isinstance(dynamic_shapes, dict) else dict(zip(bound, dynamic_shapes, strict=False))
    specs = {id(tensor): spec for tensor, spec in _with_specs(dict(bound), by_name)}
    tensors = [leaf for leaf in pytree.tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor)]
    for fake, tensor in zip(placeholders, tensors, strict=True):
        spec = specs.get(id(tensor))
        entries = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        for axis, dim in entries:
            name = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
            size: Any = fake.shape[axis]
            if name and str(name).isidentifier() and not isinstance(size, int) and size.node.expr.is_Symbol:
                names.setdefault(str(size.node.expr), str(name))
    return names
