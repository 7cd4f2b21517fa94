"""What a report says about an execution provider."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest
import torch
from onnx import helper

from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity import check
from cellbridge.parity.sides.provider_notes import provider_notes
from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.providers import PROVIDERS


class Determinant(torch.nn.Module):
    """x [n, 3, 3] to the determinants of a linear map of it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.norm = torch.nn.LayerNorm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.det(self.norm(self.fc(x)))


def test_nothing_on_the_processor() -> None:
    assert provider_notes("onnxruntime", "cpu", [], onnx.GraphProto()) == []


def test_arithmetic_is_said() -> None:
    assert provider_notes("onnxruntime", "cuda", [], onnx.GraphProto()) == [
        "onnxruntime ran on cuda: float32 is multiplied in float32, not in TF32"
    ]
    (note,) = provider_notes("candidate", "xnnpack", [], onnx.GraphProto())
    assert note == "candidate ran on xnnpack: its arithmetic is that of ONNX Runtime's defaults, and not known here"


def test_nodes_are_named_by_their_cells() -> None:
    graph = to_onnx(from_torch(Determinant(), (torch.ones(2, 3, 3),))).graph
    names = [(node.op_type, node.name) for node in graph.node]
    _, note = provider_notes("onnxruntime", "openvino", [names[0], names[-1], ("Fused", "made up")], graph)
    assert note.startswith(f"of {len(names)} nodes, openvino leaves 3 to another provider: ")
    assert f"{names[0][0]} in fc" in note
    assert "in (root)" in note
    assert "Fused in an unknown Cell" in note


def test_names_of_files_without_metadata_begin_with_paths() -> None:
    nodes = [helper.make_node("Det", ["x"], ["y"], name="/block/inner/Det"), helper.make_node("Mod", ["a", "b"], ["c"])]
    graph = helper.make_graph(nodes, "g", [], [])
    _, note = provider_notes("file", "openvino", [("Det", "/block/inner/Det"), ("Mod", "")], graph)
    assert note.endswith("Det in block/inner, Mod in (root)")


def test_an_unknown_provider_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="unknown provider 'nothing'"):
        check(torch.nn.Linear(2, 2), (torch.ones(1, 2),), provider="nothing")


@pytest.mark.skipif(
    PROVIDERS["openvino"].ort_name not in onnxruntime.get_available_providers(),
    reason="onnxruntime-openvino isn't installed",
)
def test_cells_on_openvino() -> None:
    report = check(Determinant(), (torch.randn(2, 3, 3),), provider="openvino")
    assert report.ok, str(report)
    assert "onnxruntime ran on openvino: float32 is computed in float32 on the CPU" in report.notes
