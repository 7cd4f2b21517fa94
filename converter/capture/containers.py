"""Objects that hold tensors, registered as pytrees so that torch and the hooks flatten them in the same way.

torch flattens tuples, lists, dicts and registered classes. Other classes that hold tensors (a dataclass, a key-value
cache, a distribution) are registered here when a call's arguments or result contain an instance.
"""

from __future__ import annotations

import copy
import dataclasses
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.tree import TENSOR, Structure

_TRANSPARENT = (tuple, list, dict, deque)
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_CODE = (torch.nn.Module, type, types.FunctionType, types.MethodType, types.ModuleType)
_CLOSED = (torch.Tensor, torch.Generator, *_NUMBERS, *_CODE)


def open_containers(tree: Any) -> None:
    """Register the classes of the objects in `tree` with torch, so that it finds and names the tensors in them."""
    kind = pytree._get_node_type(tree)
    if kind not in pytree.SUPPORTED_NODES:
        if isinstance(tree, type):
            return
        if dataclasses.is_dataclass(tree):
            torch.export.register_dataclass(kind)
        elif _is_object(tree) and _holds_tensors(tree, set()):
            _register(kind)
        else:
            return
    node = pytree.SUPPORTED_NODES[kind]
    if node.flatten_with_keys_fn is None:  # a library registered its class without names of the leaves
        pytree.SUPPORTED_NODES[kind] = node._replace(flatten_with_keys_fn=_with_keys(node.flatten_fn))
    for child in node.flatten_fn(tree)[0]:
        open_containers(child)


def _with_keys(flatten: Any) -> Any:
    def flatten_with_keys(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, rest = flatten(x)
        names = list(x) if isinstance(x, dict) and len(x) == len(values) else None
        if names is not None:
            return [(pytree.MappingKey(name), value) for name, value in zip(names, values, strict=True)], rest
        return [(pytree.SequenceKey(index), value) for index, value in enumerate(values)], rest

    return flatten_with_keys


def is_stateful(x: Any) -> bool:
    """Whether `x` is an object that Cells may change, so that an inner call must receive that very object.

    The layers that receive a cache fill it. The tensors that they read from it and write to it cross no boundary.
    """
    return _is_object(x) and not isinstance(x, _TRANSPARENT) and not dataclasses.is_dataclass(x)


def _is_object(x: Any) -> bool:
    return hasattr(x, "__dict__") and not isinstance(x, _CLOSED)


def _holds_tensors(x: Any, visited: set[int]) -> bool:
    if isinstance(x, (torch.Tensor, *_NUMBERS)):
        return True
    if id(x) in visited:
        return False
    visited.add(id(x))
    return any(_holds_tensors(part, visited) for part in _parts(x))


def _parts(x: Any) -> Iterator[Any]:
    if isinstance(x, dict):
        yield from x.values()
    elif isinstance(x, (list, tuple, deque)):
        yield from x
    elif _is_object(x):
        yield from vars(x).values()


@dataclasses.dataclass(frozen=True)
class _Rest:
    """An object without its tensors: the names of the attributes that hold tensors, and all other attributes."""

    kind: type
    names: tuple[str, ...]
    others: dict[str, Any]


def _register(kind: type) -> None:
    pytree.register_pytree_node(
        kind,
        _flatten,
        _unflatten,
        flatten_with_keys_fn=_flatten_with_keys,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
    )


def _flatten(x: Any) -> tuple[list[Any], _Rest]:
    with_tensors = {name: value for name, value in vars(x).items() if _holds_tensors(value, set())}
    others = {name: value for name, value in vars(x).items() if name not in with_tensors}
    return list(with_tensors.values()), _Rest(type(x), tuple(with_tensors), others)


def _flatten_with_keys(x: Any) -> tuple[list[tuple[Any, Any]], _Rest]:
    values, rest = _flatten(x)
    return [(pytree.GetAttrKey(name), value) for name, value in zip(rest.names, values, strict=True)], rest


def _unflatten(values: Any, rest: _Rest) -> Any:
    x: Any = object.__new__(rest.kind)
    # a copy of the object needs its own lists, since the model may append to them
    copies = {
        name: copy.copy(value) if isinstance(value, _TRANSPARENT) else value for name, value in rest.others.items()
    }
    vars(x).update(copies | dict(zip(rest.names, values, strict=True)))
    return x


def structure(value: Any) -> Structure:
    """The structure of a call's arguments or result, as torch flattens it.

    Containers that only torch knows (such as a dataclass) become dicts of the fields that torch flattens.
    """
    if isinstance(value, torch.Tensor):
        return TENSOR
    identity = id(value)  # torch leaves a circle with the function behind, which would hold the value and its graph
    entries, spec = pytree.tree_flatten_with_path(value, is_leaf=lambda x: id(x) != identity)
    if spec.is_leaf():
        return Structure("constant", constant=value)
    children = tuple(structure(child) for _, child in entries)
    if isinstance(value, tuple):
        # a named tuple has `_fields`; torch's own (such as the result of max) have `__match_args__`
        fields = tuple(getattr(value, "_fields", None) or getattr(value, "__match_args__", None) or ())
        if not fields:
            return Structure("tuple", children)
        made_by = type(value) if hasattr(value, "_fields") else None
        return Structure("namedtuple", children, fields, type(value).__name__, made_by=made_by)
    if isinstance(value, list):
        return Structure("list", children)
    keys = tuple(_key(path[0]) for path, _ in entries)
    return Structure("dict", children, keys, "" if isinstance(value, Mapping) else type(value).__name__)


def _key(entry: Any) -> Any:
    """The key, attribute or index of an entry of a pytree path."""
    match entry:
        case pytree.MappingKey(key=key) | pytree.GetAttrKey(name=key) | pytree.SequenceKey(idx=key):
            return key
    return str(entry)
