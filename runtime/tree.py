"""Functions on nested arguments and results: collect, map, flatten and rebuild the leaves of tuples, lists and dicts.

A `Structure` is the nesting without the tensors. It can be compared, printed and written as JSON.
"""

from __future__ import annotations

import copy
import functools
import keyword
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from .errors import UsageError
from .tensor_like import TensorLike

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Structure:
    """The nesting of an object, without its tensors.

    Attributes:
        kind: "tensor" or "constant" for a leaf; "tuple", "list", "dict" or "namedtuple" for a container.
        children: the structures of a container's items.
        keys: the keys of a dict, or the fields of a namedtuple.
        name: the class name of a namedtuple; also of an object, such as a dataclass, whose attributes are stored as a
            dict.
        constant: the value of a leaf of kind "constant".
        made_by: the class of a namedtuple, which isn't saved to files.
    """

    kind: str
    children: tuple[Structure, ...] = ()
    keys: tuple[Any, ...] = ()
    name: str = ""
    constant: Any = None
    made_by: Any = field(default=None, compare=False, repr=False)

    @property
    def tensors(self) -> int:
        """The number of tensors."""
        return 1 if self.kind == "tensor" else sum(child.tensors for child in self.children)

    def paths(self, prefix: str = "") -> list[str]:
        """The path of each tensor, in flat order, e.g. `[0]`, `['mask']`, `[1][0]`."""
        if self.kind == "tensor":
            return [prefix]
        labels = self.keys if self.keys else range(len(self.children))
        pairs = zip(labels, self.children, strict=True)
        return [path for label, child in pairs for path in child.paths(f"{prefix}[{label!r}]")]

    def to_json(self) -> Any:
        """Convert to JSON values."""
        if self.kind == "tensor":
            return "tensor"
        if self.kind == "constant":
            return {"constant": self.constant}
        document: dict[str, Any] = {self.kind: [child.to_json() for child in self.children]}
        if self.keys:
            document["keys"] = [{"tuple": list(key)} if isinstance(key, tuple) else key for key in self.keys]
        if self.name:
            document["name"] = self.name
        return document

    @staticmethod
    def from_json(document: Any) -> Structure:
        """Convert the result of `to_json` back; raise `ValueError` for anything else."""
        if document == "tensor":
            return TENSOR
        if isinstance(document, dict):
            if "constant" in document:
                return Structure("constant", constant=document["constant"])
            for kind in ("tuple", "list", "dict", "namedtuple"):
                if kind in document:
                    children = tuple(Structure.from_json(child) for child in document[kind])
                    keys = tuple(tuple(k["tuple"]) if isinstance(k, dict) else k for k in document.get("keys", ()))
                    _require_keys(kind, len(children), keys, document.get("name", ""))
                    return Structure(kind, children, keys, document.get("name", ""))
        raise ValueError(f"not a structure: {str(document)[:200]}")


def _require_keys(kind: str, count: int, keys: tuple[Any, ...], name: Any) -> None:
    """Raise `ValueError` unless a container can have these keys and this name."""
    if len(keys) != (count if kind in ("dict", "namedtuple") else 0) or len(set(keys)) != len(keys):
        raise ValueError(f"a {kind} of {count} values can't have {len(keys)} keys, {len(set(keys))} of them different")
    words = [name, *keys] if kind == "namedtuple" else []
    attributes = keys if kind == "dict" and name else ()  # read from an object by `getattr`
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
    """Return a namedtuple class; raise `ValueError` unless its name and fields are identifiers."""
    if not all(map(_is_name, (name, *fields))):
        raise ValueError(f"a named tuple {name[:100]!r} with the fields {str(fields)[:100]} can't be made")
    return namedtuple(name, fields)


TENSOR = Structure("tensor")


def positional_arguments(count: int) -> Structure:
    """The structure of a call with `count` tensors as positional arguments."""
    return Structure("tuple", (Structure("tuple", (TENSOR,) * count), Structure("dict")))


def sequence(count: int) -> Structure:
    """The structure of a result with `count` tensors: the tensor itself if there is one, otherwise a tuple."""
    return TENSOR if count == 1 else Structure("tuple", (TENSOR,) * count)


def is_tensor(leaf: Any) -> bool:
    """Whether a leaf is a NumPy array or scalar, a tensor of this package, or a torch tensor."""
    is_own = isinstance(leaf, (np.ndarray, np.generic, TensorLike))
    return is_own or (hasattr(leaf, "detach") and hasattr(leaf, "numpy"))


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, in order; an object of any other type is itself a leaf."""
    result: list[Any] = []
    _collect(tree, result)
    return result


def _collect(tree: Any, result: list[Any]) -> None:
    if isinstance(tree, (tuple, list)):
        for item in tree:
            _collect(item, result)
    elif isinstance(tree, dict):
        for item in tree.values():
            _collect(item, result)
    else:
        result.append(tree)


def leaves_of(tree: Any, kind: type[Kind]) -> Iterator[Kind]:
    """The leaves that are instances of `kind`, in order."""
    return (leaf for leaf in leaves(tree) if isinstance(leaf, kind))


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Replace each leaf of nested tuples, lists and dicts by `function(leaf)`, in order."""
    if isinstance(tree, dict):
        return rebuild(tree, [map_leaves(function, item) for item in tree.values()])
    if isinstance(tree, (tuple, list)):
        return rebuild(tree, [map_leaves(function, item) for item in tree])
    return function(tree)


def map_with_path(function: Callable[[str, Any], Any], tree: Any, path: str = "") -> Any:
    """Like `map_leaves`, but call `function(path, leaf)`; a path is e.g. `[0]`, `['mask']` or `[1][0]`."""
    if isinstance(tree, dict):
        return rebuild(tree, [map_with_path(function, item, f"{path}[{key!r}]") for key, item in tree.items()])
    if isinstance(tree, (tuple, list)):
        return rebuild(tree, [map_with_path(function, item, f"{path}[{i}]") for i, item in enumerate(tree)])
    return function(path, tree)


def replace_leaves(tree: Any, kind: type[Any], values: Iterator[Any]) -> Any:
    """Replace each leaf that is an instance of `kind` by the next of `values`, in order."""
    return map_leaves(lambda leaf: next(values) if isinstance(leaf, kind) else leaf, tree)


def rebuild(container: Any, items: list[Any]) -> Any:
    """Return a tuple, list or dict of the same class, keys and attributes as `container`, with other items."""
    cls = type(container)
    if isinstance(container, defaultdict):
        return cls(container.default_factory, zip(container, items, strict=True))
    if isinstance(container, dict):
        return cls(dict(zip(container, items, strict=True)))  # a Counter would count pairs as elements
    if isinstance(container, list) and cls is not list:
        duplicate = copy.copy(container)
        duplicate[:] = items
        return duplicate
    if hasattr(container, "rebuild"):  # a ParameterTuple
        return container.rebuild(items)
    return cls(*items) if hasattr(container, "_fields") else cls(items)


def has_same_leaves(a: Any, b: Any) -> bool:
    """Whether nested tuples, lists and dicts have identical objects (`is`) as leaves in the same places."""
    if isinstance(a, dict):
        if not isinstance(b, dict) or a.keys() != b.keys():
            return False
        return all(has_same_leaves(item, b[key]) for key, item in a.items())
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(has_same_leaves, a, b))
    return a is b


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the tensors of `tree` in order, and its structure."""
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
    """Return the nested object of a structure with `leaves` as its tensors; dict subclasses come back as dicts.

    Raises:
        ValueError: there are more leaves than tensors in the structure.
    """
    remaining = iter(leaves)
    tree = _unflatten(structure, remaining)
    if list(remaining):
        raise ValueError(f"needed {structure.tensors} leaves for {structure}, given {len(leaves)}")
    return tree


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    if structure.kind == "tensor":
        return next(leaves)
    if structure.kind == "constant":
        return structure.constant
    children = [_unflatten(child, leaves) for child in structure.children]
    if structure.kind == "dict":
        return dict(zip(structure.keys, children, strict=True))
    if structure.kind == "namedtuple":
        return (structure.made_by or named_tuple(structure.name, structure.keys))(*children)
    return tuple(children) if structure.kind == "tuple" else children


def match_call(expected: Structure, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the tensors among the arguments of a call in the order of `expected`; see `match`.

    Raises:
        UsageError: the arguments are not those of `expected`, or the structure of one differs; or `expected` is not
            the structure of a call.
    """
    if not is_call(expected):
        raise UsageError("the program has no call structure: run it with runtime.execute")
    positional, keywords = expected.children
    if len(args) != len(positional.children) or set(kwargs) != set(keywords.keys):
        raise UsageError(
            f"needed {_call_form(len(positional.children), keywords.keys)}, given {_call_form(len(args), kwargs)}: "
            "pass each argument as at capture, by position or by keyword"
        )
    arguments: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    return [leaf for label, child in _arguments(expected) for leaf in match(child, arguments[label], str(label))]


def argument_paths(call: Structure) -> list[str]:
    """The path of each tensor among the arguments of a call, in flat order, e.g. `0`, `mask`, `1['mask']`."""
    return [path for label, child in _arguments(call) for path in child.paths(str(label))] if is_call(call) else []


def is_call(structure: Structure) -> bool:
    """Whether this is the structure of a call's arguments: a tuple of positional and a dict of keyword arguments."""
    return structure.kind == "tuple" and [child.kind for child in structure.children] == ["tuple", "dict"]


def _arguments(call: Structure) -> list[tuple[Any, Structure]]:
    """The arguments of a call, each with its position or keyword."""
    positional, keywords = call.children
    return [*enumerate(positional.children), *zip(keywords.keys, keywords.children, strict=True)]


def _call_form(positional: int, keywords: Iterable[Any]) -> str:
    """Describe the arguments of a call in words."""
    names = ", ".join(map(str, keywords))
    return f"{positional} positional argument{'' if positional == 1 else 's'}" + (
        f" and the keyword{'s' if ',' in names else ''} {names}" if names else ""
    )


def match(expected: Structure, value: Any, where: str = "") -> list[Any]:
    """Return the tensors of `value` in the order of `expected`; the order of dict keys doesn't matter.

    Raises:
        UsageError: the structures differ; the message gives the path.
    """
    if expected.kind == "tensor":
        if not is_tensor(value):
            raise UsageError(f"argument {where}: needed a tensor, given {type(value).__name__} ({value!r})")
        return [value]
    if expected.kind == "constant":
        if is_tensor(value) or value != expected.constant:
            raise UsageError(
                f"argument {where}: the program was captured with {expected.constant!r}, given "
                f"{'a tensor' if is_tensor(value) else repr(value)}; capture it again with this value"
            )
        return []
    if expected.kind == "dict":
        fields = _fields(value, expected) if expected.name else value
        if not isinstance(fields, Mapping) or set(fields) != set(expected.keys):
            keys = sorted(map(str, fields)) if isinstance(fields, Mapping) else type(value).__name__
            raise UsageError(f"argument {where}: needed the keys {sorted(map(str, expected.keys))}, given {keys}")
        items = [fields[key] for key in expected.keys]
    else:
        if not isinstance(value, (tuple, list)) or len(value) != len(expected.children):
            count = len(value) if isinstance(value, (tuple, list)) else type(value).__name__
            raise UsageError(f"argument {where}: needed {len(expected.children)} values, given {count}")
        items = list(value)
    labels = expected.keys or range(len(items))
    return [
        leaf
        for label, child, item in zip(labels, expected.children, items, strict=True)
        for leaf in match(child, item, f"{where}[{label!r}]")
    ]


def _fields(value: Any, expected: Structure) -> Any:
    """The attributes of an object by name: the expected ones, and all that contain tensors; a dict itself."""
    if isinstance(value, Mapping):
        return value
    attributes = {name: item for name, item in getattr(value, "__dict__", {}).items() if item is not None}
    return {name: item for name, item in attributes.items() if name in expected.keys or flatten(item)[0]}
