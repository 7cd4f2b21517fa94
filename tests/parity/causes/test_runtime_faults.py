"""What makes ONNX Runtime wrong: real faults of its optimizers and kernels, and planted ones of settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

from cellbridge import parity
from cellbridge.parity.causes.budget import Budget, BudgetSpentError
from cellbridge.parity.causes.runtime_faults import find
from cellbridge.parity.causes.runtime_faults.experiment import DEFAULT, REPEATS, Expected, Experiment, Settings
from cellbridge.parity.causes.runtime_faults.find import find_cause
from cellbridge.parity.causes.runtime_faults.optimizers import RULES, responsible
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.judging.noise import Noise
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.cause import Cause
from cellbridge.parity.sides.onnxruntime_side import OnnxModelSide
from cellbridge.parity.sides.records import OUTPUT, Key
from cellbridge.parity.sides.run import Run
from cellbridge.parity.sides.runtime_model import RuntimeModel
from cellbridge.runtime.ops.registry import get
from cellbridge.runtime.workarounds import WORKAROUNDS
from tests.parity.test_report_schema import VALIDATOR

pytestmark = pytest.mark.causes

Array = np.ndarray[Any, Any]
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


def is_fixed(workaround: str) -> bool:
    """Whether the installed ONNX Runtime no longer has a fault."""
    fixed_in = WORKAROUNDS[workaround].fixed_in
    return fixed_in is not None and fixed_in <= VERSION


def model(nodes: Sequence[Any], inputs: dict[str, list[int]], **constants: Array) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", given, [result], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], name=f"the {op}", **attributes)


VECTOR = model(
    [node("Relu", "x", "r"), node("Transpose", "r", "t"), node("MatMul", "t v", "m"), node("Tanh", "m", "y")],
    {"x": [2, 3], "v": [2]},
)
"""A fusion of level EXTENDED multiplies the matrix as if it weren't transposed."""

PADDED = model(
    [
        node("Sin", "x", "s"),
        node("Pad", "s p", "t"),
        node("MaxPool", "t", "y", kernel_shape=[2, 2], strides=[2, 2]),
    ],
    {"x": [1, 1, 4, 4]},
    p=np.array([0, 0, 1, 1, 0, 0, 1, 1]),
)
"""A rule of level BASIC pads with -inf instead of 0."""

ROWS = model([node("Sigmoid", "x", "s"), node("ReduceSum", "s a", "y", keepdims=0)], {"x": [65536, 8]}, a=np.array([0]))
"""A kernel adds many rows one after the other."""


def checked(made: onnx.ModelProto, folder: Path, **options: Any) -> Report:
    onnx.save(made, folder / "net.onnx")
    return check_onnx(str(folder / "net.onnx"), **options)


def cause_of(made: onnx.ModelProto, folder: Path) -> Cause:
    (cause,) = checked(made, folder).cells[""].causes
    assert cause.kind == "onnxruntime"
    return cause


def test_an_optimizer_and_its_node(tmp_path: Path) -> None:
    report = checked(VECTOR, tmp_path)
    VALIDATOR.validate(json.loads(json.dumps(report.to_dict())))
    (cause,) = report.cells[""].causes
    text = " ".join(str(report).split())
    assert "to fix: create the session with disabled_optimizers=['MatmulTransposeFusion']" in text
    assert "with disabled_optimizers=['MatmulTransposeFusion'], the result differs by" in text
    assert (cause.option, cause.option_value) == ("disabled_optimizers", ["MatmulTransposeFusion"])
    assert cause.optimizers == ("MatmulTransposeFusion",)
    assert cause.op == "com.microsoft.FusedMatMul"
    assert cause.node.startswith("the MatMul")
    assert "from level ORT_ENABLE_EXTENDED on" in cause.summary
    assert 0 < cause.error < 1e-6


@pytest.mark.skipif(is_fixed("padding before a pool"), reason="this ONNX Runtime has no such fault")
def test_a_rule_of_a_rule_based_optimizer(tmp_path: Path) -> None:
    cause = cause_of(PADDED, tmp_path)
    assert (cause.option, cause.option_value) == ("disabled_optimizers", ["Pad_Fusion"])
    assert (cause.op, cause.node) == ("MaxPool", "the MaxPool")
    assert "from level ORT_ENABLE_BASIC on" in cause.summary


def test_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel adds up in order, which passes where it is known that the sum itself may be that far off."""
    assert checked(ROWS, tmp_path).ok
    monkeypatch.setattr(Noise, "compute_bounds", lambda *_: False)
    report = checked(ROWS, tmp_path)
    (cause,) = report.cells[""].causes
    assert (cause.option, cause.option_value, cause.optimizers) == ("", None, ())
    assert (cause.op, cause.node) == ("ReduceSum", "the ReduceSum")
    text = " ".join(str(report).split())
    assert "ONNX Runtime is wrong: its kernel of ReduceSum 'the ReduceSum'" in text
    assert "the interpreter computes the reference's result from the same model in float64" in text


def test_no_search_without_time(tmp_path: Path) -> None:
    assert checked(VECTOR, tmp_path, diagnose_seconds=0).cells[""].causes == []


class Product(nn.Module):
    def forward(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x).T @ v


def test_a_cell_of_an_exported_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workaround for the fusion is taken out of the export."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.product = Product()

        def forward(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return self.product(x.sigmoid(), v) * 2

    monkeypatch.setattr(get("matmul"), "onnx_rule", lambda graph, a, b: graph.op("MatMul", a, b))
    report = parity.check(Network(), (torch.randn(2, 3), torch.randn(2)))
    assert report.failing == ["product"]
    (cause,) = report.cells["product"].causes
    assert cause.optimizers == ("MatmulTransposeFusion",)
    graph = report.cells["product"].graph
    assert graph is not None
    assert {"tanh", "matmul"} <= {node.name for node in graph.nodes}


class Planted(Experiment):
    """An experiment of which it is known with which settings the result is right."""

    def __init__(self, is_right: Callable[[Settings], bool], log: str = "", provider: str = "cpu") -> None:
        super().__init__(RuntimeModel(VECTOR, {}, {}, provider), {}, Budget())
        self.rule, self.text, self.runs = is_right, log, 0

    def is_right(self, settings: Settings) -> bool:
        self.runs += 1
        return self.rule(settings)

    def relative(self, settings: Settings) -> float:
        return 0.0

    def log(self) -> str:
        return self.text


@pytest.fixture
def _no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "first_wrong_node", lambda _: None)


LOG = "".join(f"[I] GraphTransformer {name} modified: {changed} with status: OK\n" for name, changed in (
    ("A", 1), ("B", 1), ("C", 0), ("D", 1), ("A", 1), ("E", 1)
))  # fmt: skip


def without(*names: str) -> Callable[[Settings], bool]:
    """Right without optimizations, and without all of these optimizers."""
    return lambda s: s.level in (0, 1) or {*names} <= {*s.disabled}


@pytest.mark.usefixtures("_no_node")
@pytest.mark.parametrize(
    ("is_right", "provider", "option", "value"),
    [
        (without("D"), "cpu", "disabled_optimizers", ["D"]),
        (without("A", "D"), "cpu", "disabled_optimizers", ["A", "D"]),
        (without("unknown"), "cpu", "graph_optimization_level", "ORT_ENABLE_BASIC"),
        (lambda s: s.threads == 1, "cpu", "intra_op_num_threads", 1),
        (lambda s: s.provider == "cpu", "cuda", "providers", ["CPUExecutionProvider"]),
    ],
)
def test_the_option_that_avoids_it(
    is_right: Callable[[Settings], bool], provider: str, option: str, value: object
) -> None:
    cause = find_cause(Planted(is_right, LOG, provider))
    assert cause is not None
    assert (cause.option, cause.option_value) == (option, value)


def test_optimizers_that_do_the_same_are_found_together() -> None:
    planted = Planted(without("A", "E"))
    assert responsible(planted, ["A", "B", "D", "E"]) == ["A", "E"]
    assert responsible(Planted(without("unknown")), ["A", "B"]) == []


@pytest.mark.usefixtures("_no_node")
def test_what_is_not_wrong_again_is_not_explained() -> None:
    planted = Planted(lambda _: True)
    assert find_cause(planted) is None
    assert planted.runs == REPEATS


@pytest.mark.usefixtures("_no_node")
def test_a_run_that_is_right_by_chance_proves_nothing() -> None:
    right_once = iter([True, False, False])

    def is_right(settings: Settings) -> bool:
        return settings.threads == 1 or (settings.level == 0 and next(right_once))

    cause = find_cause(Planted(is_right, LOG))
    assert cause is not None
    assert cause.option == "intra_op_num_threads"


def experiment(expected: Array, seconds: float = 60) -> Experiment:
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "v": np.array([0.1, 0.2], np.float32)}
    run = RuntimeModel(VECTOR, inputs, {Key("", 0, OUTPUT, "y"): "y"}, "cpu")
    return Experiment(run, {"y": Expected(expected, 1e-6)}, Budget(seconds))


def test_a_model_that_is_wrong_itself_is_no_fault_of_onnx_runtime() -> None:
    given = RuntimeModel(ROWS, {"x": np.ones((65536, 8), np.float32)}, {}, "cpu")
    cause = find_cause(Experiment(given, {"y": Expected(np.zeros(8), 1000.0)}, Budget()))
    assert cause is not None
    assert cause.kind == "model"


def test_nothing_is_said_of_a_model_that_is_wrong_twice() -> None:
    """ONNX Runtime computes something else than the interpreter, and neither what is expected."""
    assert find_cause(experiment(np.full(3, 7.0))) is None


def test_the_search_ends_with_its_time() -> None:
    late = experiment(np.zeros(3), seconds=-1)
    with pytest.raises(BudgetSpentError):
        late.is_right(DEFAULT)
    assert find_cause(late) is None


def test_the_rules_are_those_of_onnx_runtime() -> None:
    (library,) = Path(onnxruntime.__file__).parent.glob("capi/onnxruntime_pybind11_state*")
    binary = library.read_bytes()
    absent = [rule for rule in RULES if b"\0" + rule.encode() + b"\0" not in binary]
    assert absent == []


def test_expected_results() -> None:
    expected = Expected(np.array([1.0, np.nan, np.inf]), 0.5)
    assert expected.ratio(np.array([1.25, np.nan, np.inf])) == 0.5
    assert expected.ratio(np.array([1.0, 0.0, np.inf])) == np.inf
    assert expected.ratio(np.array([1.0, np.nan])) == np.inf
    assert expected.ratio(None) == np.inf
    exact = Expected(np.array([1, 2]), 0.0)
    assert (exact.ratio(np.array([1, 2])), exact.ratio(np.array([1, 3]))) == (0.0, np.inf)


def test_results_that_are_no_tensors_are_left_out() -> None:
    made = model([node("Relu", "x", "y"), node("SequenceConstruct", "x y", "s")], {"x": [2, 3]})
    x = torch.ones(2, 3)
    assert list(OnnxModelSide("onnxruntime", made, (x,), {}).runtime_model(Run("float32")).outputs.values()) == ["y"]
    made.graph.output.append(helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None))
    assert OnnxModelSide("onnxruntime", made, (x,), {}).runtime_model(Run("float32")).outputs == {}
