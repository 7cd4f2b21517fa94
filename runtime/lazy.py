"""Packages whose names are loaded when they are first used, so that importing them is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from typing import Any

VERSION = "__version__"

_further_names: dict[str, Callable[[], Mapping[str, Any]]] = {}


def add_names(package: str, names: Callable[[], Mapping[str, Any]]) -> None:
    """Let `package` have names that a package above it defines: `names` gives them, when one is first asked for."""
    _further_names[package] = names


def further_names(package: str) -> Mapping[str, Any]:
    """What `add_names` added to `package`, by name."""
    return _further_names[package]()


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module `__getattr__` (PEP 562) that imports a name from its home when it is first asked for.

    `__version__` is that of the installed project: `cellbridge` itself is a namespace package, and has none.

    Args:
        package: the package's `__name__`.
        homes: for each public name the submodule that defines it; `""` for a name that is itself a submodule.
    """

    def getattr_(name: str) -> Any:
        if name == VERSION:
            return metadata.version(package.partition(".")[0])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(f"{package}.{homes[name] or name}")
        return getattr(home, name) if homes[name] else home

    return getattr_
