"""Ways to plant a fault in a copy of a module, as a person would make the mistake."""

from __future__ import annotations

import copy
import inspect
import itertools
import linecache
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Plant = Callable[[Any], object]
"""Changes a whole network, which is a copy."""

_numbers = itertools.count(1)


def copy_of(module: nn.Module) -> nn.Module:
    """Return a copy that shares nothing with the module."""
    return copy.deepcopy(module)


def edit_source(module: nn.Module, old: str, new: str) -> None:
    """Replace text in the method of the module's class that contains it once, for this module alone.

    The module gets a subclass of the same name with the edited method. Its source can be read as usual.

    Raises:
        ValueError: no method contains the text, or the text occurs more than once.
    """
    original = type(module)
    methods = {
        name: function
        for kind in reversed(original.__mro__)
        if issubclass(kind, nn.Module) and not kind.__module__.startswith("torch.")
        for name, function in vars(kind).items()
        if inspect.isfunction(function) and name != "__init__"
    }
    sources = {name: textwrap.dedent(inspect.getsource(function)) for name, function in methods.items()}
    found = [name for name, source in sources.items() if old in source]
    if len(found) != 1 or sources[found[0]].count(old) != 1:
        raise ValueError(f"{original.__name__} must contain {old!r} in one place, found in {found}")
    edited = sources[found[0]].replace(old, new)
    text = f"class {original.__name__}(_original):\n{textwrap.indent(edited, '    ')}"
    file = f"<{original.__name__}.{found[0]}, edited, {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {**vars(sys.modules[original.__module__]), "_original": original}
    exec(compile(text, file, "exec", dont_inherit=True), namespace)
    kind = namespace[original.__name__]
    kind.__module__, kind.__qualname__, kind.__doc__ = original.__module__, original.__qualname__, original.__doc__
    module.__class__ = kind


def editing(cell: str, *changes: tuple[str, str]) -> Plant:
    """Return a plant that edits the source of one Cell; see `edit_source`."""

    def plant(network: nn.Module) -> None:
        for old, new in changes:
            edit_source(network.get_submodule(cell), old, new)

    return plant


def setting(cell: str, name: str, value: Any) -> Plant:
    """Return a plant that sets an attribute of one Cell."""

    def plant(network: nn.Module) -> None:
        module = network.get_submodule(cell)
        if not hasattr(module, name):
            raise ValueError(f"{cell} has no attribute {name}")
        setattr(module, name, value)

    return plant


def replacing(cell: str, make: Callable[[Any], nn.Module]) -> Plant:
    """Return a plant that replaces one Cell by what `make` returns, given the Cell."""

    def plant(network: nn.Module) -> None:
        parent, _, name = cell.rpartition(".")
        old = network.get_submodule(cell)
        setattr(network.get_submodule(parent), name, make(old).train(old.training))

    return plant


def changing(tensor: str, change: Callable[[Tensor], Tensor]) -> Plant:
    """Return a plant that changes the values of a parameter or buffer."""

    def plant(network: nn.Module) -> None:
        cell, _, name = tensor.rpartition(".")
        value = getattr(network.get_submodule(cell), name)
        with torch.no_grad():
            value.copy_(change(value.detach().clone()))

    return plant


def one_element(value: Tensor) -> Tensor:
    """A weight whose largest element is a tenth larger."""
    value.view(-1)[value.abs().argmax()] *= 1.1
    return value


def heads_exchanged(heads: int) -> Callable[[Tensor], Tensor]:
    """Exchange the first two heads along the first axis of a weight."""

    def exchange(value: Tensor) -> Tensor:
        split = value.reshape(heads, -1, *value.shape[1:])
        return split[[1, 0, *range(2, heads)]].reshape(value.shape)

    return exchange


def thirds_exchanged(value: Tensor) -> Tensor:
    """Exchange the first two thirds of a fused projection: q and k."""
    first, second, third = value.chunk(3)
    return torch.cat([second, first, third])
