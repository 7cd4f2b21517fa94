"""The trace of Python that runs now, with all that graph mode knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..current_trace import current

if TYPE_CHECKING:
    from .recording import Trace


def current_recording() -> Trace:
    """The trace that runs now; to be called with symbolic tensors at hand."""
    trace = current()
    assert trace is not None, "there are symbolic tensors while Python is traced"
    return cast("Trace", trace)
