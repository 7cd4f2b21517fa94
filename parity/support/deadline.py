"""`--timeout`: stops a run after a number of seconds."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from . import progress

GRACE = 2.0  # seconds after the deadline until the process is ended, if native code doesn't return
STOPPED = 2  # the exit code


class OutOfTime(BaseException):
    """Raised in the running code when time is up; not an `Exception`, so that it isn't taken for a model's error."""


@contextlib.contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise `OutOfTime` in the block after `seconds`; never for None.

    Native code that doesn't return to Python can't be interrupted: the process then ends, with the same message.
    So it does within an import: a library that is half imported takes an exception for another one, or aborts.
    """
    if seconds is None:
        yield
        return

    def raise_out_of_time(number: int, frame: FrameType | None) -> None:
        if _is_importing(frame):
            end_process()
        raise OutOfTime(message(seconds))

    def end_process() -> None:
        sys.stderr.write(f"error: {message(seconds)}\n")
        sys.stderr.flush()
        os._exit(STOPPED)

    last = threading.Timer(seconds + GRACE, end_process)
    last.daemon = True
    last.start()
    can_alarm = hasattr(signal, "setitimer")
    if can_alarm:
        before = signal.signal(signal.SIGALRM, raise_out_of_time)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if can_alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        last.cancel()


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a statement `import` is being executed."""
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def message(seconds: float) -> str:
    """The message about a stopped run, with its stage."""
    stage = f" It was at the stage {progress.current!r}." if progress.current else ""
    return f"stopped after {seconds:g} s, as --timeout requests.{stage}"
