"""Where a node comes from: the line of the user's that is running."""

from __future__ import annotations

import functools
import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType

from ..ir.types import Source
from ..tape import Tape

PACKAGE = str(Path(__file__).parents[1])
"""The folder of the runtime: frames in it are ours, not the user's."""


def running_line(operator: str) -> Source | None:
    """The innermost line that runs outside of the runtime.

    None in a backward pass, before a line of the user's within it (of a `bprop`, say) is found: the step has the source
    of its forward.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is Tape.pull_back.__code__:
            return None
        if not code.co_filename.startswith(PACKAGE):
            return _source(code, frame.f_lineno, operator)
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=4096)
def _source(code: CodeType, line: int, operator: str) -> Source:
    return Source(code.co_filename, line, linecache.getline(code.co_filename, line).strip(), operator)
