"""Judging the models of a sweep on this machine, several at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from .result import Result

EVERY = 0.5
"""Seconds between two looks at the results."""
Judge = Callable[[str, threading.Event], Result]
"""Judges a model in a process of its own."""


def on_this_machine(models: Sequence[str], judge: Judge, workers: int) -> Generator[Result, None, None]:
    """Judge models with so many processes at a time, and yield each result as it comes.

    If the iteration is left, the processes that still run are stopped.
    """
    interrupt = threading.Event()
    with ThreadPoolExecutor(workers, thread_name_prefix="sweep") as pool:  # each waits for a process
        try:
            waiting = {pool.submit(judge, model, interrupt) for model in models}
            while waiting:
                # not forever: Python sees a Ctrl-C that comes just before it waits only when the wait has ended
                done, waiting = wait(waiting, EVERY, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            interrupt.set()
            pool.shutdown(cancel_futures=True)
