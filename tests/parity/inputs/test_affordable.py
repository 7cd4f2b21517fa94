"""Programs refused before they run: too much memory, too many iterations; and the command's messages."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from cellbridge.converter import from_onnx
from cellbridge.parity.checking.onnx_files import check as onnx_files
from cellbridge.parity.cli import main
from cellbridge.parity.commands import command
from cellbridge.parity.inputs import affordable
from cellbridge.parity.inputs.affordable import MAX_TRIPS, memory_of_records, peak_memory, require_affordable
from cellbridge.parity.inputs.onnx_inputs import generate_inputs
from cellbridge.parity.support import deadline
from cellbridge.runtime import CellbridgeError, UsageError
from tests.converter.test_onnx_in import model

CHAIN = "net (float[4, n] x) => (float y) { a = Exp(x) b = Exp(a) c = Transpose(b) d = Mul(c, c) y = ReduceSum(d) }"
LOOP = """net (float[2] x) => (float[2] y) {
    y = Loop(m, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] z) { d = Identity(c) z = Neg(a) } >
}"""
RELU = "net (float[3] x) => (float[3] y) { y = Relu(x) }"


def test_memory_is_that_of_the_values_that_are_needed_at_one_time() -> None:
    program = from_onnx(model(CHAIN))
    needed, largest = peak_memory(program, [np.ones((4, 10), np.float32)])
    assert needed == 3 * 4 * 10 * 8 + 8  # the input, an operand and a result; the sum
    assert "float32[" in largest


def test_what_does_not_fit_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = from_onnx(model(CHAIN)), np.ones((4, 10), np.float32)
    require_affordable(program, [x], grads=False)
    monkeypatch.setattr(affordable, "memory_size", lambda: 900)
    with pytest.raises(UsageError, match=r"takes at least 1.79 KB, 968 bytes of it for (?s:.)*largest tensor is %"):
        require_affordable(program, [x], grads=False)


def test_what_is_recorded_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truth and side in float64, reference in float32, of the input and the output; gradients as much again."""
    program, x = from_onnx(model(RELU)), np.ones(3, np.float32)
    recorded = 2 * 3 * (8 + 4 + 8)
    assert memory_of_records(program, [x], grads=False) == recorded
    assert memory_of_records(program, [x], grads=True) == 2 * recorded
    integers = from_onnx(model("net (int64[3] x) => (int64[3] y) { y = Neg(x) }"))
    assert memory_of_records(integers, [np.ones(3, np.int64)], grads=True) == 2 * 3 * 8
    monkeypatch.setattr(affordable, "memory_size", lambda: peak_memory(program, [x])[0] + recorded)
    require_affordable(program, [x], grads=False)
    with pytest.raises(UsageError, match="of memory"):
        require_affordable(program, [x], grads=True)


def test_loops_that_go_round_too_often_are_refused() -> None:
    x = np.ones(2, np.float32)
    require_affordable(from_onnx(model(LOOP, m=np.array(MAX_TRIPS))), [x], grads=True)
    for trips in (MAX_TRIPS + 1, 10**5, 2**60):
        with pytest.raises(CellbridgeError, match=f"run more than {MAX_TRIPS} iterations"):
            require_affordable(from_onnx(model(LOOP, m=np.array(trips))), [x], grads=True)


@pytest.mark.parametrize("arguments", [("run", "{0}"), ("compare", "{0}", "{1}"), ("compare", "{1}", "{0}")])
@pytest.mark.every(3)
def test_commands_refuse_them(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    for name, trips in (("long", 2**60), ("short", 3)):
        onnx.save(model(LOOP, m=np.array(trips)), tmp_path / f"{name}.onnx")
    paths = [str(tmp_path / f"{name}.onnx") for name in ("long", "short")]
    result = CliRunner().invoke(main, [argument.format(*paths) for argument in arguments])
    assert result.exit_code == 2
    assert f"more than {MAX_TRIPS} iterations" in result.stderr
    assert "what to do" in result.stderr


def test_inputs_that_do_not_fit_together_are_refused() -> None:
    inputs = ", ".join(f"float[{2**30}] x{i}" for i in range(64))
    hostile = model(f"net ({inputs}) => (float[{2**30}] y) {{ y = Relu(x0) }}")
    with pytest.raises(CellbridgeError, match="memory"):
        generate_inputs(from_onnx(hostile), 0)


# ---- time ----


@pytest.mark.parametrize("given", ["run", "compare", "export", "inspect"])
def test_all_commands_can_be_stopped(given: str) -> None:
    assert "--timeout SECONDS" in CliRunner().invoke(main, [given, "--help"]).stdout


def test_a_command_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("import time\ntry:\n    time.sleep(60)\nexcept Exception:\n    pass\n")
    start = time.monotonic()
    result = CliRunner().invoke(main, ["run", str(tmp_path / "m.py"), "--timeout", "0.5"])
    assert result.exit_code == 2
    assert "stopped after 0.5 s, as --timeout requests. It was at the stage 'load'." in result.stderr
    assert time.monotonic() - start < 30
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("seconds", ["0", "-1", "soon"])
def test_times_that_are_none(seconds: str) -> None:
    result = CliRunner().invoke(main, ["inspect", "x.onnx", "--timeout", seconds])
    assert result.exit_code == 2
    assert "--timeout" in result.stderr


def test_native_code_that_does_not_return_is_ended() -> None:
    code = """
import signal, time
from cellbridge.parity.support import deadline
deadline.GRACE = 0.2
with deadline.deadline(0.2):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "error: stopped after 0.2 s, as --timeout requests.\n"


def test_nothing_is_stopped_that_is_done_in_time() -> None:
    with deadline.deadline(0.3):
        pass
    with deadline.deadline(None):
        time.sleep(0.5)


# ---- memory ----


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 2.00 GiB"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        RuntimeError("can't start new thread"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        ImportError("libtorch.so: failed to map segment from shared object"),
    ],
)
def test_too_little_memory_is_no_fault_of_parity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Any) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    onnx.save(model(RELU), tmp_path / "m.onnx")
    monkeypatch.setattr(onnx_files, "check_onnx", fails)
    result = CliRunner().invoke(main, ["run", str(tmp_path / "m.onnx")])
    assert result.exit_code == 2
    assert "there is too little memory" in result.stderr
    assert "this process may use" in result.stderr


def test_other_errors_are_not_taken_for_it() -> None:
    assert not command.lacks_memory(RuntimeError("shapes don't fit"))
    assert not command.lacks_memory(ValueError("can't allocate memory"))
    assert not command.lacks_memory(OSError(errno.ENOENT, "no such file"))


@pytest.mark.slow
def test_a_run_under_a_limit_of_memory(tmp_path: Path) -> None:
    """The command in a process with little memory ends with an error and a documented exit code."""
    onnx.save(model(f"net (float[{2**28}] x) => (float[{2**28}] y) {{ y = Exp(x) }}"), tmp_path / "m.onnx")
    limit = 5 * 2**29

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-m", "cellbridge.parity", "run", str(tmp_path / "m.onnx")],
        capture_output=True, text=True, timeout=300, preexec_fn=limited, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "memory" in done.stderr
    assert "Traceback" not in done.stderr
