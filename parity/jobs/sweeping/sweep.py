"""`sweep`: judges models that aren't judged yet, and saves each result as it comes."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from ...report.html.overview import Summary, page_name
from ...support.files import write_in_folder
from .limits import Limits
from .result import HOLDS, Result, judge_model
from .run_options import RunOptions
from .store import Store


@dataclass(frozen=True)
class Machines:
    """Where models are judged.

    Attributes:
        limits: what the process of one model may take.
        workers: number of processes at a time on this machine.
        ray: address of a Ray cluster, which is used instead; None for this machine.
    """

    limits: Limits
    workers: int
    ray: str | None = None


def remaining(models: Sequence[str], store: Store, rerun: str, changed: Collection[str] | None) -> list[str]:
    """Return the models that are to be judged.

    Args:
        models: all models.
        store: the results so far.
        rerun: "failed" for those without parity too, "all" for all, or "" for those alone that have no result.
        changed: models that are to be judged again because their files have changed; None if that isn't asked.
    """
    results = store.results()
    if rerun == "all":
        return list(models)
    return [
        model
        for model in models
        if model not in results
        or (rerun == "failed" and results[model].outcome != HOLDS)
        or (changed is not None and model in changed)
    ]


def sweep(
    models: Sequence[str],
    store: Store,
    machines: Machines,
    folder: Path | None,
    progress: Callable[[Result], None],
) -> None:
    """Judge models and save the results.

    Args:
        models: the models.
        store: where results are saved; nothing else writes it.
        machines: where they are judged.
        folder: where an HTML page on each is written; None for no pages.
        progress: is called with each result, once it is saved.

    Raises:
        UsageError: a result can't be saved, or the cluster can't be used.
    """
    # closed even if the interrupt comes while a result is saved: then the processes that still run are stopped
    with contextlib.closing(_results(models, store.options, machines, page=folder is not None)) as results:
        for result in results:
            if folder is not None and result.page:
                write_in_folder(folder, page_of(result.model), result.page)
            store.add(result)
            progress(result)


def _results(
    models: Sequence[str], options: RunOptions, machines: Machines, *, page: bool
) -> Generator[Result, None, None]:
    if machines.ray is not None:
        from .on_ray import on_ray

        return on_ray(models, options, machines.limits, machines.ray, page=page)

    def judge(model: str, interrupt: threading.Event) -> Result:
        return judge_model(model, options, machines.limits, page=page, interrupt=interrupt)

    return on_this_machine(models, judge, machines.workers)


def page_of(model: str) -> str:
    """Return the name of the file of a model's page: always the same, and different for different models."""
    digest = hashlib.sha256(model.encode(errors="surrogateescape")).hexdigest()[:8]
    return page_name(f"{model}-{digest}")


def summaries(results: Sequence[Result], folder: Path) -> list[Summary]:
    """Return the lines of the overview; each leads to the model's page, if it is in the folder."""
    lines = []
    for result in results:
        page = page_of(result.model)
        verdict = result.reason
        link = page if (folder / page).exists() else ""
        lines.append(Summary(result.model, result.outcome, verdict, result.failing, result.cause, result.seconds, link))
    return lines


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
