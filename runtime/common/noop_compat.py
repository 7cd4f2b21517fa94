"""What scripts say about compiling, memory and recursion. Nothing depends on it here."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from .. import checks
from ..current_trace import current
from ..eager import tape


def mutable(input_data: Any, dynamic_len: bool = False) -> Any:
    """`input_data`; elsewhere it says that its values are no constants."""
    return input_data


def jit_class(cls: type) -> type:
    """`cls`; elsewhere it says that `construct` makes objects of it."""
    return checks.of_type(cls, "cls", type, of="jit_class")  # type: ignore[no-any-return]


def lazy_inline(fn: Any = None, attrs: Any = None, policy: Any = None) -> Any:
    """`fn`, an `__init__`; elsewhere it says that the Cell is compiled once for all uses."""
    return fn if fn is not None else lambda function: function


def no_inline(fn: Any = None) -> Any:
    """`fn`; elsewhere it says that it is compiled by itself."""
    return fn if fn is not None else lambda function: function


def constexpr(
    fn: Any = None, get_instance: bool = True, name: str | None = None, reuse_result: bool = True, check: bool = True
) -> Any:
    """`fn`; elsewhere it says that it is run while compiling. The other arguments have no meaning here."""
    return fn if fn is not None else lambda function: function


def recompute(block: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`block(*args, **kwargs)`; what it computed is kept for its gradient, not computed again."""
    return block(*args, **kwargs)


def set_deterministic(deterministic: bool) -> None:
    """Nothing: the kernels are deterministic. `TypeError` if no bool is given."""
    checks.of_type(deterministic, "deterministic", bool, of="set_deterministic")


def set_recursion_limit(recursion_limit: int = 1000) -> None:
    """Nothing: there is no graph whose calls would be limited. `ValueError` if it isn't above 0."""
    checks.positive_int(recursion_limit, "recursion_limit", of="set_recursion_limit")


class _no_grad:  # noqa: N801
    """Within the context, or the function decorated, nothing is recorded: no gradient flows to what is before it."""

    def __init__(self) -> None:
        self._entered: list[contextlib.ExitStack] = []  # several where it is entered within itself

    def __enter__(self) -> None:
        trace = current()
        within = contextlib.ExitStack()
        within.enter_context(tape.record_on(None))
        if trace is not None:
            within.enter_context(trace.without_gradient())
        self._entered.append(within)

    def __exit__(self, *raised: Any) -> None:
        self._entered.pop().close()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def without_gradient(*args: Any, **kwargs: Any) -> Any:
            with type(self)():  # one for each call: there may be threads
                return function(*args, **kwargs)

        return without_gradient
