"""The process of a command, which has many objects, and many large arrays for a short time."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
MAX_MMAP_THRESHOLD = 2**25  # that glibc accepts
MAX_INT = 2**31 - 1
COLLECTION_THRESHOLDS = 20_000, 20, 50


@contextmanager
def tuned_process() -> Iterator[None]:
    """Within the context, collect garbage less often; from now on, keep freed memory for the next arrays.

    Importing torch alone creates a million objects, which each full collection visits. Memory that is given back to the
    system is cleared, page by page, before it is used again. Where the C library isn't glibc, that is left to it.
    """
    keep_freed_memory()
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def keep_freed_memory() -> None:
    """Set the limits from which glibc returns memory to the system as high as they go."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MAX_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, MAX_INT)


def peak_memory() -> int:
    """Return the most bytes that the process has had in memory so far; 0 on systems that don't say."""
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def give_back_freed_memory() -> None:
    """Return freed memory to the system, where the C library is glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def end_process(code: int) -> None:
    """End the process at once with an exit code, after the handlers of `atexit`.

    Python would first free a million objects, most of them torch's, one by one: a second or more. This returns only if
    buffered output can't be written, which Python reports at its own end.
    """
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
