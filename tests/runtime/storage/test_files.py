"""Output files: written whole or not at all, whatever else happens in their folder."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import onnx
import pytest

from cellbridge.runtime.storage.files import atomic_file, atomic_path


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_threads_that_write_one_file_leave_one_of_theirs(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def write(letter: str) -> None:
        try:
            for _ in range(20):
                with atomic_file(tmp_path / "a.bin") as file:
                    file.write(letter.encode() * 50_000)
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    content = (tmp_path / "a.bin").read_bytes()
    assert len(content) == 50_000
    assert len(set(content)) == 1
    assert names(tmp_path) == ["a.bin"]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """What a temporary file was called can't be guessed any more, and a link in its place wouldn't be written to."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    planted = [f".a.bin.{os.getpid()}", f".a.bin.{os.getpid()}.old", ".a.bin", "a.bin.tmp"]
    for name in planted:
        (folder / name).symlink_to(victim)
    with atomic_file(folder / "a.bin") as file:
        file.write(b"new")
    assert victim.read_text() == "mine"
    assert names(folder) == sorted(["a.bin", *planted])


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with atomic_file(tmp_path / "a.bin") as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.bin").stat().st_mode) == 0o666 & ~umask


def test_what_is_no_regular_file_is_written_to() -> None:
    with atomic_file("/dev/null") as file:
        file.write(b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), atomic_file(tmp_path) as file:
        file.write(b"new")
    assert names(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_temporary_file(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "a.bin").write_bytes(b"old")
    code = """
        import signal, sys, time
        from cellbridge.runtime.storage.files import atomic_file
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
        with atomic_file(sys.argv[1]) as file:
            file.write(b"ne")
            print("writing", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "a.bin")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert len(names(tmp_path)) == 2
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == -number
    assert names(tmp_path) == ["a.bin"]
    assert (tmp_path / "a.bin").read_bytes() == b"old"


def test_a_handler_of_sigterm_stays(tmp_path: Path) -> None:
    def handler(*_: object) -> None:
        raise AssertionError("not called")

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with atomic_path(tmp_path / "a") as inside:
            inside.write_text("new")
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


KILLED = """
    import os, signal, sys
    from pathlib import Path

    import numpy as np
    import onnx

    from cellbridge.runtime.lowering import writing

    def write(path, number):
        graph = onnx.helper.make_graph([], "g", [], [], doc_string=str(number))
        model = onnx.helper.make_model(graph)
        writing.write(model, {"w": np.full((40, 40), number, np.float32)}, path, external=True)

    STEPS = ["link", "replace", "rename", "unlink", "fsync", "rmdir"]

    def kill_at(wanted):
        count = 0
        for name in STEPS:
            def step(*args, _do=getattr(os, name), **kwargs):
                nonlocal count
                count += 1
                if count == wanted:
                    os.kill(os.getpid(), signal.SIGKILL)
                return _do(*args, **kwargs)
            setattr(os, name, step)

    root = Path(sys.argv[1])
    wanted = 0
    while True:
        wanted += 1
        folder = root / str(wanted)
        folder.mkdir()
        for number in range(int(sys.argv[2])):
            write(folder / "model.onnx", number)
        child = os.fork()
        if child == 0:
            kill_at(wanted)
            write(folder / "model.onnx", 7)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
"""


@pytest.mark.parametrize("before", [0, 1, 2], ids=["first", "second", "third"])
def test_a_kill_at_any_step_leaves_a_model_with_its_own_tensors(tmp_path: Path, before: int) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(before)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    versions = []
    for folder in sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name)):
        path = folder / "model.onnx"
        if not path.exists():
            assert before == 0
            continue
        model = onnx.load(path)  # its tensors are there
        (weight,) = model.graph.initializer
        versions.append(int(model.graph.doc_string))
        assert set(onnx.numpy_helper.to_array(weight).ravel()) == {versions[-1]}
    assert len(list(tmp_path.iterdir())) > 5, "steps at which it was killed"
    assert versions == sorted(versions), "the old model first, the new one then"
    assert set(versions) == ({7} if before == 0 else {before - 1, 7})
    last = max(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    assert len(names(last)) == 2, "the model and its tensors, and no others"


def test_tensors_of_another_model_are_left_alone(tmp_path: Path) -> None:
    """A file that has the name of our tensors, and which the old model doesn't refer to."""
    script = textwrap.dedent(KILLED).split("STEPS =")[0] + "write(Path(sys.argv[1]), 3)"
    (tmp_path / "model.onnx.data").write_bytes(b"not ours")
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "model.onnx")], timeout=60, check=True)
    assert (tmp_path / "model.onnx.data").read_bytes() == b"not ours"
    onnx.load(tmp_path / "model.onnx")
    assert len(names(tmp_path)) == 3
