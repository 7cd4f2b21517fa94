"""Places where a network may keep results: attributes of modules and of their classes, globals that methods name."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch

MAX_DEPTH = 4  # levels of nested containers and objects that are searched
OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))

_CONTAINERS = (dict, OrderedDict, list, deque)
# never restored: a library that installs hooks at the first call records this in an attribute, and would install them
# again if that attribute were restored
_LEFT_ALONE = frozenset(name for name in OF_EVERY_MODULE if "forward" not in name)


class Place(NamedTuple):
    """A name that may hold a result: an attribute of the module at `path` or of its class, or a global."""

    path: str
    name: str
    is_global: bool = False


def places(root: torch.nn.Module) -> Iterator[tuple[Place, Any]]:
    """Yield every place where `root` may keep a result, with its current value, except parameters and buffers."""
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if name not in OF_EVERY_MODULE:
                yield Place(path, name), value
        for kind in custom_classes(type(module)):
            for name, value in vars(kind).items():
                if _may_hold(name, value):
                    yield Place(path, name), value
            for namespace, name in _globals_in(kind):
                if _may_hold(name, namespace.get(name)):
                    yield Place(path, name, is_global=True), namespace.get(name)


def custom_classes(kind: type) -> list[type]:
    """The class and its base classes, without those of torch and Python."""
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in ("torch", "builtins")]


def _globals_in(kind: type) -> Iterator[tuple[dict[str, Any], str]]:
    """The globals that the methods of a class use, each as a namespace and a name."""
    for method in vars(kind).values():
        if isinstance(method, FunctionType):
            for name in sorted(_names_in(method.__code__)):
                yield method.__globals__, name


@functools.cache
def _names_in(code: CodeType) -> frozenset[str]:
    inner = [_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(code.co_names).union(*inner)


def is_special(name: str) -> bool:
    """Whether a name is one of Python's own, as `__doc__`."""
    return name.startswith("__") and name.endswith("__")


def _may_hold(name: str, value: Any) -> bool:
    return not is_special(name) and (value is None or isinstance(value, torch.Tensor) or _is_holder(value))


def parts_of(value: Any) -> list[Any]:
    """The elements of a container, or the attribute values of another object."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return list(value)
    return list(vars(value).values()) if hasattr(value, "__dict__") else []


def walk_values(value: Any, opens: Callable[[Any], bool], depth: int = MAX_DEPTH) -> Iterator[Any]:
    """Yield a value and, recursively, the parts that it holds.

    Args:
        value: the value to search.
        opens: whether to search a value; called once for each, before its parts are yielded.
        depth: the number of levels to search.
    """
    yield value
    if depth and opens(value):
        for part in parts_of(value):
            yield from walk_values(part, opens, depth - 1)


def _is_holder(value: Any) -> bool:
    return type(value) in _CONTAINERS or is_plain_object(value)


def is_plain_object(value: Any) -> bool:
    """Whether the attributes are the whole state of the object; modules and functions aren't plain."""
    excluded = (torch.nn.Module, torch.Tensor, type, ModuleType, Mapping, list, tuple, deque)
    return type(getattr(value, "__dict__", None)) is dict and not callable(value) and not isinstance(value, excluded)


@contextlib.contextmanager
def preserve_state(root: torch.nn.Module) -> Iterator[None]:
    """Within the context, `root` or a copy of it may be called; the contents of its places are restored after it."""
    snapshot = _Snapshot(root)
    try:
        yield
    finally:
        snapshot.restore()


class _Snapshot:
    """The contents of all places of a network."""

    def __init__(self, root: torch.nn.Module) -> None:
        self.attributes = {module: _without(vars(module), _LEFT_ALONE) for module in root.modules()}
        kinds = dict.fromkeys(kind for module in self.attributes for kind in custom_classes(type(module)))
        self.classes = {kind: {name: v for name, v in vars(kind).items() if _may_hold(name, v)} for kind in kinds}
        self.globals = [
            (namespace, name, namespace.get(name, _ABSENT))
            for kind in kinds
            for namespace, name in _globals_in(kind)
            if _may_hold(name, namespace.get(name))
        ]
        self.contents: dict[int, tuple[Any, list[Any] | dict[Any, Any]]] = {}
        values = [attributes.values() for attributes in (*self.attributes.values(), *self.classes.values())]
        for value in [*(v for items in values for v in items), *(v for _, _, v in self.globals)]:
            for _ in walk_values(value, self._note):
                pass

    def _note(self, value: Any) -> bool:
        """Record the contents of a container or an object; False if it has none or they are recorded already."""
        if id(value) in self.contents or not _is_holder(value):
            return False
        self.contents[id(value)] = value, _content(value).copy()
        return True

    def restore(self) -> None:
        """Restore all attributes, class attributes, globals and containers."""
        for holder, content in self.contents.values():
            now = _content(holder)
            if not _identical(now, content):
                now.clear()
                now.update(content) if isinstance(now, dict) else now.extend(content)
        for module, attributes in self.attributes.items():
            for name in vars(module).keys() - _LEFT_ALONE - attributes.keys():
                del vars(module)[name]
            vars(module).update(attributes)
        for kind, attributes in self.classes.items():
            for name in [n for n, value in vars(kind).items() if n not in attributes and _may_hold(n, value)]:
                delattr(kind, name)
            for name, value in attributes.items():
                if vars(kind).get(name, _ABSENT) is not value:
                    setattr(kind, name, value)
        for namespace, name, value in self.globals:
            if value is not _ABSENT:
                namespace[name] = value
            elif _may_hold(name, namespace.get(name)):
                namespace.pop(name, None)


_ABSENT = object()


def _without(attributes: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in names}


def _content(holder: Any) -> Any:
    """The container itself, or the attributes of an object."""
    return holder if type(holder) in _CONTAINERS else vars(holder)


def _identical(a: Any, b: Any) -> bool:
    """Whether two containers hold the same objects in the same order."""
    if len(a) != len(b):
        return False
    if isinstance(a, MutableMapping):
        return all(x is y and v is w for (x, v), (y, w) in zip(a.items(), b.items(), strict=True))
    return all(x is y for x, y in zip(a, b, strict=True))
