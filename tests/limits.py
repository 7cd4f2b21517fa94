"""Limits of time and additional memory under which hostile input must be refused."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

PAGE = resource.getpagesize()


@contextlib.contextmanager
def limited(seconds: float = 10, memory: int = 2**30, *, processor: bool = False) -> Iterator[None]:
    """Raise `TimeoutError` after `seconds` of wall or processor time; allow `memory` additional bytes."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    timer, number = (signal.ITIMER_PROF, signal.SIGPROF) if processor else (signal.ITIMER_REAL, signal.SIGALRM)
    handler = signal.signal(number, late)
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, hard))
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(number, handler)
