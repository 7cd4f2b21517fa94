"""Functions that scripts call to control compilation, memory and recursion, and that have no effect here."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from .. import checks
from ..current_trace import current
from . import tape


def mutable(input_data: Any, dynamic_len: bool = False) -> Any:
    """Return `input_data`. (In MindSpore, its values aren't constants of the graph.)"""
    return input_data


def jit_class(cls: type) -> type:
    """Return `cls`. (In MindSpore, `construct` may create instances of it.)"""
    return checks.of_type(cls, "cls", type, of="jit_class")  # type: ignore[no-any-return]


def lazy_inline(fn: Any = None, attrs: Any = None, policy: Any = None) -> Any:
    """Return `fn`, an `__init__` method. (In MindSpore, the Cell is compiled once for all uses.)"""
    return fn if fn is not None else lambda function: function


def no_inline(fn: Any = None) -> Any:
    """Return `fn`. (In MindSpore, it is compiled separately.)"""
    return fn if fn is not None else lambda function: function


def constexpr(
    fn: Any = None, get_instance: bool = True, name: str | None = None, reuse_result: bool = True, check: bool = True
) -> Any:
    """Return `fn`. (In MindSpore, it runs during compilation.) The other arguments have no effect."""
    return fn if fn is not None else lambda function: function


def recompute(block: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return `block(*args, **kwargs)`; its intermediate results are kept for the gradient, not recomputed."""
    return block(*args, **kwargs)


def set_deterministic(deterministic: bool) -> None:
    """Do nothing, because the kernels are deterministic; `TypeError` unless the argument is a bool."""
    checks.of_type(deterministic, "deterministic", bool, of="set_deterministic")


def set_recursion_limit(recursion_limit: int = 1000) -> None:
    """Do nothing, because there is no limit on nested calls; `ValueError` unless the argument is above 0."""
    checks.positive_int(recursion_limit, "recursion_limit", of="set_recursion_limit")


class _no_grad:  # noqa: N801
    """A context manager and decorator: the code in it isn't recorded, so no gradient flows through it."""

    def __init__(self) -> None:
        self._stacks: list[contextlib.ExitStack] = []  # one per level of nesting

    def __enter__(self) -> None:
        trace = current()
        stack = contextlib.ExitStack()
        stack.enter_context(tape.record_on(None))
        if trace is not None:
            stack.enter_context(trace.without_gradient())
        self._stacks.append(stack)

    def __exit__(self, *raised: Any) -> None:
        self._stacks.pop().close()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def without_gradient(*args: Any, **kwargs: Any) -> Any:
            with type(self)():  # one context per call, for threads
                return function(*args, **kwargs)

        return without_gradient
