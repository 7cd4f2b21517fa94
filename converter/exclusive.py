"""One thread at a time: capture and comparison change what all threads of torch and Python share.

`torch.export` keeps state of its own; modes of the module, the default dtype, torch's random numbers and Python's
warnings are set for a while and put back. A second thread waits until the first is done.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LOCK = threading.RLock()  # a comparison captures


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which waits while another thread is in it, or in another function decorated so."""

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with _LOCK:
            return function(*args, **kwargs)

    return alone
