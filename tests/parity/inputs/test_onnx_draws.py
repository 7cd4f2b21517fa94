"""Every operator that draws random numbers, at every place: no side is called wrong for its own numbers."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import torch

from cellbridge import converter
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.checking.onnx_files.module_and_file import ModuleAndFile
from cellbridge.parity.inputs.onnx_draws import share_draws
from cellbridge.parity.options import Options
from cellbridge.parity.support.progress import NoProgress
from cellbridge.runtime.errors import ConversionError, UsageError

LOOP = """Loop (trips, yes, x) <body = b (int64 i, bool c, float[n, 5] h) => (bool d, float[n, 5] k) {
    r = RandomNormalLike (h)  k = Add (h, r)  d = Identity (c) }>"""
IF = """If (c) <then_branch = t () => (float[n, 5] p) { p = RandomUniformLike (x) },
    else_branch = e () => (float[n, 5] q) { q = Neg (x) }>"""
BODIES = {
    "RandomNormal": "r = RandomNormal <shape = [2, 5], mean = 1.0, scale = 2.0> ()  y = Add (x, r)",
    "RandomNormalLike": "r = RandomNormalLike (x)  y = Add (x, r)",
    "RandomUniform": "r = RandomUniform <shape = [2, 5], low = -1.0, high = 3.0> ()  y = Add (x, r)",
    "RandomUniformLike": "r = RandomUniformLike (x)  y = Mul (x, r)",
    "double": "r = RandomNormalLike <dtype = 11> (x)  f = Cast <to = 1> (r)  y = Add (x, f)",
    "half": "r = RandomUniformLike <dtype = 10> (x)  f = Cast <to = 1> (r)  y = Add (x, f)",
    "Bernoulli": "p = Sigmoid (x)  y = Bernoulli (p)",
    "Bernoulli of integers": "p = Sigmoid (x)  b = Bernoulli <dtype = 7> (p)  f = Cast <to = 1> (b)  y = Mul (x, f)",
    "Multinomial": "m = Multinomial <sample_size = 5> (x)  y = Cast <to = 1> (m)",
    "Dropout": "y, mask = Dropout (x, ratio, yes)",
    "its mask": "d, mask = Dropout (x, ratio, yes)  f = Cast <to = 1> (mask)  y = Add (d, f)",
    "training as a value": "s = ReduceMax <keepdims = 0> (x)  c = Greater (s, ratio)  y = Dropout (x, ratio, c)",
    "Loop": f"y = {LOOP}",
    "If": f"s = ReduceMax <keepdims = 0> (x)  c = Greater (s, ratio)  w = {IF}  y = Add (w, x)",
    "function": "a = own.Noise (x)  y = own.Noise (a)",
}
CONSTANTS = "float ratio = {0.4}, bool yes = {1}, bool no = {0}, int64 trips = {3}"


def model(body: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]>
        net (float[n, 5] x) => (float[n, 5] y) <{CONSTANTS}> {{ {body} }}
        <domain: "own", opset_import: ["" : {opset}]>
        Noise (v) => (w) {{ r = RandomNormalLike (v)  w = Add (v, r) }}""")


def written(folder: Path, name: str, proto: onnx.ModelProto) -> str:
    path = str(folder / f"{name}.onnx")
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize("kind", BODIES)
def test_sides_agree(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, "model", model(BODIES[kind]))
    report = check_onnx(path, shapes={"x": (2, 5)}, probe=False)
    assert report.ok
    assert {comparison.side for comparison in report.cells[""].comparisons} == {"interpreter", "onnxruntime"}
    assert any("draws random numbers" in note for note in report.notes)


@pytest.mark.parametrize("kind", ["Bernoulli", "Dropout", "Loop", "function"])
@pytest.mark.every(3)
def test_a_file_agrees_with_itself_on_probes_too(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, "model", model(BODIES[kind]))
    assert compare_onnx(path, path).ok


@pytest.mark.parametrize(("kind", "times"), [("Loop", 3), ("function", 2)])
def test_each_iteration_and_call_draws_its_own_numbers(tmp_path: Path, kind: str, times: int) -> None:
    once, repeated = (_results(written(tmp_path, "model", model(BODIES[name]))) for name in ("RandomNormalLike", kind))
    assert not np.isclose(repeated, times * once).any()


def _results(path: str) -> np.ndarray[Any, Any]:
    (draws,) = share_draws(path)
    assert draws.model is not None
    session = onnxruntime.InferenceSession(draws.model.SerializeToString(), providers=["CPUExecutionProvider"])
    results: np.ndarray[Any, Any] = session.run(None, {"x": np.zeros((3, 5), np.float32)})[0]
    return results


def test_dropout_out_of_training_draws_nothing(tmp_path: Path) -> None:
    (draws,) = share_draws(written(tmp_path, "model", model("y, mask = Dropout (x, ratio, no)")))
    assert draws.model is None
    assert not draws.notes


TWO = "r = RandomNormalLike (x)  s = RandomNormalLike (x)  a = Mul (x, r)  b = Relu (a)  y = Add (b, s)"


def test_names_pair_the_draws_of_two_files(tmp_path: Path) -> None:
    first = model(TWO)
    second = copy.deepcopy(first)
    nodes = [second.graph.node[at] for at in (1, 0, 2, 3, 4)]
    del second.graph.node[:]
    second.graph.node.extend(nodes)
    assert compare_onnx(written(tmp_path, "a", first), written(tmp_path, "b", second), probe=False).ok


@pytest.mark.parametrize(
    ("text", "fault"), [("RandomNormalLike (x)  a", "RandomNormalLike <scale = 1.1> (x)  a"), ("Relu", "Abs")]
)
@pytest.mark.every(2)
def test_a_fault_beside_draws_fails(tmp_path: Path, text: str, fault: str) -> None:
    candidate = model(TWO.replace(text, fault).replace("s =", "t =").replace("b, s", "b, t"))
    report = compare_onnx(written(tmp_path, "a", model(TWO)), written(tmp_path, "b", candidate), probe=False)
    assert report.failed


def test_old_files_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "old", model(BODIES["RandomNormalLike"], opset=9))
    with pytest.raises(UsageError, match=r"draws random numbers \(RandomNormalLike r\) in opset 9.*\n.*opset 11"):
        check_onnx(path)


@pytest.mark.parametrize(
    "body", ["r = RandomNormal ()  y = Add (x, r)", "y = Bernoulli ()", "y = Multinomial <sample_size = -3> (x)"]
)
def test_malformed_nodes_are_refused(tmp_path: Path, body: str) -> None:
    with pytest.raises(ConversionError, match=r"needed|must be"):
        share_draws(written(tmp_path, "model", model(body)))


class Noisy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) + torch.randn_like(x)


def test_a_file_replays_the_draws_of_a_module(tmp_path: Path) -> None:
    module, args = Noisy(), (torch.ones(2, 5),)
    file = converter.to_onnx(converter.from_torch(module, args))
    assert any(node.op_type == "RandomNormalLike" for node in file.graph.node)
    report = ModuleAndFile(module, file, Options(), NoProgress()).judge_inputs(args, {})
    assert report.ok
    assert any("draws random numbers" in note and "ONNX Runtime can't" in note for note in report.notes)
    weight = next(tensor for tensor in file.graph.initializer if "weight" in tensor.name)
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.01, weight.name))
    assert ModuleAndFile(module, file, Options(), NoProgress()).judge_inputs(args, {}).failed
