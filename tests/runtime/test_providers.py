"""Execution providers: objects, what is said where one is missing or doesn't load, and nodes that it doesn't run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from cellbridge.runtime.compiled import session
from cellbridge.runtime.compiled.assignment import nodes_elsewhere
from cellbridge.runtime.compiled.isolated import IsolatedSession
from cellbridge.runtime.compiled.session import Session, choose_provider, require_active, unusable
from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.providers import PROVIDERS, find, short_name

OPENVINO = PROVIDERS["openvino"].ort_name
needs_openvino = pytest.mark.skipif(
    OPENVINO not in onnxruntime.get_available_providers(), reason="onnxruntime-openvino isn't installed"
)


def test_names_are_those_of_onnx_runtime() -> None:
    known = set(onnxruntime.capi.onnxruntime_pybind11_state.get_all_providers())
    assert {provider.ort_name for provider in PROVIDERS.values()} <= known


def test_chains_end_at_the_processor() -> None:
    assert PROVIDERS["cpu"].chain() == ["CPUExecutionProvider"]
    assert PROVIDERS["cuda"].chain(enable_cuda_graph="1") == [
        ("CUDAExecutionProvider", {"use_tf32": "0", "enable_cuda_graph": "1"}),
        "CPUExecutionProvider",
    ]
    assert [provider if isinstance(provider, str) else provider[0] for provider in PROVIDERS["tensorrt"].chain()] == [
        "TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider",
    ]  # fmt: skip
    assert PROVIDERS["cuda"].options == {"use_tf32": "0"}


def test_a_provider_that_is_not_known_has_no_options() -> None:
    assert find("Azure").chain() == [("AzureExecutionProvider", {}), "CPUExecutionProvider"]
    assert short_name("AzureExecutionProvider") == "Azure"
    assert short_name("DmlExecutionProvider") == "directml"


def test_one_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        session.ort, "get_available_providers", lambda: ["CUDAExecutionProvider", PROVIDERS["cpu"].ort_name]
    )
    monkeypatch.setattr(session, "installed_packages", lambda: ["onnxruntime-gpu"])
    with pytest.raises(UsageError, match=r"^unknown provider 'nothing': the installed .* has cpu, cuda$"):
        choose_provider("nothing")
    with pytest.raises(UsageError, match=r"^provider 'openvino': (?s:.)*uninstall -y onnxruntime-gpu, then pip install "
                                         r"onnxruntime-openvino"):  # fmt: skip
        choose_provider("openvino")
    with pytest.raises(UsageError, match=r"has cpu, cuda$"):
        choose_provider("xnnpack")


def test_one_that_does_not_load() -> None:
    reason = "/onnxruntime_src/x.cc:729 void f(a, const b&) Please install TensorRT libraries.\nmore"
    text = str(unusable("tensorrt", ["CPUExecutionProvider"], reason))
    assert text.splitlines()[:2] == [
        "ONNX Runtime can't use provider 'tensorrt' on this machine (it needs a GPU, CUDA, cuDNN and TensorRT): "
        "available: cpu",
        "  ONNX Runtime says: Please install TensorRT libraries.",
    ]
    with pytest.raises(UsageError, match="can't use provider 'coreml'"):
        require_active("coreml", ["CPUExecutionProvider"])
    require_active("coreml", ["CoreMLExecutionProvider", "CPUExecutionProvider"])


@pytest.mark.parametrize("error", [RuntimeError("no library"), ValueError("no library")])
def test_an_error_of_a_provider_is_no_crash(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        assert options["enable_fallback"] == 0  # otherwise it prints that it goes on without the provider
        raise error

    monkeypatch.setattr(session, "choose_provider", lambda name: name)
    monkeypatch.setattr(session.ort, "InferenceSession", refuse)
    with pytest.raises(UsageError, match=r"can't use provider 'openvino'(?s:.)*says: no library"):
        Session(relu_and_det(), "openvino")


def test_nodes_elsewhere() -> None:
    def subgraph(provider: str, *nodes: tuple[str, str]) -> Any:
        made = [SimpleNamespace(op_type=kind, name=name) for kind, name in nodes]
        return SimpleNamespace(ep_name=provider, get_nodes=lambda: made)

    subgraphs = [subgraph("A", ("Relu", "r")), subgraph("B", ("Det", "d"), ("Mod", "m"))]
    session = SimpleNamespace(get_provider_graph_assignment_info=lambda: subgraphs)
    assert nodes_elsewhere(session, "A") == [("Det", "d"), ("Mod", "m")]
    assert nodes_elsewhere(None, "CPUExecutionProvider") == []
    assert Session(relu_and_det()).nodes_elsewhere() == []


def relu_and_det() -> onnx.ModelProto:
    """x [3, 3] to relu(x) and its determinant, which OpenVINO can't compute."""
    x, r = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3]) for name in "xr")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    nodes = [helper.make_node("Relu", ["x"], ["r"], name="a/relu"), helper.make_node("Det", ["r"], ["y"], name="b/det")]
    graph = helper.make_graph(nodes, "small", [x], [r, y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@needs_openvino
def test_openvino_names_what_it_does_not_run() -> None:
    given = {"x": np.eye(3, dtype=np.float32)}
    session, isolated = Session(relu_and_det(), "openvino"), IsolatedSession(relu_and_det(), "openvino")
    assert session.nodes_elsewhere() == isolated.nodes_elsewhere() == [("Det", "b/det")]
    np.testing.assert_array_equal(session.run(given)["y"], 1)
    np.testing.assert_array_equal(isolated.run(given)["y"][""], 1)


@needs_openvino
def test_openvino_computes_float32_in_float32() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((256, 256)).astype(np.float32) for _ in range(2))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [256, 256]) for name in "xwy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    y = Session(model, "openvino").run({"x": x, "w": w})["y"]
    exact = x.astype(np.float64) @ w.astype(np.float64)
    assert np.abs(y - exact).max() < 1e-3  # bfloat16's rounding would be 0.1
