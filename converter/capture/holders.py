"""Where a network may keep what it computed: attributes of modules and of their classes, globals that they name."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch

MAX_DEPTH = 4  # levels of containers and objects that are looked into
OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))

_CONTAINERS = (dict, OrderedDict, list, deque)
# a library that installs hooks at the first call notes that it did in an attribute, and would install them again if
# that alone were as before
_LEFT_ALONE = frozenset(name for name in OF_EVERY_MODULE if "forward" not in name)


class Place(NamedTuple):
    """A name under which something may be kept: an attribute of the module at `path` or of its class, or a global."""

    path: str
    name: str
    is_global: bool = False


def places(root: torch.nn.Module) -> Iterator[tuple[Place, Any]]:
    """Every place where `root` may keep something, with what is there now; no parameters and buffers."""
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if name not in OF_EVERY_MODULE:
                yield Place(path, name), value
        for kind in _own_classes(type(module)):
            for name, value in vars(kind).items():
                if _may_hold(name, value):
                    yield Place(path, name), value
            for namespace, name in _globals_named_in(kind):
                if _may_hold(name, namespace.get(name)):
                    yield Place(path, name, is_global=True), namespace.get(name)


def _own_classes(kind: type) -> list[type]:
    """The classes that a module's class is made of, without those of torch and of Python."""
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in ("torch", "builtins")]


def _globals_named_in(kind: type) -> Iterator[tuple[dict[str, Any], str]]:
    """The globals that the methods of a class name, each as a namespace and a name."""
    for method in vars(kind).values():
        if isinstance(method, FunctionType):
            for name in sorted(_names_in(method.__code__)):
                yield method.__globals__, name


@functools.cache
def _names_in(code: CodeType) -> frozenset[str]:
    inner = [_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(code.co_names).union(*inner)


def _may_hold(name: str, value: Any) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return not is_special and (value is None or isinstance(value, torch.Tensor) or _is_holder(value))


def parts_of(value: Any) -> list[Any]:
    """What a container holds, or the attributes of another object."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return list(value)
    return list(vars(value).values()) if hasattr(value, "__dict__") else []


def everything_in(value: Any, opens: Callable[[Any], bool], depth: int = MAX_DEPTH) -> Iterator[Any]:
    """A value, what it holds, what that holds, and so on.

    Args:
        value: what is looked into.
        opens: which values are opened; it is asked for each once, before what that holds is yielded.
        depth: how many levels are looked into.
    """
    yield value
    if depth and opens(value):
        for part in parts_of(value):
            yield from everything_in(part, opens, depth - 1)


def _is_holder(value: Any) -> bool:
    return type(value) in _CONTAINERS or _is_plain_object(value)


def _is_plain_object(value: Any) -> bool:
    """Whether it is an object whose attributes are all that it is; no module, no function."""
    excluded = (torch.nn.Module, torch.Tensor, type, ModuleType, Mapping, list, tuple, deque)
    return type(getattr(value, "__dict__", None)) is dict and not callable(value) and not isinstance(value, excluded)


@contextlib.contextmanager
def unchanged(root: torch.nn.Module) -> Iterator[None]:
    """Within the context, `root` or a copy of it may be called; what it keeps in its places is put back after it."""
    snapshot = _Snapshot(root)
    try:
        yield
    finally:
        snapshot.restore()


class _Snapshot:
    """What a network holds in all its places now."""

    def __init__(self, root: torch.nn.Module) -> None:
        self.attributes = {module: _without(vars(module), _LEFT_ALONE) for module in root.modules()}
        kinds = dict.fromkeys(kind for module in self.attributes for kind in _own_classes(type(module)))
        self.classes = {kind: {name: v for name, v in vars(kind).items() if _may_hold(name, v)} for kind in kinds}
        self.globals = [
            (namespace, name, namespace.get(name, _ABSENT))
            for kind in kinds
            for namespace, name in _globals_named_in(kind)
            if _may_hold(name, namespace.get(name))
        ]
        self.contents: dict[int, tuple[Any, list[Any] | dict[Any, Any]]] = {}
        values = [own.values() for own in (*self.attributes.values(), *self.classes.values())]
        for value in [*(v for own in values for v in own), *(v for _, _, v in self.globals)]:
            for _ in everything_in(value, self._note):
                pass

    def _note(self, value: Any) -> bool:
        """Note what a container or an object holds; False if there is nothing to note, or it is known."""
        if id(value) in self.contents or not _is_holder(value):
            return False
        self.contents[id(value)] = value, _content(value).copy()
        return True

    def restore(self) -> None:
        """Put all attributes, class attributes, globals and containers back to what they were."""
        for holder, content in self.contents.values():
            now = _content(holder)
            if not _identical(now, content):
                now.clear()
                now.update(content) if isinstance(now, dict) else now.extend(content)
        for module, own in self.attributes.items():
            for name in vars(module).keys() - _LEFT_ALONE - own.keys():
                del vars(module)[name]
            vars(module).update(own)
        for kind, own in self.classes.items():
            for name in [n for n, value in vars(kind).items() if n not in own and _may_hold(n, value)]:
                delattr(kind, name)
            for name, value in own.items():
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
