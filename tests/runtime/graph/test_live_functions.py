"""The search for functions that are alive."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cellbridge.runtime.graph.control.live_functions import functions_of_modules


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(x: Any) -> Any:
        return later(x) if x is None else function(x)

    if function is None:
        later = wrapper  # a variable without a value elsewhere
    return wrapper


def named(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(x: Any) -> Any:
        return function(x)

    return wrapper


@plain
@named
def wrapped_twice(x: Any) -> Any:
    return x


class Holder:
    @staticmethod
    @plain
    def wrapped_method(x: Any) -> Any:
        return x


def test_functions_behind_decorators_are_reached_through_their_module() -> None:
    codes = {function.__code__.co_qualname for function in functions_of_modules(__file__)}
    assert {"plain", "wrapped_twice", "Holder.wrapped_method", "plain.<locals>.wrapper"} <= codes
