"""Where the code of a Cell begins."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from typing import Any

from ...runtime.visible import visible_name
from ..results.hunk import CodeLine

DECORATORS = 20
"""The most lines of decorators that stand before a function."""


def definition_of(function: Callable[..., Any]) -> CodeLine | None:
    """Return the line of `def` of a function that was defined in Python; None for any other."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    first = code.co_firstlineno  # that of the first decorator
    texts = [linecache.getline(code.co_filename, first + n).strip() for n in range(DECORATORS)]
    number = next((n for n, text in enumerate(texts) if text.startswith(("def ", "async def "))), 0)
    return CodeLine(visible_name(code.co_filename), first + number, visible_name(texts[number]))
