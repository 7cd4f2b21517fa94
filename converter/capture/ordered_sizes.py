"""The smaller of two sizes, where all sizes allowed say which one it is.

torch merges axes of a cache that grows, `[batch, heads, past + 1, channels]`, by the smallest of their strides, such as
`min(4 * past + 4, 8 * past + 8)`. It asks later whether that is the first one, doesn't see that it always is, and
refuses a dimension that may vary (torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sympy
from torch.utils._sympy.functions import Max, Min


@contextmanager
def ordered_sizes() -> Iterator[None]:
    """Within the context, a minimum or maximum of two sizes is one of them if their difference has a known sign."""
    kinds: tuple[Any, ...] = (Min, Max)
    create = {kind: kind.__new__ for kind in kinds}

    def simplified(kind: Any, *args: Any, **options: Any) -> Any:
        if len(args) == 2:
            first, second = map(sympy.sympify, args)
            for smaller, larger in ((first, second), (second, first)):
                if (larger - smaller).is_nonnegative:
                    return smaller if kind is Min else larger
        return create[kind](kind, *args, **options)

    for kind in create:
        kind.__new__ = simplified
    try:
        yield
    finally:
        for kind in create:
            del kind.__new__  # both inherit it
