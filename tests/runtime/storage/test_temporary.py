"""Folders that a killed process leaves behind: the next write removes them, and nothing that somebody still needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cellbridge.runtime.storage import temporary
from cellbridge.runtime.storage.files import atomic_file
from cellbridge.runtime.storage.temporary import BOOT, OWNER, PREFIX

pytestmark = pytest.mark.skipif(not BOOT.exists(), reason="no locks that tell whose process has ended")

WRITER = """
    import sys, threading, time
    from cellbridge.runtime.storage.files import atomic_file

    def write():
        with atomic_file(sys.argv[1]) as file:
            file.write(b"from the other process")
            print("writing", flush=True)
            sys.stdin.readline()

    if sys.argv[2] == "thread":
        threading.Thread(target=write).start()
        time.sleep(60)
    write()
"""


def writer(path: Path, where: str = "main") -> subprocess.Popen[str]:
    """A process that is in the middle of writing, and goes on at a line of its input."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path), where],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def write(path: Path) -> None:
    with atomic_file(path) as file:
        file.write(b"new")


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize(
    ("number", "where"), [(signal.SIGKILL, "main"), (signal.SIGTERM, "thread")], ids=["killed", "ended in a thread"]
)
def test_what_a_process_left_is_removed_by_the_next_write(tmp_path: Path, number: signal.Signals, where: str) -> None:
    process = writer(tmp_path / "a.bin", where)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert [name.startswith(PREFIX) for name in names(tmp_path)] == [True]
    write(tmp_path / "b.bin")
    assert names(tmp_path) == ["b.bin"]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    process = writer(tmp_path / "a.bin")
    write(tmp_path / "b.bin")
    assert len(names(tmp_path)) == 2
    process.communicate("go on\n", timeout=30)
    assert process.returncode == 0
    assert names(tmp_path) == ["a.bin", "b.bin"]
    assert (tmp_path / "a.bin").read_bytes() == b"from the other process"


def test_what_this_process_is_writing_stays(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "a.bin") as file:
        write(tmp_path / "b.bin")
        file.write(b"first")
    assert names(tmp_path) == ["a.bin", "b.bin"]


def _planted(folder: Path, owner: str | None, mode: int = 0o700) -> None:
    folder.mkdir(mode=mode)
    folder.chmod(mode)
    (folder / "mine").write_text("mine")
    if owner is not None:
        (folder / OWNER).write_text(owner)


def test_folders_that_may_be_of_others_stay(tmp_path: Path) -> None:
    boot = BOOT.read_text()
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    _planted(elsewhere, boot)
    _planted(out / f"{PREFIX}unmarked", None)
    _planted(out / f"{PREFIX}of another machine", "0" * 36)
    _planted(out / f"{PREFIX}open to others", boot, 0o755)
    (out / f"{PREFIX}link").symlink_to(elsewhere)
    (out / f"{PREFIX}file").write_text(boot)
    os.mkfifo(out / f"{PREFIX}pipe")
    _planted(out / f"{PREFIX}marked by a pipe", None)
    os.mkfifo(out / f"{PREFIX}marked by a pipe" / OWNER)
    _planted(out / f"{PREFIX}marked by a link", None)
    (out / f"{PREFIX}marked by a link" / OWNER).symlink_to(BOOT)
    before = names(out)
    write(out / "a.bin")
    assert names(out) == sorted([*before, "a.bin"])
    assert names(elsewhere) == ["mine", OWNER]


def test_the_check_is_one(tmp_path: Path) -> None:
    """A folder as a killed process leaves it goes, so that those above stay for what they lack."""
    _planted(tmp_path / f"{PREFIX}left", BOOT.read_text())
    write(tmp_path / "a.bin")
    assert names(tmp_path) == ["a.bin"]


def test_nothing_is_removed_where_the_machine_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "BOOT", tmp_path / "there is none")
    _planted(tmp_path / f"{PREFIX}left", "")
    write(tmp_path / "a.bin")
    assert names(tmp_path) == [f"{PREFIX}left", "a.bin"]


PAIR = """
    import os, signal, sys
    from pathlib import Path

    import numpy as np
    import onnx

    from cellbridge.runtime.lowering import writing

    def write(path, number):
        model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], doc_string=str(number)))
        tensors = {"w": np.full(3, number, np.float32)}
        writing.write(model, tensors, path, beside={path.with_suffix(".json"): str(number).encode()})

    def kill_at(wanted):
        count = 0
        for name in ["link", "replace", "rename", "unlink", "fsync", "rmdir"]:
            def step(*args, _do=getattr(os, name), **kwargs):
                nonlocal count
                count += 1
                if count == wanted:
                    os.kill(os.getpid(), int(sys.argv[2]))
                return _do(*args, **kwargs)
            setattr(os, name, step)

    for wanted in range(1, 100):
        folder = Path(sys.argv[1]) / str(wanted)
        folder.mkdir()
        write(folder / "step.onnx", 1)
        child = os.fork()
        if child == 0:
            kill_at(wanted)
            write(folder / "step.onnx", 2)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_step_of_training_never_has_the_description_of_another(tmp_path: Path, number: signal.Signals) -> None:
    import onnx

    command = [sys.executable, "-c", textwrap.dedent(PAIR), str(tmp_path), str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    versions = []
    for folder in sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name)):
        versions.append(int(onnx.load(folder / "step.onnx").graph.doc_string))
        description = folder / "step.json"
        if number == signal.SIGTERM:
            assert names(folder) == ["step.json", "step.onnx"]
        if description.exists():
            assert int(description.read_text()) == versions[-1]
    assert len(versions) > 5, "steps at which it was killed"
    assert versions == sorted(versions)
    assert set(versions) == {1, 2}
