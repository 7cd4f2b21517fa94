"""Nodes that an accelerator would leave to the CPU, known from tables or asked of ONNX Runtime."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from cellbridge.parity.jobs.deployment import fallback, kernels
from cellbridge.parity.jobs.deployment.fallback import fallback_notes
from cellbridge.parity.jobs.deployment.kernels import nodes_without_cuda


def model(operator: str, opset: int, dtype: int = TensorProto.FLOAT, inputs: int = 1) -> onnx.ModelProto:
    """A model of one node."""
    names = [f"x{i}" for i in range(inputs)]
    node = helper.make_node(operator, names, ["y"], name="/head/node")
    values = [helper.make_tensor_value_info(name, dtype, [2, 3]) for name in names]
    graph = helper.make_graph([node], "one", values, [helper.make_tensor_value_info("y", dtype, [2, 3])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def test_an_operator_without_a_kernel() -> None:
    assert nodes_without_cuda(model("Det", 22)) == [("Det", "/head/node")]
    assert nodes_without_cuda(model("Relu", 17)) == []


def test_a_version_without_a_kernel() -> None:
    assert nodes_without_cuda(model("Selu", 21)) == []
    assert nodes_without_cuda(model("Selu", 22)) == [("Selu", "/head/node")]


def test_a_kernel_without_a_last_version_is_for_its_own_version_alone() -> None:
    """ONNX Runtime itself says so, of a kernel for the CPU."""
    assert kernels._table()["providers"]["cpu"]["GlobalLpPool"] == [[2, 0]]
    for opset, runs in ((21, True), (22, False)):
        assert kernels._covers([2, 0], onnx.defs.get_schema("GlobalLpPool", opset).since_version) == runs
        data = model("GlobalLpPool", opset).SerializeToString()
        if runs:
            onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        else:
            with pytest.raises(Exception, match="Could not find an implementation for GlobalLpPool"):
                onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def test_a_dtype_without_a_kernel() -> None:
    def read(dtype: int) -> onnx.ModelProto:
        node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], name="read")
        x, s = (helper.make_tensor_value_info(n, kind, []) for n, kind in (("x", dtype), ("s", TensorProto.FLOAT)))
        graph = helper.make_graph([node], "g", [x, s], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])

    assert nodes_without_cuda(read(TensorProto.INT8)) == []
    assert nodes_without_cuda(read(TensorProto.INT32)) == [("DequantizeLinear", "read")]


def test_a_function_is_run_by_its_parts() -> None:
    """No provider has a kernel of it: ONNX Runtime runs the nodes of its definition."""
    assert onnx.defs.get_schema("CenterCropPad", 18).has_context_dependent_function
    assert "CenterCropPad" not in kernels._table()["providers"]["cpu"]
    assert nodes_without_cuda(model("CenterCropPad", 18, inputs=2)) == []


def test_the_body_of_a_branch_is_looked_at() -> None:
    inner = helper.make_graph(
        [helper.make_node("Det", ["x"], ["d"], name="/inner/det")], "b", [],
        [helper.make_tensor_value_info("d", TensorProto.FLOAT, None)],
    )  # fmt: skip
    node = helper.make_node("If", ["c"], ["y"], name="if", then_branch=inner, else_branch=inner)
    values = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2]),
    ]
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    assert (
        nodes_without_cuda(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
        == [("Det", "/inner/det")] * 2
    )


def test_a_malformed_model_is_looked_at_without_its_dtypes() -> None:
    wrong = model("Det", 22)
    wrong.graph.node.add(op_type="NoSuchOperator", name="x", output=["z"])
    assert nodes_without_cuda(wrong) == [("Det", "/head/node")]


def test_the_note_names_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "usable_accelerators", list)
    onnx.save(model("Det", 22), tmp_path / "m.onnx")
    (note,) = fallback_notes(tmp_path / "m.onnx")
    assert note.startswith("on cuda, 1 of 1 nodes would run on the CPU, because onnxruntime ")
    assert note.endswith("has no kernel for them: Det in head")


def test_a_provider_that_is_usable_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU stands for one that leaves nodes to another."""
    monkeypatch.setattr(fallback, "usable_accelerators", lambda: ["cpu"])
    monkeypatch.setattr(fallback.IsolatedSession, "nodes_elsewhere", lambda self: [("Relu", "/head/node")])
    onnx.save(model("Relu", 17), tmp_path / "m.onnx")
    assert "of 1 nodes, cpu leaves 1 to another provider: Relu in head" in fallback_notes(tmp_path / "m.onnx")


def test_the_table_is_that_of_onnx_runtime() -> None:
    """Of the CPU, whose kernels ONNX Runtime lists without a device; of the version that the table is of."""
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    if onnxruntime.__version__ != kernels.version_of_table():
        pytest.skip(f"the table is of onnxruntime {kernels.version_of_table()}")
    version_ranges = defaultdict(set)
    for kernel in state.get_registered_ep_kernel_defs("CPUExecutionProvider"):
        operator = f"{kernel.domain}:{kernel.op_name}" if kernel.domain else kernel.op_name
        first, last = kernel.version_range
        version_ranges[operator].add((first, 0 if last == 2**31 - 1 else last))
    table = kernels._table()["providers"]["cpu"]
    assert {name: set(map(tuple, ranges)) for name, ranges in table.items()} == version_ranges


def test_weights_are_not_read(tmp_path: Path) -> None:
    """The tensors of a large model stay in their file."""
    graph = model("Det", 22)
    graph.graph.initializer.append(numpy_helper.from_array(np.zeros(1000, np.float32), "w"))
    onnx.save(graph, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    (tmp_path / "m.onnx.data").unlink()
    assert nodes_without_cuda(onnx.load(tmp_path / "m.onnx", load_external_data=False)) == [("Det", "/head/node")]
