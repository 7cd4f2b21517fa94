"""Nested arguments and results: tuples, lists and dicts with tensors as leaves, flattened and rebuilt.

A `Structure` is what is left when the tensors are taken out: it can be compared, printed, and written as JSON.
"""

from __future__ import annotations

import functools
import keyword
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import UsageError
from .tensor_like import TensorLike


@dataclass(frozen=True, slots=True)
class Structure:
    """The shape of a nested object.

    `kind` is "tensor" (a leaf), "constant" (a leaf that isn't a tensor; `constant` is its value), or a container:
    "tuple", "list", "dict", "namedtuple". `keys` are a dict's keys or a namedtuple's fields, `name` its class name; a
    dict with a name was an object with the keys as attributes (a dataclass, say). `made_by` is a namedtuple's class,
    which files don't keep.
    """

    kind: str
    children: tuple[Structure, ...] = ()
    keys: tuple[Any, ...] = ()
    name: str = ""
    constant: Any = None
    made_by: Any = field(default=None, compare=False, repr=False)

    @property
    def tensors(self) -> int:
        """How many tensors it holds."""
        return 1 if self.kind == "tensor" else sum(child.tensors for child in self.children)

    def paths(self, prefix: str = "") -> list[str]:
        """Where each tensor stands, in flat order, e.g. `[0]`, `['mask']`, `[1][0]`."""
        if self.kind == "tensor":
            return [prefix]
        labels = self.keys if self.keys else range(len(self.children))
        pairs = zip(labels, self.children, strict=True)
        return [path for label, child in pairs for path in child.paths(f"{prefix}[{label!r}]")]

    def to_json(self) -> Any:
        """As JSON values."""
        if self.kind == "tensor":
            return "tensor"
        if self.kind == "constant":
            return {"constant": self.constant}
        written: dict[str, Any] = {self.kind: [child.to_json() for child in self.children]}
        if self.keys:
            written["keys"] = [{"tuple": list(key)} if isinstance(key, tuple) else key for key in self.keys]
        if self.name:
            written["name"] = self.name
        return written

    @staticmethod
    def from_json(written: Any) -> Structure:
        """The structure that `to_json` wrote; `ValueError` for anything else."""
        if written == "tensor":
            return TENSOR
        if isinstance(written, dict):
            if "constant" in written:
                return Structure("constant", constant=written["constant"])
            for kind in ("tuple", "list", "dict", "namedtuple"):
                if kind in written:
                    children = tuple(Structure.from_json(child) for child in written[kind])
                    keys = tuple(tuple(k["tuple"]) if isinstance(k, dict) else k for k in written.get("keys", ()))
                    _require_keys(kind, len(children), keys, written.get("name", ""))
                    return Structure(kind, children, keys, written.get("name", ""))
        raise ValueError(f"not a structure: {str(written)[:200]}")


def _require_keys(kind: str, count: int, keys: tuple[Any, ...], name: Any) -> None:
    """Raise `ValueError` unless a container with these keys and this name can be made."""
    if len(keys) != (count if kind in ("dict", "namedtuple") else 0) or len(set(keys)) != len(keys):
        raise ValueError(f"a {kind} of {count} values can't have {len(keys)} keys, {len(set(keys))} of them different")
    words = [name, *keys] if kind == "namedtuple" else []
    attributes = keys if kind == "dict" and name else ()  # they are read off an object
    if (
        not isinstance(name, str)
        or not all(isinstance(word, str) and _is_name(word) for word in words)
        or not all(isinstance(key, str) and key.isidentifier() and not key.startswith("__") for key in attributes)
    ):
        raise ValueError(f"a {kind} named {str(name)[:100]!r} with the keys {str(keys)[:100]} can't be made")


def _is_name(word: str) -> bool:
    return word.isidentifier() and not word.startswith("_") and not keyword.iskeyword(word)


@functools.lru_cache(maxsize=256)
def named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """The class of a named tuple; `ValueError` unless its name and those of its fields are identifiers."""
    if not all(map(_is_name, (name, *fields))):
        raise ValueError(f"a named tuple {name[:100]!r} with the fields {str(fields)[:100]} can't be made")
    return namedtuple(name, fields)


TENSOR = Structure("tensor")


def positional(count: int) -> Structure:
    """The structure of a call with so many tensors, by position."""
    return Structure("tuple", (Structure("tuple", (TENSOR,) * count), Structure("dict")))


def sequence(count: int) -> Structure:
    """The structure of a result: one tensor, or a tuple of several (or none)."""
    return TENSOR if count == 1 else Structure("tuple", (TENSOR,) * count)


def is_tensor(leaf: Any) -> bool:
    """Whether a leaf is an array, a tensor of ours or one of a framework."""
    ours = isinstance(leaf, (np.ndarray, np.generic, TensorLike))
    return ours or (hasattr(leaf, "detach") and hasattr(leaf, "numpy"))


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The tensors in `tree` in order, and the structure around them."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    if is_tensor(tree):
        leaves.append(tree)
        return TENSOR
    if isinstance(tree, Mapping):
        children = tuple(_flatten(child, leaves) for child in tree.values())
        return Structure("dict", children, tuple(tree))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        children = tuple(_flatten(child, leaves) for child in tree)
        return Structure("namedtuple", children, tree._fields, type(tree).__name__, made_by=type(tree))
    if isinstance(tree, (tuple, list)):
        children = tuple(_flatten(child, leaves) for child in tree)
        return Structure("tuple" if isinstance(tree, tuple) else "list", children)
    return Structure("constant", constant=tree)


def unflatten(structure: Structure, leaves: list[Any]) -> Any:
    """The nested object of that structure with `leaves` as its tensors; dict subclasses come back as dicts."""
    remaining = iter(leaves)
    tree = _unflatten(structure, lambda: next(remaining))
    if list(remaining):
        raise ValueError(f"{len(leaves)} leaves are more than {structure} holds")
    return tree


def _unflatten(structure: Structure, take: Callable[[], Any]) -> Any:
    if structure.kind == "tensor":
        return take()
    if structure.kind == "constant":
        return structure.constant
    children = [_unflatten(child, take) for child in structure.children]
    if structure.kind == "dict":
        return dict(zip(structure.keys, children, strict=True))
    if structure.kind == "namedtuple":
        return (structure.made_by or named_tuple(structure.name, structure.keys))(*children)
    return tuple(children) if structure.kind == "tuple" else children


def match_call(expected: Structure, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """`match` of the arguments of a call, positional ones and those by keyword.

    Raises:
        UsageError: there are others than `expected` has, or the structure of one differs; or `expected` is none of a
            call.
    """
    if not is_call(expected):
        raise UsageError("the program has no call structure: run it with runtime.execute")
    positional, named = expected.children
    if len(args) != len(positional.children) or set(kwargs) != set(named.keys):
        raise UsageError(
            f"needed {_call_form(len(positional.children), named.keys)}, given {_call_form(len(args), kwargs)}: "
            "a program takes its arguments as it was captured with, by position or by keyword"
        )
    given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    return [leaf for label, child in _arguments(expected) for leaf in match(child, given[label], str(label))]


def argument_paths(call: Structure) -> list[str]:
    """Where each tensor stands among the arguments of a call, in flat order, e.g. `0`, `mask`, `1['mask']`."""
    return [path for label, child in _arguments(call) for path in child.paths(str(label))] if is_call(call) else []


def is_call(structure: Structure) -> bool:
    """Whether it is of the arguments of a call: a tuple of those by position, and a dict of those by keyword."""
    return structure.kind == "tuple" and [child.kind for child in structure.children] == ["tuple", "dict"]


def _arguments(call: Structure) -> list[tuple[Any, Structure]]:
    """Those of a call, by position or keyword."""
    positional, named = call.children
    return [*enumerate(positional.children), *zip(named.keys, named.children, strict=True)]


def _call_form(positional: int, named: Iterable[Any]) -> str:
    """The arguments of a call in words."""
    by_keyword = ", ".join(map(str, named))
    return f"{positional} positional argument{'' if positional == 1 else 's'}" + (
        f" and the keyword{'s' if ',' in by_keyword else ''} {by_keyword}" if by_keyword else ""
    )


def match(expected: Structure, given: Any, where: str = "") -> list[Any]:
    """The tensors of `given` in the order of `expected`; dict keys may stand in any order.

    Raises:
        UsageError: the structures differ; the message says where.
    """
    if expected.kind == "tensor":
        if not is_tensor(given):
            raise UsageError(f"argument {where}: needed a tensor, given {type(given).__name__} ({given!r})")
        return [given]
    if expected.kind == "constant":
        if is_tensor(given) or given != expected.constant:
            raise UsageError(
                f"argument {where}: the program was captured with {expected.constant!r}, given "
                f"{'a tensor' if is_tensor(given) else repr(given)}; capture it again with this value"
            )
        return []
    if expected.kind == "dict":
        fields = _fields(given, expected) if expected.name else given
        if not isinstance(fields, Mapping) or set(fields) != set(expected.keys):
            keys = sorted(map(str, fields)) if isinstance(fields, Mapping) else type(given).__name__
            raise UsageError(f"argument {where}: needed the keys {sorted(map(str, expected.keys))}, given {keys}")
        items = [fields[key] for key in expected.keys]
    else:
        if not isinstance(given, (tuple, list)) or len(given) != len(expected.children):
            count = len(given) if isinstance(given, (tuple, list)) else type(given).__name__
            raise UsageError(f"argument {where}: needed {len(expected.children)} values, given {count}")
        items = list(given)
    labels = expected.keys or range(len(items))
    return [
        leaf
        for label, child, item in zip(labels, expected.children, items, strict=True)
        for leaf in match(child, item, f"{where}[{label!r}]")
    ]


def _fields(given: Any, expected: Structure) -> Any:
    """What an object (or the dict that stands for it) holds, by attribute: what is expected, and all tensors."""
    if isinstance(given, Mapping):
        return given
    held = {name: value for name, value in getattr(given, "__dict__", {}).items() if value is not None}
    return {name: value for name, value in held.items() if name in expected.keys or flatten(value)[0]}
