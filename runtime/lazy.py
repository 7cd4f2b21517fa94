"""Packages whose names are loaded when they are first used, so that importing them is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

VERSION = "__version__"

_loaders: dict[str, Callable[[], Any]] = {}


def provide(name: str, load: Callable[[], Any]) -> None:
    """Register `load` as the function that loads the object of this name for lower floors; see `resolve`."""
    _loaders[name] = load


def resolve(name: str) -> Any:
    """Return the object that an upper floor provides under this name; `attachments` lists all of them."""
    return _loaders[name]()


def lazy_getattr(package: str, locations: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module `__getattr__` (PEP 562) that imports a name from its submodule on first use.

    `__version__` is the version of the installed project; `cellbridge` itself is a namespace package and has none.

    Args:
        package: the package's `__name__`.
        locations: for each public name the submodule that defines it; `""` for a name that is itself a submodule.
            One that starts with a dot lies beside the package.
    """

    def getattr_(name: str) -> Any:
        if name == VERSION:
            from importlib import metadata  # imports much, for a version that is seldom asked for

            return metadata.version(package.partition(".")[0])
        if name not in locations:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        location = import_module(f".{locations[name] or name}", package)
        return getattr(location, name) if locations[name] else location

    return getattr_
