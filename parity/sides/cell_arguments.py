"""The arguments and results of Cells: their names, matched with those of modules, and their order."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...converter.capture.containers import structure
from ...runtime.errors import UsageError
from ...runtime.tree import Structure

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

_PLACEHOLDER = torch.empty(0)


def arguments_for(cell: Any, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """Return the module's arguments for the Cell: keywords that `construct` doesn't have become positional.

    Raises:
        UsageError: `construct` can't take these arguments.
    """
    signature = inspect.signature(cell.construct)
    with_keywords = _try_bind(signature, args, dict(kwargs))
    if with_keywords is not None:
        return args, dict(kwargs)
    module_binding = _try_bind(inspect.signature(module.forward), args, dict(kwargs))
    if module_binding is not None and _try_bind(signature, module_binding.args, module_binding.kwargs) is not None:
        return module_binding.args, module_binding.kwargs
    in_order = tuple(module_binding.arguments.values()) if module_binding is not None else args
    if _try_bind(signature, in_order, {}) is not None:
        return in_order, {}
    arguments = [*("a positional argument" for _ in args), *kwargs]
    raise UsageError(
        f"{type(cell).__name__}.construct{signature} doesn't take the arguments of "
        f"{type(module).__name__}.forward{inspect.signature(module.forward)}: given {', '.join(arguments) or 'none'}"
    )


def _try_bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        return None


def input_tensors(
    construct: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], is_tensor: Callable[[Any], bool]
) -> tuple[list[str], list[Any], Callable[[Sequence[Any]], Arguments]]:
    """Return the tensors among the arguments of a call, in the order of the parameters of `construct`.

    Returns:
        Their slots (`x`, `states[0]`), the tensors, and a function that builds the arguments with other tensors.
    """
    try:
        bound = _try_bind(inspect.signature(construct), args, kwargs)
    except (TypeError, ValueError):  # the signature isn't known
        bound = None
    by_name = bound.arguments if bound is not None else {f"args[{i}]": x for i, x in enumerate(args)} | kwargs
    leaves, structure = pytree.tree_flatten_with_path(dict(by_name))
    values = [leaf for _, leaf in leaves]
    places = [i for i, leaf in enumerate(values) if is_tensor(leaf)]
    slots = [_slot(leaves[i][0]) for i in places]

    def rebuild(tensors: Sequence[Any]) -> Arguments:
        for position, tensor in zip(places, tensors, strict=True):
            values[position] = tensor
        whole = pytree.tree_unflatten(values, structure)
        if bound is None:
            count = len(args)
            return tuple(list(whole.values())[:count]), dict(list(whole.items())[count:])
        bound.arguments.update(whole)
        return bound.args, bound.kwargs

    return slots, [values[i] for i in places], rebuild


def _slot(path: tuple[Any, ...]) -> str:
    return f"{path[0].key}{pytree.keystr(path[1:])}"


def output_tensors(
    output: Any, is_tensor: Callable[[Any], bool]
) -> tuple[list[str], list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the slots (`result`, `[1][0]`) of a result's tensors, the tensors, and a function to replace them."""
    leaves, structure = pytree.tree_flatten_with_path(output)
    values = [leaf for _, leaf in leaves]
    places = [i for i, leaf in enumerate(values) if is_tensor(leaf)]

    def rebuild(tensors: Sequence[Any]) -> Any:
        for position, tensor in zip(places, tensors, strict=True):
            values[position] = tensor
        return pytree.tree_unflatten(values, structure)

    return [pytree.keystr(leaves[i][0]) or "result" for i in places], [values[i] for i in places], rebuild


def reference_slots(slots: Sequence[str], reference: Sequence[str]) -> list[str | None]:
    """Return the reference's slot for each input: by name if all are equal, else by position; None for extra ones."""
    if set(slots) == set(reference):
        return list(slots)
    return [reference[i] if i < len(reference) else None for i in range(len(slots))]


def result_structure(output: Any, is_tensor: Callable[[Any], bool]) -> Structure:
    """The structure of a call's result, without its tensors."""
    return structure(pytree.tree_map(lambda leaf: _PLACEHOLDER if is_tensor(leaf) else leaf, output))


def nest_outputs(slots: Sequence[str], values: Sequence[Any]) -> Any:
    """Build tuples and dicts with `values` at the slots of a result, such as `[1][0]` and `['logits']`.

    Slots of another form give a flat tuple.
    """
    if list(slots) == ["result"]:
        return values[0]
    if not all(re.fullmatch(r"(\[\d+\]|\['[^']*'\])+", slot) for slot in slots):
        return tuple(values)
    paths = [[part.strip("'") for part in slot[1:-1].split("][")] for slot in slots]
    return _nest(list(zip(paths, values, strict=True)))


def _nest(items: list[tuple[list[str], Any]]) -> Any:
    if len(items) == 1 and not items[0][0]:
        return items[0][1]
    groups: dict[str, list[tuple[list[str], Any]]] = {}
    for path, value in items:
        groups.setdefault(path[0], []).append((path[1:], value))
    if all(key.isdigit() for key in groups):
        return tuple(_nest(group) for group in groups.values())
    return {key: _nest(group) for key, group in groups.items()}
