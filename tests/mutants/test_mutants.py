"""The check by planted faults: which it plants, and that a test that fails is noted."""

from __future__ import annotations

import gc
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import onnx.parser
import onnxruntime
import pytest

from tests.mutants.__main__ import ROOT, copied, run
from tests.mutants.faults import AREAS, Fault, choose, faults
from tests.selection import Selector

RULES = """
@softer.kernel
def _(x, n, flag=True):
    if flag and x > n:
        return stretched(x, n, keep=2)
    return -x * 0.5


def helper(x):
    return x + 1
"""


def test_each_kind_of_fault() -> None:
    after = {fault.after for fault in faults(RULES, "runtime/ops/a.py", "kernel")}
    assert after == {
        "if flag or (x > n):",
        "if flag and x >= n:",
        "return stretched(n, x, keep=2)",
        "return stretched(x, n)",
        "return stretched(x, n, keep=3)",
        "return (-x) / 0.5",
        "return x * 0.5",
        "return -x * 1.0",
    }


def test_areas_are_distinguished() -> None:
    assert faults(RULES, "runtime/ops/a.py", "vjp") == ()
    assert "return x - 1" in {fault.after for fault in faults(RULES, "parity/a.py", "judge")}


def test_what_zip_checks_is_no_fault() -> None:
    assert faults("def helper(x, y):\n    return zip(x, y, strict=True)\n", "parity/a.py", "judge") == ()


def test_equal_operands_are_not_swapped() -> None:
    assert faults("def helper(x):\n    return f('Mul', x, x)\n", "parity/a.py", "judge") == ()


@pytest.mark.slow
def test_a_seed_gives_the_same_faults_of_every_area() -> None:
    chosen = choose(ROOT, 3, 2)
    assert chosen == choose(ROOT, 3, 2) != choose(ROOT, 4, 2)
    assert [fault.area for fault in chosen] == [area for area in AREAS for _ in range(2)]
    assert len({(fault.file, fault.line) for fault in chosen}) == len(chosen)


def test_a_fault_is_planted_where_it_was_found_only(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(x):\n    return x\n")
    fault = Fault("judge", "a.py", 2, "return x", "return -x")
    fault.plant(tmp_path)
    assert (tmp_path / "a.py").read_text() == "def f(x):\n    return -x\n"
    with pytest.raises(ValueError, match="needed 'return x', found 'return -x'"):
        fault.plant(tmp_path)


@pytest.fixture
def session_as_garbage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ONNX Runtime session in a cycle: collecting it in a fork, which lacks its threads, would never end."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> net (float[2] x) => (float[2] y) { y = Exp(x) }'
    )
    monkeypatch.setattr("tests.mutants.__main__.LATE", 60)
    gc.disable()
    holder = SimpleNamespace(
        session=onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    )
    holder.itself = holder
    del holder
    time.sleep(0.5)  # until its threads wait for work
    yield
    gc.enable()


@pytest.mark.usefixtures("session_as_garbage")
@pytest.mark.parametrize(("after", "caught"), [("return x + 2", "tests/test_a.py::test_helper"), ("return 1 + x", "")])
@pytest.mark.every(2)
def test_tests_are_run_in_a_copy(tmp_path: Path, after: str, caught: str) -> None:
    repository(tmp_path, result=2)
    with copied(tmp_path) as copy:
        first, _ = run(Fault("judge", "runtime/a.py", 2, "return x + 1", after), copy, Selector(copy, {}), set())
    assert first == caught
    assert (tmp_path / "runtime/a.py").read_text().endswith("x + 1\n")


@pytest.mark.slow
def test_a_test_that_fails_anyway_catches_nothing(tmp_path: Path) -> None:
    repository(tmp_path, result=3)
    unusable = set[str]()
    with copied(tmp_path) as copy:
        first, _ = run(
            Fault("judge", "runtime/a.py", 2, "return x + 1", "return x - 1"), copy, Selector(copy, {}), unusable
        )
    assert (first, unusable) == ("", {"tests/test_a.py::test_helper"})


def repository(tmp_path: Path, result: int) -> None:
    """One function, x + 1, and a test that says what it gives for 1."""
    tests = tmp_path / "tests"
    for folder in (tests, tmp_path / "runtime"):
        folder.mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntestpaths = ['tests']\n")
    (tmp_path / "runtime/a.py").write_text("def helper(x):\n    return x + 1\n")
    (tests / "test_a.py").write_text(
        "import importlib.util\nfrom pathlib import Path\n"
        "def test_helper():\n"
        "    path = Path(__file__).parents[1] / 'runtime' / 'a.py'\n"
        "    spec = importlib.util.spec_from_file_location('a', path)\n"
        "    module = importlib.util.module_from_spec(spec)\n"
        "    spec.loader.exec_module(module)\n"
        f"    assert module.helper(1) == {result}\n"
        "def never_called():\n    from cellbridge.runtime import a\n"
    )
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
