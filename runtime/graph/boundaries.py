"""The Tensors that go into a Cell and come out of it, and what each is called there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..tree import map_with_path

Mark = Callable[[Tensor, str], Any]


def crossing_in(
    signed: Any, args: tuple[Any, ...], kwargs: dict[str, Any], mark: Mark
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with `mark(tensor, slot)` in place of each Tensor, in the order of the parameters.

    A Parameter stays what it is: it belongs to a Cell, wherever it is handed to.
    """
    names, parameters = parameter_names(signed, len(args))
    order = {name: place for place, name in enumerate(parameters)}
    given: list[tuple[int, Any, str, Any]] = [
        (order.get(name.partition("[")[0], len(order)), place, name, arg)
        for place, (name, arg) in enumerate(zip(names, args, strict=True))
    ]
    given += [(order.get(name, len(order)), name, name, arg) for name, arg in kwargs.items()]
    crossed = {key: _marked(arg, name, mark) for _, key, name, arg in sorted(given, key=lambda item: item[0])}
    return tuple(crossed[place] for place in range(len(args))), {name: crossed[name] for name in kwargs}


def crossing_out(result: Any, mark: Mark) -> Any:
    """The result of a call with `mark(tensor, slot)` in place of each Tensor."""
    return _marked(result, "", lambda x, slot: mark(x, slot or "result"))


def _marked(item: Any, slot: str, mark: Mark) -> Any:
    def mark_leaf(slot: str, leaf: Any) -> Any:
        return mark(leaf, slot) if isinstance(leaf, Tensor) and not isinstance(leaf, Parameter) else leaf

    return map_with_path(mark_leaf, item, slot)


def parameter_names(signed: Any, count: int) -> tuple[list[str], list[str]]:
    """What `count` positional arguments of a Cell or function are called, and all its parameters in order."""
    signature = _signature(getattr(signed, "construct", signed))
    parameters = list(signature.parameters.values()) if signature else []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    names = [positional[i] if i < len(positional) else f"{rest}[{i - len(positional)}]" for i in range(count)]
    return names, [p.name for p in parameters]


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # of a built-in function
        return None
