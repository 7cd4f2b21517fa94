"""Faults in a program, in the rules of ops and in ONNX models are found in the right Cell on the right side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

from cellbridge import converter, parity
from cellbridge.converter.torch_out.tables import table as torch_out
from cellbridge.parity.report.report import Report
from cellbridge.runtime import ops
from cellbridge.runtime.errors import UsageError
from tests.parity.networks import mixed, with_attributes, with_constant

MUTATIONS = [
    ("layer_norm", 0, lambda a: a | {"eps": 1e-6}, "norm"),
    ("batch_norm", 0, lambda a: a | {"eps": 1e-6}, "bn"),
    ("gelu", 0, lambda a: a | {"approximate": "tanh"}, "act1"),
    ("gelu", 1, lambda a: a | {"approximate": "tanh"}, "act2"),
    ("softmax", 0, lambda a: a | {"axis": 2}, "softmax"),
    ("conv", 0, lambda a: a | {"padding": ((0, 2), (1, 1))}, "conv"),
]


def _sides_that_fail(report: Report, path: str) -> set[str]:
    return {comparison.side for comparison in report.cells[path].failures}


def _kinds_that_fail(report: Report, path: str) -> set[str]:
    return {comparison.kind for comparison in report.cells[path].failures}


@pytest.mark.parametrize(("op", "which", "change", "path"), MUTATIONS, ids=[f"{m[0]}@{m[3]}" for m in MUTATIONS])
@pytest.mark.every(6)
def test_attribute(op: str, which: int, change: Any, path: str) -> None:
    module, args = mixed()
    program = converter.from_torch(module, args)
    assert parity.compare(module, program, args).ok
    report = parity.compare(module, with_attributes(program, op, change, which), args)
    assert report.failing == [path]
    assert {"output", "input gradient"} <= _kinds_that_fail(report, path)


def test_constant_in_the_code_between_cells() -> None:
    module, args = mixed()
    program = converter.from_torch(module, args)
    report = parity.compare(module, with_constant(program, 0.5, 0.5001), args)
    assert report.failing == [""]
    assert "passed value" in _kinds_that_fail(report, "")


def test_momentum_of_a_program_in_train_mode() -> None:
    module, args = mixed()
    module.train()
    program = converter.from_torch(module, args, train=True)
    assert parity.compare(module, program, args, train=True).ok
    module.bn.momentum = 0.2
    report = parity.compare(module, program, args, train=True)
    assert report.failing == ["bn"]
    assert _kinds_that_fail(report, "bn") == {"buffer update"}


def test_gradient_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    module, args = mixed()
    op = ops.get("gelu")
    right = op.vjp_rule
    monkeypatch.setattr(op, "vjp_rule", lambda *a, **k: right(*a, **k) * 1.001)
    report = parity.check(module, args)
    assert report.failing == ["act1", "act2"]
    for path in report.failing:
        assert _sides_that_fail(report, path) == {"interpreter"}
        assert _kinds_that_fail(report, path) == {"input gradient"}


@pytest.mark.slow
def test_torch_form(monkeypatch: pytest.MonkeyPatch) -> None:
    module, args = mixed()
    assert parity.check(module, args, round_trip=True).ok
    wrong = {
        "value": lambda context, x, **_: context.call(nn.functional.gelu, x, approximate="tanh"),
        "gradient": lambda context, x, **_: context.call(
            torch.nn.functional.gelu, x.detach() + 0.999 * (x - x.detach())
        ),
    }
    for what, form in wrong.items():
        monkeypatch.setitem(torch_out.FORMS, "gelu", form)
        report = parity.check(module, args, round_trip=True)
        failures = [(path, c) for path, cell in report.cells.items() for c in cell.failures]
        wrong = {(path, c.side, c.kind) for path, c in failures}
        assert {path for path, c in failures if c.feeding == "isolated"} == {"act1", "act2"}
        assert ("conv", "torch from ONNX", "parameter gradient") in wrong
        assert {side for _, side, _ in wrong} == {"torch from IR", "torch from ONNX"}
        for path in ("act1", "act2"):
            assert ((path, "torch from IR", "output") in wrong) == (what == "value")
            assert (path, "torch from IR", "input gradient") in wrong


@pytest.mark.slow
def test_statistics_of_a_torch_form(monkeypatch: pytest.MonkeyPatch) -> None:
    module, args = mixed()
    right = torch_out.FORMS["batch_norm_train"]

    def biased(context: Any, *operands: Any, **attributes: Any) -> Any:
        y, mean, variance = right(context, *operands, **attributes)
        return y, mean, variance * 1.001

    monkeypatch.setitem(torch_out.FORMS, "batch_norm_train", biased)
    report = parity.check(module, args, train=True, round_trip=True)
    assert report.failing == ["bn"]
    assert _kinds_that_fail(report, "bn") == {"buffer update"}


def test_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    module, args = mixed()
    op = ops.get("softmax")
    right = op.kernel_rule
    monkeypatch.setattr(op, "kernel_rule", lambda *a, **k: right(*a, **k) * np.asarray(1.00001, a[0].dtype))
    report = parity.check(module, args)
    assert report.failing == ["softmax"]
    assert _sides_that_fail(report, "softmax") == {"interpreter"}


@pytest.mark.parametrize(("op", "failing"), [("softmax", ["softmax"]), ("gelu", ["act1", "act2"]), ("conv", ["conv"])])
@pytest.mark.every(3)
def test_onnx_rule(monkeypatch: pytest.MonkeyPatch, op: str, failing: list[str]) -> None:
    """Cells run isolated in ONNX Runtime as well: only those that use the op fail, not what comes after them."""
    module, args = mixed()
    entry = ops.get(op)
    right = entry.onnx_rule

    def wrong(graph: Any, *inputs: str, **attributes: Any) -> Any:
        return graph.op("Mul", right(graph, *inputs, **attributes), graph.constant(np.float32(1.0001)))

    monkeypatch.setattr(entry, "onnx_rule", wrong)
    report = parity.check(module, args)
    assert report.failing == failing
    for path in failing:
        assert _sides_that_fail(report, path) == {"onnxruntime"}
        assert {c.feeding for c in report.cells[path].failures} == {"isolated"}


# ---- ONNX models ----


def _perturb_initializer(model: onnx.ModelProto) -> None:
    tensor = next(t for t in model.graph.initializer if t.name.startswith("head.weight"))
    array = onnx.numpy_helper.to_array(tensor).copy()
    array[1, 2] += 1e-3
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _change_epsilon(model: onnx.ModelProto) -> None:
    node = next(n for n in model.graph.node if n.op_type == "LayerNormalization")
    next(a for a in node.attribute if a.name == "epsilon").f = 1e-6


def _replace_node(model: onnx.ModelProto) -> None:
    node = next(n for n in model.graph.node if n.op_type == "Softmax")
    node.op_type = "LogSoftmax"


def _exported(path: Path) -> tuple[nn.Module, tuple[Tensor, ...]]:
    module, args = mixed()
    converter.to_onnx(converter.from_torch(module, args), path)
    return module, args


def test_onnx_file_passes(tmp_path: Path) -> None:
    module, args = _exported(tmp_path / "model.onnx")
    for candidate in (tmp_path / "model.onnx", str(tmp_path / "model.onnx"), onnx.load(tmp_path / "model.onnx")):
        report = parity.compare(module, candidate, args)
        assert report.ok
        assert report.sides == ["candidate", "candidate in onnxruntime"]
        assert {c.check for c in report.cells["norm"].comparisons} == {"meaning", "rounding"}


@pytest.mark.parametrize(
    ("fault", "cell"), [(_perturb_initializer, "head"), (_change_epsilon, "norm"), (_replace_node, "softmax")]
)
@pytest.mark.every(3)
def test_onnx_file_with_a_fault(tmp_path: Path, fault: Any, cell: str) -> None:
    path = tmp_path / "model.onnx"
    module, args = _exported(path)
    model = onnx.load(path)
    fault(model)
    onnx.save(model, path)
    report = parity.compare(module, path, args)
    assert report.failing == [cell]


def test_onnx_file_with_one_output_less(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x + 1, x * 2

    args = (torch.randn(3),)
    model = converter.to_onnx(converter.from_torch(Two(), args))
    assert parity.compare(Two(), model, args).ok
    del model.graph.output[1]
    report = parity.compare(Two(), model, args)
    assert not report.ok
    assert "not compared" in {c.status for c in report.cells[""].failures}


def test_onnx_model_as_the_reference_is_refused() -> None:
    module, args = mixed()
    model = converter.to_onnx(converter.from_torch(module, args))
    with pytest.raises(UsageError, match="candidate"):
        parity.compare(model, module, args)


def test_program_as_the_reference() -> None:
    module, args = mixed()
    program = converter.from_torch(module, args)
    assert parity.compare(program, module, args).ok
    assert parity.compare(program, program, args).ok
    report = parity.compare(program, with_attributes(program, "layer_norm", lambda a: a | {"eps": 1e-6}), args)
    assert report.failing == ["norm"]
