"""Tensors that `forward` keeps in attributes or globals: a program keeps buffers only and would lose them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import ConversionError, UsageError
from ..seed import manual_seed
from ..warning import warn
from .copying import copy_module
from .export_errors import raise_if_eager_fails
from .holders import Place, places, preserve_state, walk_values
from .other_numbers import with_other_numbers

TensorIds = Mapping[Place, frozenset[int]]


def unregistered_tensors(root: torch.nn.Module) -> dict[Place, frozenset[int]]:
    """The tensors that a network holds besides its parameters and buffers, by place."""
    tensor_ids: dict[int, frozenset[int]] = {}  # modules share classes, globals and objects such as a configuration
    result: dict[Place, frozenset[int]] = {}
    for place, value in places(root):
        if id(value) not in tensor_ids:
            held = walk_values(value, _may_hold_tensors)
            tensor_ids[id(value)] = frozenset(id(x) for x in held if isinstance(x, torch.Tensor))
        result[place] = tensor_ids[id(value)]
    return result


def _may_hold_tensors(value: Any) -> bool:
    if isinstance(value, (torch.nn.Module, torch.Tensor, type, str, bytes, int, float)):
        return False
    return isinstance(value, (Mapping, list, tuple, set, frozenset, deque)) or not callable(value)


def new_places(before: TensorIds, after: TensorIds) -> list[Place]:
    """The places that hold tensors which they didn't hold before."""
    return [place for place, tensors in after.items() if tensors - before.get(place, frozenset())]


def refuse_state(module: torch.nn.Module, kept: list[Place], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise `ConversionError` if the tensors that a call keeps in these places change the result of the next call.

    If the module can't be copied, this can't be tested, and a `ConversionWarning` says so. A module that doesn't run on
    its inputs raises a `UsageError`.
    """
    if not kept:
        return
    raise_if_eager_fails(module, args, kwargs)
    modules = dict(module.named_modules())
    listed = [_describe(modules[place.path], place) for place in kept]
    where = "globals" if all(place.is_global for place in kept) else "Python attributes"
    try:
        matters = _affects_next_call(module, args, kwargs)
    except UsageError as error:
        message = (
            f"forward keeps tensors in {where}, {', '.join(line.partition(chr(10))[0] for line in listed)}: "
            f"the program forgets them, and whether the next call needs them can't be tested: {error}"
        )
        warn(message)
        return
    if matters:
        name = kept[0].name.lower() if kept[0].is_global else kept[0].name
        raise ConversionError(
            f"forward keeps tensors in {where} from one call to the next, and a program would forget them:\n"
            + "".join(f"  {line}\n" for line in listed)
            + "  what to do: keep them in buffers, which a program updates; in __init__ write "
            f'self.register_buffer("{name}", torch.zeros(...)), and in forward self.{name}.copy_(...); '
            "or pass them in as inputs and return them"
        )


def _affects_next_call(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a second call, on other numbers, differs from the first call of a copy that has the same buffers.

    Raises:
        UsageError: the module can't be copied.
    """
    try:
        return _differ(module, (args, kwargs), with_other_numbers((args, kwargs)))
    except UsageError:
        raise
    except Exception:  # noqa: BLE001  the model's own code may raise anything on numbers that it doesn't expect
        return _differ(module, (args, kwargs), (args, kwargs))


def _differ(module: torch.nn.Module, first: Any, then: Any) -> bool:
    with torch.random.fork_rng(devices=()), torch.no_grad():
        with preserve_state(module):
            network = copy_module(module)
            _call(network, *first)
            buffers = {path: {**part._buffers} for path, part in network.named_modules()}
            held = {id(b): b.clone() for tensors in buffers.values() for b in tensors.values() if b is not None}
            second = _call(network, *then)

        def run_fresh_copy() -> list[Any]:
            network = copy_module(module)
            for path, tensors in buffers.items():
                network.get_submodule(path)._buffers.update(
                    {name: None if b is None else held[id(b)].clone() for name, b in tensors.items()}
                )
            with preserve_state(module):
                return _call(network, *then)

        expected = run_fresh_copy()
        return not _same(second, expected) and _same(
            expected, run_fresh_copy()
        )  # unless it draws numbers outside of torch


def _call(network: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    manual_seed(0)
    return pytree.tree_leaves(network(*args, **kwargs))


def _same(a: list[Any], b: list[Any]) -> bool:
    def alike(x: Any, y: Any) -> bool:
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            return type(x) is type(y)
        return x.shape == y.shape and x.dtype == y.dtype and torch.allclose(x, y, rtol=0, atol=0, equal_nan=True)

    return len(a) == len(b) and all(map(alike, a, b))


def _describe(module: torch.nn.Module, place: Place) -> str:
    """The Cell, the attribute or global, and the line that sets it."""
    name = f"the global {place.name}" if place.is_global else f"self.{place.name}"
    return f"{place.path or '(root)'}, {type(module).__name__}: {name}{_line(type(module), place)}"


def _line(kind: type, place: Place) -> str:
    """The line, outside `__init__`, in which a class sets or else last names the attribute; empty if unknown."""
    try:
        lines, first = inspect.getsourcelines(kind)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return ""
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
    nodes = [node for method in methods for node in ast.walk(method)]
    uses: list[ast.Name] | list[ast.Attribute]
    if place.is_global:
        uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == place.name]
    else:
        uses = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == place.name]
    if not uses:
        return ""
    chosen = next((node for node in uses if isinstance(node.ctx, ast.Store)), uses[-1])
    return f"\n    at {inspect.getsourcefile(kind)}:{first + chosen.lineno - 1}: {lines[chosen.lineno - 1].strip()}"
