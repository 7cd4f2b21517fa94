"""The limit on nested modules: torch calls, copies and lists modules recursively."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...runtime.errors import ConversionError

if TYPE_CHECKING:
    from torch import nn

MAX_DEPTH = 1000
"""Nested modules. Ten thousand would overflow the stack of the process."""
_PER_MODULE = 30
"""Python frames for each level of modules: 6 in a call with hooks, 8 in a copy, more where torch traces."""


def raise_recursion_limit(depth: int) -> None:
    """Raise Python's recursion limit, if necessary, for modules nested `depth` levels deep.

    Raises:
        ConversionError: they are nested too deep for torch.
    """
    require_depth(depth)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + _PER_MODULE * depth))


def require_depth(depth: int) -> None:
    """Raise `ConversionError` for modules that are nested too deep for torch."""
    if depth > MAX_DEPTH:
        raise ConversionError(
            f"the model has {depth} nested modules; torch calls them recursively, for which at most "
            f"{MAX_DEPTH} are allowed"
        )


def depth_of(root: nn.Module) -> int:
    """The number of levels of modules below a module."""
    deepest, waiting, visited = 0, [(0, root)], set()
    while waiting:
        depth, module = waiting.pop()
        deepest = max(deepest, depth)
        if module not in visited:
            visited.add(module)
            waiting += [(depth + 1, child) for child in module._modules.values() if child is not None]
    return deepest
