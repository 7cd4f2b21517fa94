"""The arguments and results of Cells: named as those of modules are, and passed as a Cell takes them."""

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

_STAND_IN = torch.empty(0)


def arguments(cell: Any, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """The module's arguments as the Cell takes them: keywords that `construct` doesn't know go by position.

    Raises:
        UsageError: `construct` doesn't take so many.
    """
    signature = inspect.signature(cell.construct)
    with_keywords = _bound(signature, args, dict(kwargs))
    if with_keywords is not None:
        return args, dict(kwargs)
    known = _bound(inspect.signature(module.forward), args, dict(kwargs))
    if known is not None and _bound(signature, known.args, known.kwargs) is not None:
        return known.args, known.kwargs
    topological_order = tuple(known.arguments.values()) if known is not None else args
    if _bound(signature, topological_order, {}) is not None:
        return topological_order, {}
    given = [*("a positional argument" for _ in args), *kwargs]
    raise UsageError(
        f"{type(cell).__name__}.construct{signature} doesn't take the arguments of "
        f"{type(module).__name__}.forward{inspect.signature(module.forward)}: given {', '.join(given) or 'none'}"
    )


def _bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        return None


def input_tensors(
    construct: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], is_tensor: Callable[[Any], bool]
) -> tuple[list[str], list[Any], Callable[[Sequence[Any]], Arguments]]:
    """The tensors among the arguments of a call, in the order of the parameters of `construct`.

    Returns:
        Their slots (`x`, `states[0]`), the tensors, and what puts others in their place.
    """
    bound = _bound(inspect.signature(construct), args, kwargs)
    named = bound.arguments if bound is not None else {f"args[{i}]": x for i, x in enumerate(args)} | kwargs
    found, structure = pytree.tree_flatten_with_path(dict(named))
    values = [leaf for _, leaf in found]
    places = [i for i, leaf in enumerate(values) if is_tensor(leaf)]
    slots = [_slot(found[i][0]) for i in places]

    def replaced(tensors: Sequence[Any]) -> Arguments:
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        whole = pytree.tree_unflatten(values, structure)
        if bound is None:
            count = len(args)
            return tuple(list(whole.values())[:count]), dict(list(whole.items())[count:])
        bound.arguments.update(whole)
        return bound.args, bound.kwargs

    return slots, [values[i] for i in places], replaced


def _slot(path: tuple[Any, ...]) -> str:
    return f"{path[0].key}{pytree.keystr(path[1:])}"


def output_tensors(
    output: Any, is_tensor: Callable[[Any], bool]
) -> tuple[list[str], list[Any], Callable[[Sequence[Any]], Any]]:
    """The tensors in what a call returned: their slots (`result`, `[1][0]`), they, and what replaces them."""
    found, structure = pytree.tree_flatten_with_path(output)
    values = [leaf for _, leaf in found]
    places = [i for i, leaf in enumerate(values) if is_tensor(leaf)]

    def replaced(tensors: Sequence[Any]) -> Any:
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        return pytree.tree_unflatten(values, structure)

    return [pytree.keystr(found[i][0]) or "result" for i in places], [values[i] for i in places], replaced


def counterparts(slots: Sequence[str], reference: Sequence[str]) -> list[str | None]:
    """What the reference calls each input: the same where all names are the same, else by position; None for more."""
    if set(slots) == set(reference):
        return list(slots)
    return [reference[i] if i < len(reference) else None for i in range(len(slots))]


def result_structure(output: Any, is_tensor: Callable[[Any], bool]) -> Structure:
    """What a call returned, its tensors taken out."""
    return structure(pytree.tree_map(lambda leaf: _STAND_IN if is_tensor(leaf) else leaf, output))


def nested(slots: Sequence[str], values: Sequence[Any]) -> Any:
    """Tuples and dicts with `values` at the slots of a result: `[1][0]`, `['logits']`; flat where a slot is neither."""
    if list(slots) == ["result"]:
        return values[0]
    if not all(re.fullmatch(r"(\[\d+\]|\['[^']*'\])+", slot) for slot in slots):
        return tuple(values)
    paths = [[part.strip("'") for part in slot[1:-1].split("][")] for slot in slots]
    return _nested(list(zip(paths, values, strict=True)))


def _nested(items: list[tuple[list[str], Any]]) -> Any:
    if len(items) == 1 and not items[0][0]:
        return items[0][1]
    groups: dict[str, list[tuple[list[str], Any]]] = {}
    for path, value in items:
        groups.setdefault(path[0], []).append((path[1:], value))
    if all(key.isdigit() for key in groups):
        return tuple(_nested(group) for group in groups.values())
    return {key: _nested(group) for key, group in groups.items()}
