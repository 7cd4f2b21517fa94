"""How deep modules may be nested: torch calls, copies and lists them by recursion."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...runtime.errors import ConversionError

if TYPE_CHECKING:
    from torch import nn

MAX_DEPTH = 1000
"""Modules within each other. Ten thousand would fill the stack of the process."""
_PER_MODULE = 30
"""Frames of Python between a module and one in it: 6 in a call with hooks, 8 in a copy, more where torch traces."""


def leave_room(depth: int) -> None:
    """Let Python's recursion be deep enough for modules nested so deep; never less deep than it may be now.

    Raises:
        ConversionError: they are nested deeper than torch can go.
    """
    require_depth(depth)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + _PER_MODULE * depth))


def require_depth(depth: int) -> None:
    """`ConversionError` for modules that are nested deeper than torch can go."""
    if depth > MAX_DEPTH:
        raise ConversionError(
            f"the model has {depth} modules within each other; torch calls them by recursion, for which at most "
            f"{MAX_DEPTH} are allowed"
        )


def depth_of(root: nn.Module) -> int:
    """How many modules are within each other below a module."""
    deepest, waiting, seen = 0, [(0, root)], set()
    while waiting:
        depth, module = waiting.pop()
        deepest = max(deepest, depth)
        if module not in seen:
            seen.add(module)
            waiting += [(depth + 1, child) for child in module._modules.values() if child is not None]
    return deepest
