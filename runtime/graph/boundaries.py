"""Marks the input and output Tensors of a Cell call, and names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..tree import map_with_path

Mark = Callable[[Tensor, str], Any]


def mark_arguments(
    signature_of: Any, args: tuple[Any, ...], kwargs: dict[str, Any], mark: Mark
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Replace each Tensor in the arguments of a call by `mark(tensor, slot)`, in the order of the parameters.

    Parameters aren't marked: they belong to their Cell, wherever they are passed.
    """
    names, parameters = parameter_names(signature_of, len(args))
    order = {name: index for index, name in enumerate(parameters)}
    arguments: list[tuple[int, Any, str, Any]] = [
        (order.get(name.partition("[")[0], len(order)), index, name, arg)
        for index, (name, arg) in enumerate(zip(names, args, strict=True))
    ]
    arguments += [(order.get(name, len(order)), name, name, arg) for name, arg in kwargs.items()]
    marked = {key: _mark(arg, name, mark) for _, key, name, arg in sorted(arguments, key=lambda item: item[0])}
    return tuple(marked[index] for index in range(len(args))), {name: marked[name] for name in kwargs}


def mark_results(result: Any, mark: Mark) -> Any:
    """Replace each Tensor in the result of a call by `mark(tensor, slot)`."""
    return _mark(result, "", lambda x, slot: mark(x, slot or "result"))


def _mark(item: Any, slot: str, mark: Mark) -> Any:
    def mark_leaf(slot: str, leaf: Any) -> Any:
        return mark(leaf, slot) if isinstance(leaf, Tensor) and not isinstance(leaf, Parameter) else leaf

    return map_with_path(mark_leaf, item, slot)


def parameter_names(signature_of: Any, count: int) -> tuple[list[str], list[str]]:
    """Return names for `count` positional arguments of a Cell or function, and the names of all its parameters."""
    signature = _signature(getattr(signature_of, "construct", signature_of))
    parameters = list(signature.parameters.values()) if signature else []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    names = [positional[i] if i < len(positional) else f"{rest}[{i - len(positional)}]" for i in range(count)]
    return names, [p.name for p in parameters]


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # a built-in function
        return None
