"""The lines that the equations of a jaxpr come from."""

from __future__ import annotations

import linecache
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...runtime.installed import is_installed
from ...runtime.ir.types import Source

ROOMS = tuple(f"{Path(__file__).parents[2] / room}/" for room in ("converter", "parity", "runtime"))


def source_of(equation: Any, operator: str, calling: Source | None = None) -> Source:
    """Return the innermost line of the user's files that an equation comes from, without a line if there is none.

    Args:
        equation: the equation.
        operator: its primitive, with the operands.
        calling: for an equation of a function that is called, the line of the call, which holds if the function is one
            of JAX's own.
    """
    traceback = equation.source_info.traceback
    for frame in () if traceback is None else traceback.frames:  # the innermost first
        if frame.file_name.startswith(ROOMS):
            break
        if not is_installed(frame.file_name):
            text = linecache.getline(frame.file_name, frame.line_num).strip()
            return Source(frame.file_name, frame.line_num, text, operator)
    return Source("", 0, "", operator) if calling is None else replace(calling, operator=operator)
