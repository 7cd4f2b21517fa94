"""`IsolatedSession`: what `Session` gives, and errors where a model crashes, hangs or takes all memory."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from cellbridge.runtime import UsageError
from cellbridge.runtime.compiled import isolated
from cellbridge.runtime.compiled.isolated import IsolatedSession, SessionEnded
from cellbridge.runtime.compiled.session import SessionError, run_model
from tests.converter.test_onnx_in import model

X = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
CRASH = "net (float[2, 2] x, int64[1, 1] i) => (float[a, b] y) { y = GatherND<batch_dims = -2147483648>(x, i) }"
LOOP = """net (float[2] x) => (float[2] y) {
    y = Loop(m, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] z) { d = Identity(c) z = Neg(a) } >
}"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize("shape", [(2, 2), (), (0, 3)])
def test_arrays_go_in_and_out(tmp_path: Path, dtype: Any, shape: tuple[int, ...]) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, element, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(made, tmp_path / "m.onnx")
    array = np.resize(X, shape).astype(dtype)
    for given in (made, tmp_path / "m.onnx"):
        (result,) = IsolatedSession(given).run({"x": array})["y"].values()
        np.testing.assert_array_equal(result, array, strict=True)


def test_it_gives_what_a_session_gives_run_after_run() -> None:
    made = model("net (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) { y = Exp(x) z = Neg(y) }")
    session = IsolatedSession(made)
    for x in (X, 2 * X):
        expected = run_model(made, {"x": x})
        for name, items in session.run({"x": x}).items():
            np.testing.assert_array_equal(items[""], expected[name])
    assert list(session.run({"x": X}, ["z"])) == ["z"]


def test_the_items_of_a_sequence() -> None:
    made = model("net (float[2, 2] x) => (seq(float[2, 2]) y) { z = Neg(x) y = SequenceConstruct(x, z) }")
    items = IsolatedSession(made).run({"x": X})["y"]
    assert list(items) == ["[0]", "[1]"]
    np.testing.assert_array_equal([*items.values()], [X, -X])


def test_sequences_optionals_and_texts_go_in_and_out() -> None:
    made = model("net (seq(float[n, 2]) s) => (float[m, 2] y) { y = ConcatFromSequence<axis = 0>(s) }")
    np.testing.assert_array_equal(IsolatedSession(made).run({"s": [X, -X, X]})["y"][""], np.concatenate([X, -X, X]))
    made = model("net (optional(float[n, 2]) x) => (optional(float[n, 2]) y) { y = Identity(x) }")
    session = IsolatedSession(made)
    np.testing.assert_array_equal(session.run({"x": X})["y"][""], X)
    assert session.run({"x": None}) == {"y": {}}
    with pytest.raises(UsageError, match=r"is a optional\(tensor\(float\)\), given seq\(tensor\(float\)\)"):
        session.run({"x": [X]})
    made = model("net (string[n] x) => (string[n] y) { y = Identity(x) }")
    texts = np.array(["", "\u00e4 \x00", "b\n"])
    np.testing.assert_array_equal(IsolatedSession(made).run({"x": texts})["y"][""], texts)


def test_a_table_of_maps_is_its_columns() -> None:
    made = model("net (float[2, 2] x) => (seq(map(string, float)) y) { y = Exp(x) }")
    del made.graph.node[:]
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    zipped = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["a", "b'"])
    made.graph.node.append(zipped)
    columns = IsolatedSession(made).run({"x": X})["y"]
    assert list(columns) == ["['a']", """["b'"]""", ".keys"]
    np.testing.assert_array_equal(columns["['a']"], X[:, 0])


@pytest.mark.parametrize("given", ["proto", "file"])
def test_a_crash_is_an_error(tmp_path: Path, given: str) -> None:
    onnx.save(model(CRASH), tmp_path / "m.onnx")
    session = IsolatedSession(tmp_path / "m.onnx" if given == "file" else model(CRASH))
    name = "the model" if given == "proto" else r"this file: .*m\.onnx"
    for _ in range(2):  # it stays an error
        with pytest.raises(SessionEnded, match=rf"ended with signal 11 \(SIGSEGV\) while it loaded {name}"):
            session.run({"x": X, "i": np.zeros((1, 1), np.int64)})


def test_a_loop_without_end_is_stopped() -> None:
    session = IsolatedSession(model(LOOP, m=np.array(2**60)), seconds=2)
    start = time.monotonic()
    with pytest.raises(SessionEnded, match=r"stopped: it hadn't run the model after 2 s"):
        session.run({"x": X[0]})
    assert time.monotonic() - start < 20


def test_memory_without_end_is_refused() -> None:
    made = model("net (int64[1] n) => (float[k] y) { y = ConstantOfShape(n) }")
    with pytest.raises(SessionError, match="ONNX Runtime"):
        IsolatedSession(made).run({"n": np.array([2**40])})


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X.astype(np.float64), r"input 'x' of the model is a tensor\(float\), given tensor\(double\)"),
        (X[:1], "Got invalid dimensions for input: x"),
    ],
)
def test_inputs_that_do_not_fit(x: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        IsolatedSession(model("net (float[2, 2] x) => (float[2, 2] y) { y = Exp(x) }")).run({"x": x})


def test_elements_of_four_bits_are_refused() -> None:
    made = model("net (int4[2] x) => (float[2] y) { s = Constant<value = float {1.0}>() y = DequantizeLinear(x, s) }")
    made.opset_import[0].version = 21
    with pytest.raises(UsageError, match="elements of less than 8 bits aren't supported"):
        IsolatedSession(made).run({"x": np.ones(2, ml_dtypes.int4)})


def test_what_onnx_runtime_refuses_is_explained_each_time(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    session = IsolatedSession(tmp_path / "m.onnx")
    for _ in range(2):
        with pytest.raises(SessionError, match="ONNX Runtime can't run the model"):
            session.run({})


def test_the_process_ends_with_the_session() -> None:
    session = IsolatedSession(model("net (float[2, 2] x) => (float[2, 2] y) { y = Exp(x) }"))
    process = session._process
    del session
    assert process.returncode == -signal.SIGKILL


def test_no_module_of_the_current_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy", "onnxruntime", "json", "cellbridge"):
        (tmp_path / f"{name}.py").write_text("open('OWNED', 'w')")
    monkeypatch.chdir(tmp_path)
    IsolatedSession(model("net (float[2, 2] x) => (float[2, 2] y) { y = Exp(x) }")).run({"x": X})
    assert not (tmp_path / "OWNED").exists()


def test_the_child_loads_neither_torch_nor_onnx() -> None:
    code = "import sys, cellbridge.runtime.compiled.child; print({'torch', 'onnx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "set()", done.stderr


def test_the_child_may_use_no_more_than_the_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "memory_size", lambda: 2**30)
    made = model("net (float[2, 2] x) => (float[k] y) { y = ConstantOfShape(n) }", n=np.array([2**29]))
    with pytest.raises(SessionError, match="ONNX Runtime"):
        IsolatedSession(made).run({"x": X})
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != 2**30, "that of this process is as it was"


def test_options_and_optimizers_of_a_session() -> None:
    made = model("net (float[2, 2] x) => (float[2, 2] y) { t = Identity(x)\n y = Exp(t) }")
    removes = "Level1_RuleBasedTransformer modified: 1"
    for disabled, removed in (([], True), (["EliminateIdentity"], False)):
        session = IsolatedSession(made, options={"log_severity_level": 1}, disabled=disabled)
        np.testing.assert_allclose(session.run({"x": X})["y"][""], np.exp(X), rtol=1e-6)
        assert (removes in session.printed()) == removed
    session = IsolatedSession(made, options={"log_severity_level": 1, "graph_optimization_level": 0})
    session.run({"x": X})
    assert removes not in session.printed()
