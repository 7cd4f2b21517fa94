"""Programs of many parameters, and of modules nested deep, as torch modules."""

from __future__ import annotations

import copy
import gc
import pickle
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from cellbridge.converter import from_onnx, from_torch, to_onnx, to_torch
from cellbridge.converter.structure.depth import MAX_DEPTH, depth_of
from cellbridge.converter.structure.interfaces import interfaces
from cellbridge.converter.torch_out.network import TorchNetwork
from cellbridge.runtime.errors import ConversionError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import CellCall
from cellbridge.runtime.programs.verify import verify


def many_parameters(count: int, parameter: str, node: str) -> Program:
    """A sum of that many parameters."""
    weights = [numpy_helper.from_array(np.ones(2, np.float32), parameter.format(i)) for i in range(count)]
    names = ["x", *(f"h{i}" for i in range(count))]
    nodes = [
        helper.make_node("Add", [names[i], weight.name], [names[i + 1]], name=node.format(i))
        for i, weight in enumerate(weights)
    ]
    inputs, outputs = ([helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])] for name in ("x", names[-1]))
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def cost(function: Callable[[], object]) -> float:
    """Seconds of the processor, the least of three runs."""
    seconds = []
    gc.disable()  # which looks at all objects that there are
    try:
        for _ in range(3):
            start = time.process_time()
            function()
            seconds.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(seconds)


@pytest.mark.parametrize(
    ("parameter", "node"),
    [("w{}", ""), ("a.b.w{}", ""), ("w{}", "/inner/Add_{}"), ("w {}", "")],
    ids=["flat", "in a module", "carried into a Cell", "renamed"],
)
@pytest.mark.every(4)
def test_the_time_grows_with_the_number_of_parameters(parameter: str, node: str) -> None:
    few, many = (many_parameters(count, parameter, node) for count in (500, 2000))
    times = [cost(lambda program=program: interfaces(TorchNetwork(program))) for program in (few, many)]
    assert times[1] < 8 * times[0]  # 16 if it were quadratic


@pytest.mark.slow
def test_a_network_of_50000_parameters() -> None:
    program = many_parameters(50_000, "w{}", "")
    assert cost(lambda: to_torch(program)) < 60
    assert torch.equal(to_torch(program)(torch.zeros(2)), torch.full((2,), 50_000.0))


class Ending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.m = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.m(x).relu()
        return y


def nested(depth: int) -> tuple[Program, nn.Module, Tensor]:
    """A program with Cells within each other, the innermost a Linear; and what it computes."""
    original, x = Ending(), torch.randn(2, 3)
    program = from_torch(original, (x,))
    paths = [".".join(["m"] * i) for i in range(depth + 1)]
    calls = [program.calls[0], *(CellCall(path, "Linear", 0, i) for i, path in enumerate(paths[1:]))]
    nodes = []
    for node in program.nodes:
        marks = node.op == "boundary" and node.attributes["call"] == 1
        attributes = {**node.attributes, "call": depth} if marks else node.attributes
        nodes.append(replace(node, cell=depth if node.cell else 0, attributes=attributes))
    parameters = {f"{paths[-1]}.{name[2:]}": parameter for name, parameter in program.parameters.items()}
    deep = program.replace(calls=tuple(calls), nodes=tuple(nodes), parameters=parameters)
    verify(deep)
    return deep, original, x


@pytest.mark.slow
@pytest.mark.parametrize("depth", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_modules_within_each_other(depth: int) -> None:
    program, original, x = nested(depth)
    module = to_torch(program)
    assert depth_of(module) == depth
    assert list(module.state_dict()) == list(program.parameters)
    for made in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module)), to_torch(from_torch(module, (x,)))):
        made.train().eval().double().float()
        y = made(x)
        torch.testing.assert_close(y, original(x))
        y.sum().backward()
        assert all(parameter.grad is not None for parameter in made.parameters())
    through = from_onnx(to_onnx(program))
    assert [call.path for call in through.calls] == [call.path for call in program.calls]
    torch.testing.assert_close(to_torch(through)(x), original(x))


def test_modules_nested_too_deep_are_refused_clearly() -> None:
    program, _, _ = nested(MAX_DEPTH + 1)
    with pytest.raises(ConversionError, match=r"has 1001 nested modules; .* at most 1000 are allowed"):
        to_torch(program)


def test_a_name_of_many_parts_takes_no_time() -> None:
    program = many_parameters(1, ".".join(["a"] * 300_000), "")
    with pytest.raises(ConversionError, match="nested modules"):
        to_torch(program)
