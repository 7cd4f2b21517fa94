"""Updates of Parameters under a condition that may be unknown until a program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...common.tensor import Tensor, is_known
from ...current_trace import current
from ...ops import shaping


def update_unless(skip: Any, update: Callable[[], Any]) -> None:
    """Call `update`, which changes Parameters, unless `skip` is true: a bool, or a bool tensor of one element.

    If `skip` is symbolic, `update` is traced, and the program selects between the new and the old value of each
    Parameter.
    """
    trace = current()
    if trace is None or not isinstance(skip, Tensor) or is_known(skip):
        if not skip:
            update()
    else:
        trace.update_unless(shaping.reshape(skip, shape=()), update)
