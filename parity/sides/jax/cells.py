"""The Cells of a network in JAX: its modules by path, whose calls are observed by the frameworks' own means."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....converter.jax_in.importing import name_of_leaf
from ..jax_side import JaxSide, is_equinox, is_linen, is_nnx
from .leaves import is_floating
from .observer import Observer

COLLECTIONS = ("params", "batch_stats")
"""The collections of variables that Linen has, which aren't parts of names."""
Call = Callable[[Any, Observer, tuple[Any, ...], dict[str, Any]], Any]
"""Calls a network with these parameters and arguments, and lets an observer see its Cells."""


def as_function(side: JaxSide) -> tuple[Any, Call]:
    """Return the parameters of a network, a pytree, and the function that calls it with them."""
    if is_nnx(side.network):
        return _of_nnx(side.network)
    if is_linen(side.network):
        return _of_linen(side)
    if is_equinox(side.network):
        return _of_equinox(side.network)

    def call(params: Any, observer: Observer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def network(*args: Any, **kwargs: Any) -> Any:
            return side.network(params, *args, **kwargs)

        return observer.call("", getattr(side.network, "__name__", "function"), network, args, kwargs)

    return side.params, call


def parameter_names(params: Any) -> list[tuple[str, Any]]:
    """Return the arrays of a pytree with their names: `blocks.0.fc.kernel`; collections are left out."""
    parameters = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        parts = [str(getattr(part, "key", getattr(part, "idx", getattr(part, "name", part)))) for part in path]
        if parts and parts[0] in COLLECTIONS:
            parts = parts[1:]
        parameters.append((".".join(parts), leaf))
    return parameters


def has_modules(side: JaxSide) -> bool:
    """Whether a network has modules, whose calls are observed; a function has none."""
    return is_nnx(side.network) or is_linen(side.network) or is_equinox(side.network)


def other_names(side: JaxSide) -> dict[str, str]:
    """Return the first name of each shared parameter by its other ones; only modules of NNX share any."""
    if not is_nnx(side.network):
        return {}
    from flax import nnx

    groups = sorted(nnx.find_duplicates(side.network), key=lambda paths: -len(paths[0]))  # variables before modules
    shared = [[".".join(map(str, path)) for path in paths] for paths in groups]
    aliases: dict[str, str] = {}
    for first, _ in parameter_names(_of_nnx(side.network)[0]):
        names = {first: None}
        for paths in shared:
            names |= {
                f"{b}{n.removeprefix(a)}": None
                for n in names
                for a in paths
                if f"{n}.".startswith(f"{a}.")
                for b in paths
            }
        aliases |= {name: first for name in names if name != first}
    return aliases


def shapes_of(side: JaxSide) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a network's floating-point tensors, by the paths that its program gives them."""
    leaves = jax.tree.leaves_with_path(as_function(side)[0])
    return {name_of_leaf(path): tuple(leaf.shape) for path, leaf in leaves if is_floating(leaf)}


def with_tensors(side: JaxSide, arrays: Mapping[str, np.ndarray[Any, Any]]) -> JaxSide:
    """Return a network with other tensors, by the paths that its program gives them; the given one isn't changed."""

    def replaced(path: Any, own: Any) -> Any:
        array = arrays.get(name_of_leaf(path))
        return own if array is None else jnp.asarray(array, own.dtype)

    params = jax.tree.map_with_path(replaced, as_function(side)[0])
    if is_nnx(side.network):
        return replace(side, network=_nnx_parts(side.network)[1](params))
    if is_equinox(side.network):
        return replace(side, network=_equinox_parts(side.network)[1](params))
    return replace(side, params=params)


def _nnx_parts(network: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the parameters of a module, and a function that returns the module with others."""
    from flax import nnx

    parts: Any = nnx.split(network, nnx.Param, nnx.BatchStat, ...)
    graph, *states, rest = parts
    pure = {name: nnx.to_pure_dict(state) for name, state in zip(COLLECTIONS, states, strict=True)}

    def module(values: Any) -> Any:
        filled = [jax.tree.map(lambda x: x, state) for state in states]
        for name, state in zip(COLLECTIONS, filled, strict=True):
            nnx.replace_by_pure_dict(state, values[name])
        return nnx.merge(graph, *filled, rest)

    return pure, module


def _of_nnx(network: Any) -> tuple[Any, Call]:
    from flax import nnx

    pure, with_values = _nnx_parts(network)

    def call(values: Any, observer: Observer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module = with_values(values)
        modules = {path: submodule for path, submodule in nnx.iter_graph(module) if isinstance(submodule, nnx.Module)}
        named = {".".join(map(str, path)): submodule for path, submodule in modules.items()}
        with _observed(named, observer):
            return module(*args, **kwargs)

    return pure, call


def _of_linen(side: JaxSide) -> tuple[Any, Call]:
    from flax import linen

    def call(values: Any, observer: Observer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def intercept(function: Any, args: Any, kwargs: Any, context: Any) -> Any:
            if context.method_name != "__call__":
                return function(*args, **kwargs)
            path = ".".join(context.module.path)
            return observer.call(path, type(context.module).__name__, function, args, kwargs)

        with linen.intercept_methods(intercept):
            return side.network.apply(values, *args, **kwargs)

    return side.params, call


def _equinox_parts(network: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the parameters of a module, and a function that returns the module with others."""
    import equinox

    arrays, rest = equinox.partition(network, equinox.is_inexact_array)
    return arrays, lambda values: equinox.combine(values, rest)


def _of_equinox(network: Any) -> tuple[Any, Call]:
    arrays, with_values = _equinox_parts(network)

    def call(values: Any, observer: Observer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module = with_values(values)
        with _observed(dict(_equinox_modules(module, "")), observer):
            return module(*args, **kwargs)

    return arrays, call


def _equinox_modules(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the modules in a module, with their paths: fields, and places in tuples, lists and dicts."""
    if is_equinox(value):
        yield path, value
        inner = vars(value).items()
    elif isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, (tuple, list)):
        inner = dict(enumerate(value)).items()
    else:
        return
    for name, item in inner:
        yield from _equinox_modules(item, f"{path}.{name}" if path else str(name))


@contextlib.contextmanager
def _observed(modules: dict[str, Any], observer: Observer) -> Iterator[None]:
    """Within the context, calls of these modules are observed: their classes get another `__call__`."""
    paths = {id(module): path for path, module in modules.items()}
    classes = dict.fromkeys(type(module) for module in modules.values() if callable(module))
    before = {cls: (cls.__call__, "__call__" in vars(cls)) for cls in classes}
    running: set[int] = set()

    def observed(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if id(self) not in paths or id(self) in running:  # its class calls that of a class that it is derived from
                return original(self, *args, **kwargs)
            running.add(id(self))
            try:
                bound = original.__get__(self, type(self))
                return observer.call(paths[id(self)], type(self).__name__, bound, args, kwargs)
            finally:
                running.discard(id(self))

        return __call__

    try:
        for cls, (original, _) in before.items():
            cls.__call__ = observed(original)
        yield
    finally:
        for cls, (original, has_own_call) in before.items():
            if has_own_call:
                cls.__call__ = original
            else:
                del cls.__call__
