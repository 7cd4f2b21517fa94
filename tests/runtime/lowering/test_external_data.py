"""Data files of ONNX models: what a kill between the data file and its model leaves behind is removed later."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cellbridge.runtime.lowering import external_data
from cellbridge.runtime.lowering.external_data import data_file, place_model
from cellbridge.runtime.storage import files
from cellbridge.runtime.storage.temporary import BOOT

pytestmark = pytest.mark.skipif(not BOOT.exists(), reason="no locks that tell whose process has ended")


def write(path: Path, number: float) -> None:
    weights = numpy_helper.from_array(np.full(500, number, np.float32), "w")
    model = helper.make_model(helper.make_graph([], "graph", [], [], [weights]))
    with place_model(path) as inside:
        onnx.save(model, inside, save_as_external_data=True, location=f"{inside.name}.data", size_threshold=0)


def killed(path: Path, when: str) -> None:
    """Write, and be killed before or after the model is in its place."""

    def kill(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if when == "before":
        external_data.set_data_file = kill  # type: ignore[assignment]
        files.replace_files = kill
    elif when == "moved":
        files.TemporaryDirectory.__exit__ = kill  # type: ignore[assignment]
    else:
        files.sync_folder = kill
    write(path, 2.0)


@pytest.mark.parametrize("when", ["before", "moved", "after"])
@pytest.mark.parametrize("existing", [False, True])
def test_a_kill_leaves_no_data_file_after_the_next_write(tmp_path: Path, when: str, existing: bool) -> None:
    path, users_file = tmp_path / "net.onnx", tmp_path / "net.onnx.0123456789abcdef.data"
    users_file.write_bytes(b"of a user")
    if existing:
        write(path, 1.0)
    process = multiprocessing.get_context("fork").Process(target=killed, args=(path, when))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    write(tmp_path / "other.onnx", 3.0)
    data = [data_file(path)] if path.exists() else []
    assert bool(data) == (existing or when != "before")
    kept = {file.name for file in tmp_path.glob("net.onnx.*")} - {users_file.name}
    assert kept == {file.name for file in data if file is not None}
    if data:
        number = numpy_helper.to_array(onnx.load(path).graph.initializer[0])[0]
        assert number == (1.0 if when == "before" else 2.0)
    assert users_file.read_bytes() == b"of a user"
