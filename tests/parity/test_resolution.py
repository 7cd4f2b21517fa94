"""Kernels whose results are multiples of a step: right files pass, and faults of several steps don't."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.sides.resolution import Resolution


class Tails(nn.Module):
    """Probabilities near 0."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 17).sigmoid()


def test_the_tails_of_a_sigmoid_pass() -> None:
    x = torch.linspace(-1.0, 1.0, 200).reshape(10, 20)
    report = parity.check(Tails(), (x,))
    assert report.ok, str(report)


def file(path: Path, nodes: list[onnx.NodeProto], **constants: np.ndarray) -> str:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [10, 20]) for name in "xy"]
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return str(path)


@pytest.mark.parametrize(("shift", "ok"), [(17.0, True), (12.0, False), (20.0, False)])
def test_a_file_with_another_sigmoid_fails(tmp_path: Path, shift: float, ok: bool) -> None:
    nodes = [helper.make_node("Sub", ["x", "shift"], ["h"]), helper.make_node("Sigmoid", ["h"], ["y"])]
    path = file(tmp_path / "s.onnx", nodes, shift=np.array(shift, np.float32))
    assert check_onnx(path).ok
    if shift != 20.0:  # what is below the kernel's own error can't be told
        report = parity.compare(Tails(), path, (torch.linspace(-1.0, 1.0, 200).reshape(10, 20),))
        assert report.ok == ok, str(report)


class Quantized(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp((x * 1.5 / self.scale).round(), -128, 127) * self.scale


@pytest.mark.parametrize(("scale", "ok"), [(0.1, True), (0.1005, False), (0.11, False), (0.2, False)])
@pytest.mark.every(3)
def test_a_value_may_fall_to_the_other_side_of_its_quantizer(tmp_path: Path, scale: float, ok: bool) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["h"]),
        helper.make_node("QuantizeLinear", ["h", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    x = torch.linspace(-3.0, 3.0, 200).reshape(10, 20)
    x[0, 0] = 0.30000001  # a tie, as far as float32 can tell
    zero, factor = np.array(0, np.int8), np.array(1.5, np.float32)
    path = file(tmp_path / "q.onnx", nodes, scale=np.array(scale, np.float32), zero=zero, factor=factor)
    report = parity.compare(Quantized(0.1), path, (x,))
    assert report.ok == ok, str(report)


@pytest.mark.parametrize(
    ("change", "explained"),
    [
        (lambda d: d, True),
        (lambda d: np.where(np.arange(100) == 3, 0.1, d), True),
        (lambda d: np.where(np.arange(100) == 3, 0.2, d), False),
        (lambda d: np.where(np.arange(100) == 3, 0.05, d), False),
        (lambda d: np.where(np.arange(100) < 30, 0.1, d), False),
        (lambda d: np.where(np.arange(100) == 3, np.nan, d), False),
    ],
)
def test_steps(change: Callable[[np.ndarray], np.ndarray], explained: bool) -> None:
    difference = change(np.full(100, 1e-8))
    assert Resolution(step=0.1).verdict(difference, np.zeros(100), 1e-7, 1e-7, 2.0**-23) == explained
