"""Judging the models of a sweep on this machine, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from .limits import Interrupt
from .result import Result

Judge = Callable[[str, Interrupt], Result]
"""Judges a model in a process of its own."""


def on_this_machine(models: Sequence[str], judge: Judge, workers: int) -> Iterator[Result]:
    """Judge models with so many processes at a time, and yield each result as it comes.

    If the iteration is left, the processes that still run are stopped.
    """
    interrupt = Interrupt()
    with ThreadPoolExecutor(workers, thread_name_prefix="sweep") as pool:  # each waits for a process
        try:
            for future in as_completed([pool.submit(judge, model, interrupt) for model in models]):
                yield future.result()
        finally:
            interrupt.set()
            pool.shutdown(cancel_futures=True)
