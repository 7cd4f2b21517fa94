"""Where a node comes from: the line of the user's that is running."""

from __future__ import annotations

import functools
import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from ..eager.tape import Tape
from ..installed import is_installed
from ..ir.types import Source

PACKAGE = str(Path(__file__).parents[1])
"""The folder of the runtime."""
_NOT_THE_USERS = (PACKAGE, str(Path(np.__file__).parent))

ROOM = __name__.removesuffix("graph.sources")
"""What names of the runtime's modules begin with."""


def running_line(operator: str) -> Source | None:
    """The innermost line that runs outside of the runtime.

    None in a backward pass, before a line of the user's within it (of a `bprop`, say) is found: the step has the source
    of its forward.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is Tape.backward.__code__:
            return None
        if not is_ours(code):
            return _source(code, frame.f_lineno, operator)
        frame = frame.f_back
    return None


def is_ours(code: CodeType) -> bool:
    """Whether code is the runtime's, NumPy's, or was made by the standard library (the methods of a dataclass)."""
    return code.co_filename.startswith(_NOT_THE_USERS) or code.co_filename == "<string>"


def is_of_a_package(module: ModuleType | CodeType | None) -> bool:
    """Whether a module, or code, is the runtime's, the standard library's or of a package that was installed."""
    if isinstance(module, CodeType):
        file: Any = module.co_filename
    elif module is None or module.__name__.split(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return module is not None
    else:
        file = getattr(module, "__file__", None) or ""
    return file.startswith(PACKAGE) or is_installed(file)


def made_by_us(function: Any) -> bool:
    """Whether a function, or the class of a callable object, is the runtime's."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return is_ours(code) if code is not None else type(function).__module__.startswith(ROOM)


@functools.lru_cache(maxsize=4096)
def _source(code: CodeType, line: int, operator: str) -> Source:
    return Source(code.co_filename, line, linecache.getline(code.co_filename, line).strip(), operator)
