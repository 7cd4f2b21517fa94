"""The work of a run beside its kernels, which takes most of the time of programs of thousands of small operations."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch
from cellbridge.parity.judging.judging import judge_sides
from cellbridge.parity.options import Options
from cellbridge.parity.sides import boundary_observer, interpreter_side, parameter_users
from cellbridge.parity.sides.interpreter_side import InterpreterSide
from cellbridge.parity.sides.run import FORWARD, Run, Wanted
from cellbridge.parity.support.progress import NoProgress


@pytest.fixture
def side() -> InterpreterSide:
    torch.manual_seed(0)
    x = torch.randn(2, 4)
    return InterpreterSide("a side", from_torch(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), (x,)), (x,), {})


def test_only_boundaries_of_which_something_is_recorded_are_looked_at(
    side: InterpreterSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[str] = []
    keys = boundary_observer.BoundaryKeys.keys

    def counted(self: Any, node: Any) -> Any:
        paths.append(keys(self, node)[0].path)
        return keys(self, node)

    monkeypatch.setattr(boundary_observer.BoundaryKeys, "keys", counted)
    side.run(Run("float64"))
    assert {"", "0", "1"} <= set(paths)
    paths.clear()
    side.run(Run("float64", Wanted(inner=False)))
    assert set(paths) == {""}


def test_identities_are_not_evaluated(side: InterpreterSide, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = Counter[str]()
    evaluate = interpreter_side.evaluate_or_remember

    def counted(op: Any, *rest: Any) -> Any:
        ops[op.name] += 1
        return evaluate(op, *rest)

    monkeypatch.setattr(interpreter_side, "evaluate_or_remember", counted)
    side.run(Run("float64", FORWARD))
    assert ops == {"linear": 1, "tanh": 1}


def test_what_a_program_says_of_its_parameters_and_lines_is_looked_for_once(
    side: InterpreterSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = side.run(Run("float64"))

    def fail(*_: Any) -> Any:
        raise AssertionError("looked for again")

    monkeypatch.setattr(parameter_users, "_look_for_users", fail)
    monkeypatch.setattr(boundary_observer.BoundaryObserver, "_look_up_source", fail)
    second = side.run(Run("float64"))
    assert second.boundaries.sources == first.boundaries.sources
    assert any(first.boundaries.sources.values())
    assert second.users.cells == first.users.cells == {"0.weight": "0", "0.bias": "0"}


@pytest.mark.probes
def test_probes_of_outputs_record_no_values_inside(side: InterpreterSide, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Run] = []
    run = InterpreterSide.run

    def counted(self: InterpreterSide, settings: Run) -> Any:
        runs.append(settings)
        return run(self, settings)

    monkeypatch.setattr(InterpreterSide, "run", counted)
    report = judge_sides(
        side, [InterpreterSide("another", side.program, tuple(side.inputs), {})], Options(probe=True), NoProgress()
    )
    assert report.ok
    on_probes = [settings for settings in runs if settings.call.arguments is not None and not settings.wanted.grads]
    assert len(on_probes) > 10
    assert not any(settings.wanted.inner for settings in on_probes)


@pytest.mark.slow  # it imports torch in a process of its own
def test_comparing_files_does_not_import_the_tracer_of_torch() -> None:
    code = (
        "import sys, cellbridge.parity.checking.onnx_files.compare; print('torch._dynamo.convert_frame' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
