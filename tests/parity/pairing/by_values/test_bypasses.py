"""Files in which a tensor gets past the boundary of a Cell, as optimizers of files leave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from benchmarks.twins.twin import twins
from cellbridge import parity


def written(
    path: Path, nodes: Sequence[onnx.NodeProto], stored: Mapping[str, Any], shapes: tuple[list[int], list[int]]
) -> str:
    """Write a file that computes y from x; return its path."""
    x, y = (helper.make_tensor_value_info(n, 1, shape) for n, shape in zip("xy", shapes, strict=True))
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], tensors), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return str(path)


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, 4, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.softmax(self.q(x) * self.k(x), -1) * self.v(x)
        return result


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.every(2)
def test_one_product_for_three_cells(tmp_path: Path, wrong: bool) -> None:
    torch.manual_seed(0)
    module = Products()
    weight = torch.cat([module.q.weight, module.k.weight, module.v.weight]).detach().numpy().T.copy()
    weight[1, 6] += 0.5 * wrong
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["qkv"]),
        helper.make_node("Split", ["qkv"], ["q", "k", "v"], axis=-1, num_outputs=3),
        helper.make_node("Mul", ["q", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("Mul", ["weights", "v"], ["y"]),
    ]
    file = written(tmp_path / "net.onnx", nodes, {"w": weight}, ([3, 4], [3, 4]))
    report = parity.compare(module, file, (torch.randn(3, 4),))
    assert report.failing == (["k"] if wrong else []), str(report)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, 2.0, 3.0, -1.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + x.sin()


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.every(2)
def test_a_copy_in_another_layout_for_one_of_two_uses(tmp_path: Path, wrong: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Tanh(), Scaled(), nn.LayerNorm(4))
    nodes = [
        helper.make_node("Tanh", ["x"], ["r"]),
        helper.make_node("Mul", ["r", "w"], ["scaled"]),
        helper.make_node("Transpose", ["x"], ["xt"], perm=[1, 0]),
        helper.make_node("Tanh", ["xt"], ["rt"]),
        helper.make_node("Cos" if wrong else "Sin", ["rt"], ["st"]),
        helper.make_node("Transpose", ["st"], ["s"], perm=[1, 0]),
        helper.make_node("Add", ["scaled", "s"], ["z"]),
        helper.make_node("LayerNormalization", ["z", "g", "b"], ["y"], epsilon=1e-5),
    ]
    stored = {"w": np.array([0.5, 2.0, 3.0, -1.0], np.float32), "g": np.ones(4, np.float32), "b": np.zeros(4, "f")}
    file = written(tmp_path / "net.onnx", nodes, stored, ([3, 4], [3, 4]))
    report = parity.compare(module, file, (torch.randn(3, 4),))
    assert report.failing == (["1"] if wrong else []), str(report)


def test_the_row_of_padding_of_a_table_that_scores_words_too(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(7, 4, padding_idx=0)
            self.scores = nn.Linear(4, 7, bias=False)
            self.scores.weight = self.words.weight

        def forward(self, ids: Tensor) -> Tensor:
            result: Tensor = self.scores(self.words(ids).tanh())
            return result

    torch.manual_seed(0)
    module, ids = Tied(), torch.tensor([[1, 0, 3], [0, 5, 6]])
    nodes = [
        helper.make_node("Gather", ["w", "x"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "wt"], ["y"]),
    ]
    file = written(tmp_path / "net.onnx", nodes, {"w": module.words.weight.detach().numpy()}, ([2, 3], [2, 3, 7]))
    model = onnx.load(file)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    report = parity.compare(module, model, (ids,))
    assert report.ok, str(report)
    assert any("words.weight[0]" in note for note in report.notes)


def test_what_a_dense_block_passes_on_is_taken_from_before_it() -> None:
    twin = twins()["densenet/channels last"]
    reference = twin.reference()
    report = parity.compare(reference, twin.candidate(reference), twin.arguments(), probe=False)
    assert report.ok, str(report)
    assert report.cells["features.denseblock2"].presence is None, str(report)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor, queries: Tensor, memory: Tensor) -> Tensor:
        x = self.norm(x + self.first(x + queries))
        return x + self.second(x + queries) * memory.mean(0)


class Decoder(nn.Module):
    """Gives learned queries, repeated for the batch, to each of its layers; it starts from zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.layers = nn.Embedding(5, 6), nn.ModuleList([Layer(), Layer()])

    def forward(self, memory: Tensor) -> Tensor:
        queries = self.queries.weight.unsqueeze(1).repeat(1, memory.shape[0], 1)
        x = torch.zeros_like(queries)
        for layer in self.layers:
            x = layer(x, queries, memory.transpose(0, 1))
        return x.transpose(0, 1)


class BatchFirst(nn.Module):
    def __init__(self, like: Decoder, factor: float) -> None:
        super().__init__()
        self.queries, self.factor = nn.Parameter(like.queries.weight.detach()[None].clone()), factor
        self.parts = nn.ModuleList(like.layers)

    def forward(self, memory: Tensor) -> Tensor:
        x, shared = memory.new_zeros(len(memory), 5, 6), memory.mean(1, keepdim=True)
        for number, part in enumerate(layer for layer in self.parts if isinstance(layer, Layer)):
            x = part.norm(x + part.first(x + self.queries))
            x = x + part.second(x + (self.factor if number else 1) * self.queries) * shared
        return x


@pytest.mark.causes
@pytest.mark.parametrize("factor", [1, 0.5])
def test_a_parameter_beside_the_value_that_it_makes(factor: float) -> None:
    """0 + queries is what the first layer is given, but what it and the others use is the parameter."""
    torch.manual_seed(0)
    reference = Decoder().eval()
    report = parity.compare(reference, BatchFirst(reference, factor).eval(), torch.randn(3, 7, 6), probe=False)
    assert report.failing == ([] if factor == 1 else ["layers.1"]), str(report)


class Stage(nn.Module):
    """A map in, a map out, and a norm over channels that are last."""

    def __init__(self, given: int, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(given, width, 3, 2, 1), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        y: Tensor = self.norm(x.flatten(2).mT)
        return y.mT.reshape(x.shape)


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Stage(3, 4), Stage(4, 6)

    def forward(self, x: Tensor) -> dict[str, Any]:
        first = self.first(x)
        second = self.second(first)
        return {"last": second, "all": (first, second)}


class Projected(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.proj(x.flatten(2).mT)
        return y.mT.reshape(x.shape[0], 5, *x.shape[2:]).mean((2, 3))


class Pyramid(nn.Module):
    """The heads have channels last again, as the norms had them before."""

    def __init__(self) -> None:
        super().__init__()
        self.stages, self.heads = Stages(), nn.ModuleList([Projected(4), Projected(6)])

    def forward(self, x: Tensor) -> Tensor:
        heads = [head(y) for head, y in zip(self.heads, self.stages(x)["all"], strict=True)]
        return torch.stack(heads).tanh().sum(0)


class Maps(nn.Module):
    """The same with channels first throughout."""

    def __init__(self, reference: Pyramid) -> None:
        super().__init__()
        stages = (reference.stages.first, reference.stages.second)
        self.convs = nn.ModuleList(nn.Conv2d(*stage.conv.weight.shape[1::-1], 3, 2, 1) for stage in stages)
        self.g = nn.ParameterList(stage.norm.weight.detach().clone() for stage in stages)
        self.o = nn.ParameterList(stage.norm.bias.detach().clone() for stage in stages)
        self.heads = nn.ModuleList(nn.Conv2d(width, 5, 1) for width in (4, 6))
        for conv, stage in zip(self.convs, stages, strict=True):
            conv.load_state_dict(stage.conv.state_dict())
        for conv, head in zip(self.heads, reference.heads, strict=True):
            w = head.proj.state_dict()
            conv.load_state_dict({"weight": w["weight"][:, :, None, None], "bias": w["bias"]})

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(())
        for conv, g, o, head in zip(self.convs, self.g, self.o, self.heads, strict=True):
            x = conv(x)
            apart = x - x.mean(1, keepdim=True)
            x = apart / (apart.square().mean(1, keepdim=True) + 1e-5).sqrt() * g[:, None, None] + o[:, None, None]
            total = total + head(x).mean((2, 3)).tanh()
        return total


def test_a_tensor_in_a_layout_that_it_had_before() -> None:
    torch.manual_seed(0)
    reference = Pyramid().eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 0.3 * torch.rand_like(parameter)
    report = parity.compare(reference, Maps(reference).eval(), (torch.randn(2, 3, 8, 12),))
    assert report.ok, str(report)
