"""`jit` and graph mode: trace functions and Cells, compile them, and run them in ONNX Runtime."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Hashable
from typing import Any

from ..current_trace import current
from ..precision import is_forced
from .boundaries import parameter_names
from .cache import Cache, CacheInfo
from .declared import DeclaredInputs
from .traced import TracedProgram

Function = Callable[..., Any]

_IGNORED_SETTINGS = frozenset(
    {
        "backend", "capture_mode", "compile_once", "dynamic", "fullgraph", "hash_args", "jit_config", "jit_level",
        "mode",
    }
)  # fmt: skip
"""Settings of other compilers that scripts pass; they have no effect here."""


def jit(function: Function | None = None, *, input_signature: Any = None, **settings: Any) -> Any:
    """Compile a function, a method or a Cell: a call traces it, if necessary, and runs it in ONNX Runtime.

    The results are the same as without `jit`. Compiled programs are cached with the function. A program is reused if
    the dtypes, ranks and Python values of the arguments are the same, and if the state that the traced code read is
    unchanged: attributes of Cells (including `training`), Parameters and variables. When a later call has other sizes,
    the sizes that differ become symbolic; the program then accepts any size, unless Python decides on one. Assignments
    to Parameters take effect after the call. Inside code that is being traced, the function becomes part of the trace.

        @jit
        def forward(x): ...

    Args:
        function: the function, method or Cell; without it, `jit` returns a decorator.
        input_signature: the inputs of the calls: a Tensor, a tuple or list of Tensors, or a dict of some inputs by
            parameter name. Sizes that placeholders leave open, `Tensor(shape=[None, 3], dtype=ms.float32)`, are
            symbolic from the first call on. By default, the inputs that `Cell.set_inputs` declares.
        **settings: `mode`, `jit_level` and others that scripts pass; they have no effect.

    Returns:
        A `Jitted`, to be called instead of the function.

    Raises:
        TypeError: `function` isn't callable, a setting is unknown, or `input_signature` doesn't fit the function.
            Calls raise `TracingError` for Python that can't be traced, `UnsupportedOperators` for operators that ONNX
            Runtime can't run, and `TypeError` (types, dtypes) and `ValueError` (shapes) for inputs that differ from
            the declared ones.
        ValueError: `input_signature` names a parameter that doesn't exist.
    """
    if unknown := sorted(settings.keys() - _IGNORED_SETTINGS):
        names = sorted({"input_signature", *_IGNORED_SETTINGS})
        raise TypeError(f"For 'jit', the argument '{unknown[0]}' is unknown: known are {names}")
    if function is None:
        return functools.partial(jit, input_signature=input_signature, **settings)
    if not callable(function) or inspect.isclass(function):
        raise TypeError(f"For 'jit', 'function' must be a function, method or Cell, but got {function!r}")
    if isinstance(function, Jitted) and input_signature is None:
        return function
    return Jitted(function._function if isinstance(function, Jitted) else function, input_signature)


_SIGNATURE = "jit(input_signature=)"


class Jitted:
    """A compiled function, as `jit` returns it. It has the attributes of the function or Cell."""

    def __init__(self, function: Function, input_signature: Any = None) -> None:
        self._function = function
        self._input_signature = input_signature
        self._cache = Cache()
        self._declared: DeclaredInputs | None = None
        if input_signature is not None and next(iter(_parameters(function)), "") != "self":
            self._declared = DeclaredInputs.of(function, input_signature, of=_SIGNATURE)
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return _call(self._cache, self._function, args, kwargs, self._declared)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method bound to an object; each object has its own programs."""
        if instance is None:
            return self
        method = types.MethodType(self._function, instance)
        cache = _cache_of(method, "jit")
        declared: DeclaredInputs | None = None
        if self._input_signature is not None:
            declared = DeclaredInputs.of(method, self._input_signature, of=_SIGNATURE)

        @functools.wraps(method)
        def bound(*args: Any, **kwargs: Any) -> Any:
            return _call(cache, method, args, kwargs, declared)

        bound.cache_info = lambda: cache.info  # type: ignore[attr-defined]
        return bound

    def cache_info(self) -> CacheInfo:
        """Return how often it was traced, how many programs are cached, and how often one was run."""
        return self._cache.info

    @property
    def programs(self) -> tuple[TracedProgram, ...]:
        """The cached programs, the latest last."""
        return self._cache.programs

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # not set yet
            raise AttributeError(name)
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return f"jit({self._function!r})"


def in_graph_mode(owner: Any, variant: Hashable, function: Function, args: tuple[Any, ...], kwargs: Any) -> Any:
    """Compile and call a function in graph mode.

    Args:
        owner: the Cell or function that the programs are cached with.
        variant: a key for a function derived from the owner (such as its gradient); None for the owner itself.
        function: the function to call.
        args: positional arguments.
        kwargs: keyword arguments.
    """
    return _call(_cache_of(owner, variant), function, args, kwargs)


def _cache_of(owner: Any, variant: Hashable) -> Cache:
    """The cache of an object and variant."""
    method = getattr(owner, "__func__", None)
    if method is not None:
        owner, variant = owner.__self__, (method, variant)
    caches: dict[Hashable, Cache] = getattr(owner, "__dict__", {}).setdefault("_compiled", {})
    return caches.setdefault(variant, Cache())


def declared_inputs(cell: Any, inputs: Any) -> DeclaredInputs:
    """The inputs that `Cell.set_inputs` declares; raises `TypeError` and `ValueError` as it does."""
    return DeclaredInputs.of(cell, inputs, of="set_inputs")


def trace_declared(cell: Any, declared: DeclaredInputs) -> None:
    """Compile a Cell in graph mode for its declared inputs, if it declares all of them."""
    args = declared.arguments(cell)
    if args is not None:
        _cache_of(cell, None).trace(cell, args, declared)


def _call(
    cache: Cache,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    declared: DeclaredInputs | None = None,
) -> Any:
    if current() is not None or is_forced():
        return function(*args, **kwargs)
    return cache.call(function, args, kwargs, declared or _declared_by_cell(function))


def _declared_by_cell(function: Function) -> DeclaredInputs | None:
    """The inputs that `set_inputs` declared, for a Cell or its `construct` method."""
    if getattr(function, "__name__", "") == "construct":
        function = getattr(function, "__self__", function)
    declared: DeclaredInputs | None = getattr(function, "__dict__", {}).get("_declared")
    return declared


def _parameters(function: Function) -> list[str]:
    return parameter_names(function, 0)[1]
