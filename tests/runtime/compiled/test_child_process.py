"""The processes for models of untrusted files: how they start and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from cellbridge.runtime.compiled import child_process
from cellbridge.runtime.compiled.isolated import IsolatedSession, SessionEnded
from tests.runtime.compiled.test_isolated import X, model

EXP = "net (float[2, 2] x) => (float[2, 2] y) { y = Exp(x) }"
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


def run() -> None:
    np.testing.assert_allclose(IsolatedSession(model(EXP)).run({"x": X})["y"][""], np.exp(X), rtol=1e-6)


def test_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "FORKING", False)
    session = IsolatedSession(model(EXP))
    np.testing.assert_allclose(session.run({"x": X})["y"][""], np.exp(X), rtol=1e-6)
    process = session._process
    assert isinstance(process, subprocess.Popen)
    session.close()
    assert process.returncode == -signal.SIGKILL


@linux
def test_forks_of_one_template() -> None:
    sessions = [IsolatedSession(model(EXP)) for _ in range(3)]
    for session in sessions:
        session.run({"x": X})
    forks = [session._process for session in sessions]
    assert all(isinstance(fork, child_process._Fork) for fork in forks)
    assert len({fork.template.process.pid for fork in forks}) == 1  # type: ignore[attr-defined]
    assert len({fork.pid for fork in forks if fork.kill() is None}) == 3  # type: ignore[attr-defined]
    assert [fork.wait() for fork in reversed(forks)] == [-signal.SIGKILL] * 3


@linux
def test_a_template_that_was_killed_is_replaced() -> None:
    session = IsolatedSession(model(EXP))
    session.run({"x": X})
    template = child_process._Template.current()
    template.process.kill()
    template.process.wait()
    with pytest.raises(SessionEnded, match="signal 9"):
        session.run({"x": X})
    run()
    assert child_process._Template.current() is not template


@linux
def test_a_fork_of_this_process_has_its_own_template() -> None:
    run()
    pid = os.fork()
    if pid == 0:
        try:
            run()
            os._exit(0 if child_process._Template.current().owner == os.getpid() else 2)
        except BaseException:  # noqa: BLE001 (the fork must never return into pytest)
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    run()


@pytest.mark.slow
@linux
def test_a_fork_of_this_process_leaves_inherited_sessions_alone() -> None:
    code = """
import os
from tests.runtime.compiled.test_child_process import *
for child_process.FORKING in (True, False):
    session = IsolatedSession(model(EXP))
    session.run({"x": X})
    pid = os.fork()
    if pid == 0:
        session.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    session.run({"x": X})
"""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=root)
    assert done.returncode == 0, done.stderr


def test_sessions_of_several_threads() -> None:
    errors: list[Exception] = []

    def run_some() -> None:
        try:
            for _ in range(4):
                run()
        except Exception as error:  # noqa: BLE001 (asserted on below)
            errors.append(error)

    threads = [threading.Thread(target=run_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_session_outlives_the_thread_that_started_it() -> None:
    sessions: list[IsolatedSession] = []
    thread = threading.Thread(target=lambda: sessions.append(IsolatedSession(model(EXP))))
    thread.start()
    thread.join()
    np.testing.assert_allclose(sessions[0].run({"x": X})["y"][""], np.exp(X), rtol=1e-6)


@linux
def test_nothing_runs_on_after_the_process_was_killed() -> None:
    code = (
        "import os, signal; from tests.runtime.compiled.test_child_process import *;"
        "s = IsolatedSession(model(EXP)); s.run({'x': X}); fork = s._process;"
        "print(fork.template.pid_of(fork), fork.template.process.pid, flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=root)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    deadline = 100
    while deadline and any(_is_running(pid) for pid in pids):
        deadline -= 1
        threading.Event().wait(0.1)
    assert not any(_is_running(pid) for pid in pids)


def _is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
