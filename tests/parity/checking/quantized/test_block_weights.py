"""Weights of 4 bits in blocks (MatMulNBits): codes, the verdict on files with them, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from torch import nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.checking.quantized.block_weights import block_weight
from cellbridge.parity.checking.quantized.stored import StoredTensors
from cellbridge.parity.jobs.deployment.quantizing import quantize_blocks
from cellbridge.runtime.compiled.session import Session
from cellbridge.runtime.errors import ConversionError


class Network(nn.Module):
    """x [2, 5, 70] to [2, 5, 3]: widths that are no multiples of a block."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(70, 48), nn.Linear(48, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.first(x)))


@pytest.fixture
def float_file(tmp_path: Path) -> Path:
    path = tmp_path / "float.onnx"
    to_onnx(from_torch(Network(), (torch.randn(2, 5, 70),)), path, opset=20)
    return path


def asymmetric(source: Path, target: Path, block: int = 16) -> None:
    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=block, is_symmetric=False)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target), False)


def stored(path: Path) -> tuple[StoredTensors, list[onnx.NodeProto]]:
    graph = onnx.load(path).graph
    return StoredTensors(graph, None), [node for node in graph.node if node.op_type == "MatMulNBits"]


@pytest.mark.parametrize("quantize", [quantize_blocks, asymmetric])
def test_codes_are_those_that_the_kernel_multiplies(
    float_file: Path, tmp_path: Path, quantize: Callable[[Path, Path], None]
) -> None:
    quantize(float_file, tmp_path / "small.onnx")
    tensors, nodes = stored(tmp_path / "small.onnx")
    assert len(nodes) == 2
    for node in nodes:
        codes, quantizer = block_weight(node, tensors)
        rows, columns = codes.shape
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, rows])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])
        alone = onnx.NodeProto()
        alone.CopyFrom(node)
        alone.input[0], alone.output[0] = "x", "y"
        kept = [tensor for name, tensor in tensors.initializers.items() if name in node.input]
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(helper.make_graph([alone], "one", [x], [y], kept), opset_imports=opsets, ir_version=9)
        product = Session(model).run({"x": np.eye(rows, dtype=np.float32)})["y"]
        np.testing.assert_allclose(product, quantizer.numbers(codes), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("quantize", [quantize_blocks, asymmetric])
@pytest.mark.every(2)
def test_honest_weights_of_4_bits_hold(
    float_file: Path, tmp_path: Path, quantize: Callable[[Path, Path], None]
) -> None:
    quantize(float_file, tmp_path / "small.onnx")
    report = compare_onnx(str(float_file), str(tmp_path / "small.onnx"))
    assert report.ok, str(report)
    weights = [c for cell in report.cells.values() for c in cell.comparisons if c.check == "quantization"]
    assert len([c for c in weights if c.kind == "parameter"]) == 2
    assert all(c.ratio <= 1.001 for c in weights if c.kind == "parameter")


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[onnx.ModelProto], None]:
    """Return a fault: the first stored tensor whose name ends so is changed."""

    def plant(model: onnx.ModelProto) -> None:
        tensor = next(initializer for initializer in model.graph.initializer if initializer.name.endswith(name))
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(change(array.copy()).astype(array.dtype), tensor.name))

    return plant


def one_scale(array: np.ndarray) -> np.ndarray:
    array.reshape(-1)[7] *= 1.25
    return array


FAULTS = {
    "scales of a tenth more": changed("_scales", lambda a: a * 1.1),
    "one scale": changed("_scales", one_scale),
    "half the range": changed("_scales", lambda a: a / 2),
    "nibbles exchanged": changed("_Q4", lambda a: (a >> 4) | (a << 4)),
    "zero points off by one": changed("_zero_points", lambda a: a ^ 0x11),
    "columns in another order": changed("_Q4", lambda a: a[::-1]),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.every(6)
def test_a_fault_is_found_in_its_cell(float_file: Path, tmp_path: Path, name: str) -> None:
    (asymmetric if name.startswith("zero") else quantize_blocks)(float_file, tmp_path / "small.onnx")
    model = onnx.load(tmp_path / "small.onnx")
    FAULTS[name](model)
    onnx.save(model, tmp_path / "wrong.onnx")
    report = compare_onnx(str(float_file), str(tmp_path / "wrong.onnx"))
    assert report.failing == ["first"], name


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("K", 99, "needed .* elements for its K, N and block_size"),
        ("N", 49, "needed .* elements for its K, N and block_size"),
        ("block_size", 0, "needed weights of 4 or 8 bits in blocks"),
        ("bits", 3, "needed weights of 4 or 8 bits in blocks"),
        ("K", -70, "needed weights of 4 or 8 bits in blocks"),
    ],
)
def test_nodes_that_are_malformed(float_file: Path, tmp_path: Path, attribute: str, value: int, message: str) -> None:
    quantize_blocks(float_file, tmp_path / "small.onnx")
    tensors, (node, _) = stored(tmp_path / "small.onnx")
    next(proto for proto in node.attribute if proto.name == attribute).i = value
    with pytest.raises(ConversionError, match=message):
        block_weight(node, tensors)


def test_rows_in_another_order_are_refused(float_file: Path, tmp_path: Path) -> None:
    quantize_blocks(float_file, tmp_path / "small.onnx")
    tensors, (node, _) = stored(tmp_path / "small.onnx")
    node.input.extend(["", "order"])
    with pytest.raises(ConversionError, match="g_idx"):
        block_weight(node, tensors)


def test_nothing_to_quantize(tmp_path: Path) -> None:
    to_onnx(from_torch(nn.Conv2d(3, 4, 3), (torch.randn(1, 3, 8, 8),)), tmp_path / "conv.onnx", opset=20)
    with pytest.raises(ConversionError, match="nothing to quantize to 4 bits"):
        quantize_blocks(tmp_path / "conv.onnx", tmp_path / "small.onnx")
