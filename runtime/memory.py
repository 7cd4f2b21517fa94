"""Checks that a tensor can fit into memory at all, before anything is allocated."""

from __future__ import annotations

import functools
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ShapeError

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # the limit of a container (cgroup v2): bytes, or "max"
ALWAYS_ALLOWED = 2**28  # bytes
MAX_TABLE_ELEMENTS = 2**26  # numbers

_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB", "EB")


def memory_size() -> int:
    """Return the bytes of memory of this machine, or the limit of the container or process (ulimit -v) if lower."""
    return min(_machine_memory(), _process_limit())


def _process_limit() -> int:
    if sys.platform == "win32":
        return 2**63
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return 2**63 if soft == resource.RLIM_INFINITY else int(soft)


@functools.cache
def _machine_memory() -> int:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63
    text = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else "max"
    return min(physical, int(text)) if text.isdigit() else physical


def check_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise `ShapeError` if a size is negative, or if one tensor would take more than half of the memory.

    Half, because an op needs room for both its operand and its result. Passing the check is no guarantee that a
    program fits, but it stops absurd sizes.
    """
    if shape and min(shape) < 0:
        raise ShapeError(f"a tensor can't have the shape {list(shape)}: a size is negative")
    needed = math.prod(shape) * dtype.itemsize
    if needed > ALWAYS_ALLOWED and needed > memory_size() // 2:
        raise ShapeError(
            f"one tensor of {dtype.name}{list(shape)} would take {size_in_words(needed)}; this machine has "
            f"{size_in_words(memory_size())} of memory, of which one tensor may take half"
        )
    if math.prod(filter(None, shape)) * dtype.itemsize >= 2**63:  # NumPy has no such array, even of no elements
        raise ShapeError(f"a tensor can't have the shape {list(shape)}: its sizes are too large")


def check_table_size(*sizes: int) -> None:
    """Raise `ShapeError` if an op would need an absurdly large table of weights or positions of this shape."""
    if math.prod(sizes) > MAX_TABLE_ELEMENTS:
        shape = " x ".join(map(str, sizes))
        raise ShapeError(f"it needs a table of {shape} numbers; at most {MAX_TABLE_ELEMENTS} are allowed")


def size_in_words(size: int) -> str:
    """Format a number of bytes for readers, e.g. `3.64 TB`, in the decimal units that options take (`8GB`)."""
    power = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
    return f"{size / 1000**power:.3g} {_UNITS[power]}"
