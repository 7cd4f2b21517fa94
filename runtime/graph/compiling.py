"""`jit` and graph mode: functions and Cells are traced, compiled, and run in ONNX Runtime."""

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
from .declared import Declared
from .traced import TracedProgram

Function = Callable[..., Any]

_WITHOUT_EFFECT = frozenset(
    {
        "backend", "capture_mode", "compile_once", "dynamic", "fullgraph", "hash_args", "jit_config", "jit_level",
        "mode",
    }
)  # fmt: skip
"""What scripts say about how to compile; there is one way here."""


def jit(function: Function | None = None, *, input_signature: Any = None, **settings: Any) -> Any:
    """Compile a function, a method or a Cell: it is traced when it is called, and runs in ONNX Runtime.

    It gives the same results as without. What it compiles is kept by the function, by dtypes, ranks and Python values
    of the arguments, and by all that it met: the attributes of Cells (`training` among them), the Parameters, the
    variables that it uses. In later calls of other sizes, the sizes that differ become symbolic: from then on any will
    do, unless Python decides on a size. Parameters that it gives new values have them after the call. Within what is
    traced already it is a part of that.

        @jit
        def forward(x): ...

    Args:
        function: the function, method or Cell; without it, a decorator is returned.
        input_signature: what it will be called with, a tuple or list of Tensors (or one), or a dict of some by the
            names of parameters. Sizes that placeholders leave open, `Tensor(shape=[None, 3], dtype=ms.float32)`, are
            symbolic from the first call on. Without it, what `Cell.set_inputs` declares counts.
        **settings: `mode`, `jit_level` and others that scripts give; they change nothing.

    Returns:
        What is called in its place: a `Jitted`.

    Raises:
        TypeError: `function` can't be called, a setting is unknown, or `input_signature` doesn't fit it. Calls raise
            `TracingError` for what can't be traced, `UnsupportedOperators` for what ONNX Runtime can't do, and
            `TypeError` (types, dtypes) and `ValueError` (shapes) for inputs other than declared.
        ValueError: `input_signature` names a parameter that there isn't.
    """
    if unknown := sorted(settings.keys() - _WITHOUT_EFFECT):
        known = sorted({"input_signature", *_WITHOUT_EFFECT})
        raise TypeError(f"For 'jit', the argument '{unknown[0]}' is unknown: known are {known}")
    if function is None:
        return functools.partial(jit, input_signature=input_signature, **settings)
    if not callable(function) or inspect.isclass(function):
        raise TypeError(f"For 'jit', 'function' must be a function, method or Cell, but got {function!r}")
    if isinstance(function, Jitted) and input_signature is None:
        return function
    return Jitted(function._function if isinstance(function, Jitted) else function, input_signature)


_SIGNATURE = "jit(input_signature=)"


class Jitted:
    """A function that runs compiled; made by `jit`. Attributes are those of the function or Cell."""

    def __init__(self, function: Function, input_signature: Any = None) -> None:
        self._function = function
        self._input_signature = input_signature
        self._cache = Cache()
        self._declared: Declared | None = None
        if input_signature is not None and next(iter(_parameters(function)), "") != "self":
            self._declared = Declared.of(function, input_signature, of=_SIGNATURE)
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return _called(self._cache, self._function, args, kwargs, self._declared)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """The method of an object, with programs of its own."""
        if instance is None:
            return self
        method = types.MethodType(self._function, instance)
        cache = _cache_of(method, "jit")
        declared: Declared | None = None
        if self._input_signature is not None:
            declared = Declared.of(method, self._input_signature, of=_SIGNATURE)

        @functools.wraps(method)
        def bound(*args: Any, **kwargs: Any) -> Any:
            return _called(cache, method, args, kwargs, declared)

        bound.cache_info = lambda: cache.info  # type: ignore[attr-defined]
        return bound

    def cache_info(self) -> CacheInfo:
        """How often it was traced (`traces`), how many programs are kept, and how often they were run."""
        return self._cache.info

    @property
    def programs(self) -> tuple[TracedProgram, ...]:
        """The programs that are kept, the latest last."""
        return self._cache.programs

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # not there yet
            raise AttributeError(name)
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return f"jit({self._function!r})"


def in_graph_mode(owner: Any, variant: Hashable, function: Function, args: tuple[Any, ...], kwargs: Any) -> Any:
    """Call a function compiled, in graph mode.

    Args:
        owner: the Cell or function that its programs are kept with.
        variant: what is made of it, where that isn't the owner itself.
        function: what is called.
        args: positional arguments.
        kwargs: keyword arguments.
    """
    return _called(_cache_of(owner, variant), function, args, kwargs)


def _cache_of(owner: Any, variant: Hashable) -> Cache:
    """The programs that an object keeps."""
    method = getattr(owner, "__func__", None)
    if method is not None:
        owner, variant = owner.__self__, (method, variant)
    caches: dict[Hashable, Cache] = getattr(owner, "__dict__", {}).setdefault("_compiled", {})
    return caches.setdefault(variant, Cache())


def declared_inputs(cell: Any, inputs: Any) -> Declared:
    """What `Cell.set_inputs` declares; `TypeError` and `ValueError` as it says."""
    return Declared.of(cell, inputs, of="set_inputs")


def trace_declared(cell: Any, declared: Declared) -> None:
    """Compile a Cell in graph mode for the inputs that it declares, if those are all."""
    args = declared.arguments(cell)
    if args is not None:
        _cache_of(cell, None).trace(cell, args, declared)


def _called(
    cache: Cache, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], declared: Declared | None = None
) -> Any:
    if current() is not None or is_forced():
        return function(*args, **kwargs)
    return cache.call(function, args, kwargs, declared or _declared_by_cell(function))


def _declared_by_cell(function: Function) -> Declared | None:
    """What `set_inputs` declared for a Cell that is called, or whose `construct` is."""
    if getattr(function, "__name__", "") == "construct":
        function = getattr(function, "__self__", function)
    declared: Declared | None = getattr(function, "__dict__", {}).get("_declared")
    return declared


def _parameters(function: Function) -> list[str]:
    return parameter_names(function, 0)[1]
