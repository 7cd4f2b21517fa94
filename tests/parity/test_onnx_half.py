"""A float32 file compared with a converter's float16 file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16
from torch import Tensor, nn

from cellbridge.converter import from_onnx, from_torch, to_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    network = Network()
    with torch.no_grad():
        network.head[0].weight[0, :3] = 1e-9  # which a converter makes 1e-7
    path = tmp_path_factory.mktemp("onnx") / "wide.onnx"
    to_onnx(from_torch(network, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: "batch"},)), path)
    return str(path)


@pytest.mark.parametrize("keep", [False, True], ids=["float16 inputs", "float32 inputs"])
@pytest.mark.parametrize("blocked", [None, ["LayerNormalization", "Gelu"]], ids=["all", "but some"])
@pytest.mark.every(4)
def test_cells_are_judged_by_the_rounding_of_float16(wide: str, tmp_path: Path, keep: bool, blocked: Any) -> None:
    half = convert_float_to_float16(onnx.load(wide), keep_io_types=keep, op_block_list=blocked)
    onnx.save(half, tmp_path / "half.onnx")
    for pair in ((wide, str(tmp_path / "half.onnx")), (str(tmp_path / "half.onnx"), wide)):
        report = compare_onnx(*pair)
        assert report.ok, str(report)
        assert {"conv", "head.0", "head.2"} <= set(report.cells)
        assert report.dtype == "float16"
        assert any("the other in float16" in note for note in report.notes)


@pytest.mark.parametrize("factor", [1.02, 0.0])
@pytest.mark.every(2)
def test_a_weight_that_differs_is_found_in_its_cell(wide: str, tmp_path: Path, factor: float) -> None:
    half = convert_float_to_float16(onnx.load(wide))
    for tensor in half.graph.initializer:
        if tensor.name.startswith("head.0.weight"):
            array = numpy_helper.to_array(tensor).copy()
            array[4] = array[4] * np.float16(factor)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(half, tmp_path / "half.onnx")
    report = compare_onnx(wide, str(tmp_path / "half.onnx"))
    assert "head.0" in report.failing


def test_nodes_may_stand_in_any_order(wide: str, tmp_path: Path) -> None:
    model = onnx.load(wide)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[::-1])
    onnx.save(model, tmp_path / "reversed.onnx")
    assert len(from_onnx(tmp_path / "reversed.onnx").nodes) == len(from_onnx(wide).nodes)
    assert compare_onnx(wide, str(tmp_path / "reversed.onnx")).ok
