"""Judging the models of a sweep on a Ray cluster."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from collections.abc import Generator, Sequence
from typing import Any

from ....runtime.errors import UsageError
from ....runtime.visible import visible_text
from .limits import Limits
from .result import Result, judge_model
from .run_options import RunOptions

CONNECT_SECONDS = 10.0
AHEAD = 5_000
"""Tasks that Ray is given ahead; each call of `ray.wait` looks at all of them."""
RETRIES = 5
"""How often a model is begun anew whose worker or node is lost."""


def on_ray(
    models: Sequence[str], options: RunOptions, limits: Limits, address: str, *, page: bool
) -> Generator[Result, None, None]:
    """Judge models as tasks of a Ray cluster, and yield each result as it comes.

    Ray places them by threads and memory.

    A task whose worker or node is lost is begun anew elsewhere. The model files must be there under the same paths.

    Args:
        models: the models.
        options: options of `parity run`.
        limits: what the process of one model may take.
        address: `auto` for the cluster that runs here, or `host:port`; `local` starts one on this machine.
        page: whether HTML pages are wanted.

    Raises:
        UsageError: Ray isn't installed, nothing answers at the address, or what does runs other versions.
    """
    _require_answer(address)
    try:
        import ray
    except ImportError as error:
        raise UsageError("--ray needs Ray, which isn't installed: pip install 'cellbridge[ray]'") from error
    _connect(ray, address)
    try:
        task = ray.remote(judge_there).options(num_cpus=limits.threads, memory=limits.memory, max_retries=RETRIES)
        arguments = options, limits, page, os.getcwd()
        rest = iter(models)
        waiting = [task.remote(model, *arguments) for model in itertools.islice(rest, AHEAD)]
        while waiting:
            done, waiting = ray.wait(waiting, timeout=1.0)  # not for long, so that Ctrl-C is seen
            waiting += [task.remote(model, *arguments) for model in itertools.islice(rest, len(done))]
            for reference in done:
                try:
                    yield ray.get(reference)
                except ray.exceptions.RayError as error:
                    raise UsageError(f"the cluster couldn't judge a model: {_first_line(error)}") from error
    finally:
        ray.shutdown()


def judge_there(model: str, options: RunOptions, limits: Limits, page: bool, folder: str) -> Result:
    """Judge a model on a node of the cluster, from the folder of the command."""
    try:
        os.chdir(folder)
    except OSError as error:
        message = f"there is no folder {folder} on the node {os.uname().nodename}: {error.strerror}"
        return Result(model, "not judged", message, 2, 0.0, 0)
    return judge_model(model, options, limits, page=page)


def _require_answer(address: str) -> None:
    """Raise `UsageError` if nothing accepts a connection at `host:port`; Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address in ("auto", "local"):
        return
    if not colon or not host or not port.isdecimal() or int(port) >= 2**16:
        raise UsageError(f"--ray: needed auto, local or HOST:PORT, given {visible_text(address)}")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise UsageError(
            f"--ray {visible_text(address)}: nothing answers there: {error}\n"
            "  what to do: start a cluster with `ray start --head`, which prints its address"
        ) from error


def _connect(ray: Any, address: str) -> None:
    """Connect to a cluster.

    Raises:
        UsageError: that is impossible.
    """
    try:
        ray.init(
            address=None if address == "local" else address, log_to_driver=False, logging_level="ERROR",
            include_dashboard=False if address == "local" else None,
        )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        other = "ersion" in str(error)
        what = "what answers there is of other versions" if other else "no Ray cluster answers there"
        reason = visible_text(" ".join(str(error).split()))[:300] if other else _first_line(error)
        versions = f"Ray {ray.__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}"
        raise UsageError(
            f"--ray {address}: {what}: {reason}\n"
            f"  what to do: start one with `ray start --head`, with {versions} as here"
        ) from error


def _first_line(error: Exception) -> str:
    return visible_text(str(error).strip().partition("\n")[0])[:300]
