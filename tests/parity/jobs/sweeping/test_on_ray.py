"""A sweep on a real Ray cluster of several nodes on this machine: what is lost is begun anew, what is done isn't.

Ray isn't among the packages that the tests need: pip install 'cellbridge[ray]', and pytest -m slow.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cellbridge.parity.jobs.sweeping.limits import Limits
from cellbridge.parity.jobs.sweeping.on_ray import on_ray
from cellbridge.parity.jobs.sweeping.result import Result
from cellbridge.parity.jobs.sweeping.run_options import RunOptions

pytestmark = pytest.mark.slow
pytest.importorskip("ray")

LIMITS = Limits(seconds=120.0, memory=2**29, threads=1)
MODEL = """
import os, time, torch
from torch import nn
with open({log!r}, "a") as file:
    file.write("{name}\\n")
time.sleep({seconds})
def model(): return nn.Linear(4, 3)
def inputs(): return (torch.ones(2, 4),)
"""


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head without CPUs, and two nodes."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        nodes.add_node(num_cpus=1, memory=2**30)
    nodes.wait_for_nodes()
    yield nodes
    nodes.shutdown()


def write_models(folder: Path, count: int, seconds: float = 2.0) -> list[str]:
    models = []
    for number in range(count):
        file = folder / f"m{number}.py"
        file.write_text(MODEL.format(log=str(folder / "log"), name=number, seconds=seconds))
        models.append(str(file))
    return models


def begun(folder: Path) -> list[str]:
    """The models whose file was run, once for each time."""
    log = folder / "log"
    return log.read_text().split() if log.exists() else []


def judge(models: list[str], cluster: Any) -> Iterator[Result]:
    return on_ray(models, RunOptions(["--no-grad", "--no-probe"]), LIMITS, cluster.address, page=False)


def processes_of(models: list[str]) -> list[psutil.Process]:
    """The workers of Ray that wait for a model to be judged."""
    workers = []
    for process in psutil.process_iter(["cmdline"]):
        if any(model in (process.info["cmdline"] or []) for model in models):
            workers += process.parents()[:1]
    return workers


def test_every_model_is_judged_once(tmp_path: Path, cluster: Any) -> None:
    models = write_models(tmp_path, 6, seconds=0.1)
    results = list(judge(models, cluster))
    assert sorted(result.model for result in results) == models
    assert {result.outcome for result in results} == {"holds"}
    assert sorted(begun(tmp_path)) == [str(n) for n in range(6)]


def test_a_killed_worker_costs_nothing(tmp_path: Path, cluster: Any) -> None:
    models = write_models(tmp_path, 4)
    results, killed = [], 0
    for result in judge(models, cluster):
        results.append(result)
        if not killed:
            deadline = time.monotonic() + 30
            while not (workers := processes_of(models)) and time.monotonic() < deadline:
                time.sleep(0.1)
            os.kill(workers[0].pid, signal.SIGKILL)
            killed = 1
    assert killed
    assert sorted(result.model for result in results) == models
    assert {result.outcome for result in results} == {"holds"}
    assert len(begun(tmp_path)) == 5  # one was begun twice


def test_a_lost_node_costs_nothing_and_what_is_done_is_not_repeated(tmp_path: Path, cluster: Any) -> None:
    models = write_models(tmp_path, 6)
    results: list[Result] = []
    done_before: list[str] = []
    for result in judge(models, cluster):
        results.append(result)
        if len(results) == 2:
            done_before = [Path(earlier.model).stem[1:] for earlier in results]
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    assert sorted(result.model for result in results) == models
    assert {result.outcome for result in results} == {"holds"}
    assert all(begun(tmp_path).count(name) == 1 for name in done_before)


def test_a_model_that_crashes_costs_its_own_result(tmp_path: Path, cluster: Any) -> None:
    models = write_models(tmp_path, 2, seconds=0.1)
    crash = tmp_path / "crash.py"
    crash.write_text("import os\nos.abort()\n")
    results = {result.model: result for result in judge([*models, str(crash)], cluster)}
    assert results[str(crash)].reason == "its process crashed: Aborted"
    assert [results[model].outcome for model in models] == ["holds", "holds"]


def test_a_folder_that_is_not_on_the_node(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    models = write_models(tmp_path, 1)
    monkeypatch.setattr("os.getcwd", lambda: "/not/on/the/node")
    (result,) = judge(models, cluster)
    assert result.outcome == "not judged"
    assert "there is no folder /not/on/the/node on the node" in result.reason
