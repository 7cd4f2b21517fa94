"""Tensors that `forward` keeps in Python attributes: a program has buffers, and would forget the others."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import ConversionError, UsageError
from ..warning import warn
from .copying import copied
from .other_numbers import with_other_numbers
from .refusals import raise_if_eager_fails

DEEPEST = 4  # levels of containers and objects that are looked into

Kept = Mapping[tuple[str, str], frozenset[int]]


def kept_tensors(root: torch.nn.Module) -> dict[tuple[str, str], frozenset[int]]:
    """The tensors that modules hold in attributes, by path and name; no parameters and buffers."""
    found: dict[tuple[str, str], frozenset[int]] = {}
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if name not in _OF_EVERY_MODULE:
                found[path, name] = frozenset(map(id, _tensors_in(value, DEEPEST)))
    return found


_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


def _tensors_in(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and not isinstance(value, (torch.nn.Module, type, str, bytes, int, float)):
        parts: Iterable[Any] = ()
        if isinstance(value, Mapping):
            parts = list(value.values())
        elif isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
            parts = list(value)
        elif hasattr(value, "__dict__") and not callable(value):
            parts = list(vars(value).values())
        for part in parts:
            yield from _tensors_in(part, depth - 1)


def newly_kept(before: Kept, after: Kept) -> list[tuple[str, str]]:
    """The attributes, by path of the module and name, that hold tensors which they didn't hold before."""
    return [place for place, tensors in after.items() if tensors - before.get(place, frozenset())]


def refuse_state(
    module: torch.nn.Module, places: list[tuple[str, str]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise `ConversionError` if what a call keeps in these attributes changes what the next call gives.

    Of a module that can't be copied that can't be tried: a `ConversionWarning` says so. One that doesn't run on its
    inputs is a `UsageError`.
    """
    if not places:
        return
    raise_if_eager_fails(module, args, kwargs)
    modules = dict(module.named_modules())
    listed = [_described(modules[path], path, name) for path, name in places]
    try:
        matters = _matters(module, args, kwargs)
    except UsageError as error:
        message = (
            f"forward keeps tensors in Python attributes, {', '.join(line.partition(chr(10))[0] for line in listed)}: "
            f"the program forgets them, and whether the next call needs them can't be tried: {error}"
        )
        warn(message)
        return
    if matters:
        name = places[0][1]
        raise ConversionError(
            "forward keeps tensors in Python attributes from one call to the next, and a program would forget them:\n"
            + "".join(f"  {line}\n" for line in listed)
            + "  what to do: keep them in buffers, which a program updates; in __init__ write "
            f'self.register_buffer("{name}", torch.zeros(...)), and in forward self.{name}.copy_(...); '
            "or pass them in as inputs and return them"
        )


def _matters(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a second call, on other numbers, differs from the first one of a copy that has the same buffers.

    Raises:
        UsageError: the module can't be copied.
    """
    try:
        return _differ(module, (args, kwargs), with_other_numbers((args, kwargs)))
    except UsageError:
        raise
    except Exception:  # noqa: BLE001  the model's own code may raise anything on numbers that it isn't made for
        return _differ(module, (args, kwargs), (args, kwargs))


def _differ(module: torch.nn.Module, first: Any, then: Any) -> bool:
    with torch.random.fork_rng(devices=()), torch.no_grad():
        network = copied(module)
        _called(network, *first)
        buffers = {path: {**part._buffers} for path, part in network.named_modules()}
        held = {id(b): b.clone() for own in buffers.values() for b in own.values() if b is not None}
        second = _called(network, *then)

        def fresh() -> list[Any]:
            network = copied(module)
            for path, own in buffers.items():
                network.get_submodule(path)._buffers.update(
                    {name: None if b is None else held[id(b)].clone() for name, b in own.items()}
                )
            return _called(network, *then)

        expected = fresh()
        return not _same(second, expected) and _same(expected, fresh())  # not what draws numbers outside of torch


def _called(network: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    torch.manual_seed(0)
    return pytree.tree_leaves(network(*args, **kwargs))


def _same(a: list[Any], b: list[Any]) -> bool:
    def alike(x: Any, y: Any) -> bool:
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            return type(x) is type(y)
        return x.shape == y.shape and x.dtype == y.dtype and torch.allclose(x, y, rtol=0, atol=0, equal_nan=True)

    return len(a) == len(b) and all(map(alike, a, b))


def _described(module: torch.nn.Module, path: str, name: str) -> str:
    """The Cell, the attribute, and the line that sets it."""
    return f"{path or '(root)'}, {type(module).__name__}: self.{name}{_place(type(module), name)}"


def _place(kind: type, name: str) -> str:
    """Where a class, in a method other than `__init__`, names an attribute of its own last; empty if unknown."""
    try:
        lines, first = inspect.getsourcelines(kind)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return ""
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
    uses = [
        node
        for method in methods
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.value, ast.Name)
        if [node.value.id] == [argument.arg for argument in method.args.args[:1]]
    ]
    if not uses:
        return ""
    chosen = next((node for node in uses if isinstance(node.ctx, ast.Store)), uses[-1])
    return f"\n    at {inspect.getsourcefile(kind)}:{first + chosen.lineno - 1}: {lines[chosen.lineno - 1].strip()}"
