"""A lock for capture and comparison, which change state that all threads of torch and Python share.

`torch.export` has global state. The module's modes, the default dtype, torch's random state and Python's warnings are
changed temporarily and restored. A second thread waits until the first is done.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LOCK = threading.RLock()  # reentrant: a comparison also captures


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: `function` waits while another thread runs it or any other function with this decorator."""

    @functools.wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> R:
        with _LOCK:
            return function(*args, **kwargs)

    return locked
