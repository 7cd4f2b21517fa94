"""Updates of Parameters under a condition that may be known only when a program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...common.tensor import Tensor, is_known
from ...current_trace import current
from ...ops import shaping


def update_unless(skip: Any, update: Callable[[], Any]) -> None:
    """Call `update`, which gives Parameters new values, unless `skip` holds: a bool, or a bool tensor of one element.

    While Python is traced and `skip` is symbolic, `update` is called, and in the program each Parameter gets its new
    value or keeps the one it has.
    """
    trace = current()
    if trace is None or not isinstance(skip, Tensor) or is_known(skip):
        if not skip:
            update()
    else:
        trace.update_unless(shaping.reshape(skip, shape=()), update)
