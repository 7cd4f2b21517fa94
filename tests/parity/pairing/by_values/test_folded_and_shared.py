"""Files in which equal nodes are merged across Cells, and tables are computed from weights: sound, and with a fault."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from cellbridge import converter, parity

from .networks import own_export, set_attribute, set_operator, stripped


class Conditioned(nn.Module):
    """A block that computes the activation of a condition for itself, as every other block does."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.shift = nn.LayerNorm(6), nn.Linear(4, 6)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        y: Tensor = self.norm(x) + self.shift(functional.silu(condition))
        return x + torch.tanh(y)


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(3, 4)
        self.blocks = nn.ModuleList(Conditioned() for _ in range(3))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        condition = self.time(time)
        for block in self.blocks:
            x = block(x, condition)
        return x


class Reader(nn.Module):
    """A Cell that projects its memory anew in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.state = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, state: Tensor, memory: Tensor) -> Tensor:
        y: Tensor = torch.tanh(self.memory(memory) + self.state(state)[:, None])
        return y.sum(1)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.read = nn.Linear(4, 4), Reader()

    def forward(self, state: Tensor, memory: Tensor) -> Tensor:
        memory = self.encode(memory)
        for _ in range(3):
            state = self.read(state, memory)
        return state


class Positions(nn.Module):
    """A table of biases, which doesn't depend on the input, and whose lookup an exporter computes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 1)

    def forward(self, length: int) -> Tensor:
        place = torch.arange(length)
        return self.table(place[:, None] - place[None] + 4)[..., 0]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return torch.softmax(self.query(x) @ self.key(x).mT + bias, -1) @ x


class Biased(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positions, self.layers = Positions(), nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        bias = self.positions(x.shape[1]) + torch.where(mask, 0.0, -1e4)[:, None]
        for layer in self.layers:
            x = layer(x, bias)
        return x


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return x + self.attention(x, bias)


class Scored(nn.Module):
    """Biases with a gradient, which a layer passes on to its attention."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.layers = nn.Linear(4, 1), nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        bias = self.score(x).mT
        for layer in self.layers:
            x = layer(x, bias)
        return x


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(4, 4)

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        return torch.softmax(self.score(x) + torch.tanh(read), -1)


class Coverage(nn.Module):
    """A sum that starts from zeros: the first sum equals its other operand, so its place in the file isn't clear."""

    def __init__(self) -> None:
        super().__init__()
        self.step = Step()

    def forward(self, x: Tensor) -> Tensor:
        read = torch.zeros_like(x)
        for _ in range(3):
            read = read + self.step(x, read)
        return read


class Decay(nn.Module):
    """Weights whose exponential an exporter computes: whole numbers, but for rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.log_a, self.project = nn.Parameter(torch.arange(1.0, 5.0).log()), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(functional.softplus(self.project(x)) * -torch.exp(self.log_a))


NETWORKS: dict[str, tuple[type[nn.Module], tuple[Tensor, ...]]] = {
    "condition": (Denoiser, (torch.randn(2, 6), torch.randn(2, 3))),
    "memory": (Decoder, (torch.randn(2, 4), torch.randn(2, 5, 4))),
    "biases": (Biased, (torch.randn(2, 5, 4), torch.arange(5) < torch.tensor([[3], [5]]))),
    "scores": (Scored, (torch.randn(2, 5, 4),)),
    "coverage": (Coverage, (torch.randn(2, 4),)),
    "decay": (Decay, (torch.randn(2, 4),)),
}


def export(name: str) -> tuple[nn.Module, tuple[Tensor, ...], onnx.ModelProto]:
    kind, args = NETWORKS[name]
    torch.manual_seed(0)
    module = kind().eval()
    return module, args, own_export(module, args)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.every(6)
def test_sound_files_hold(name: str) -> None:
    module, args, model = export(name)
    for form in (model, stripped(model)):
        report = parity.compare(module, form, args)
        assert report.ok, str(report)


def test_the_exporter_merges_and_computes_what_these_tests_are_about() -> None:
    operators = {name: [node.op_type for node in export(name)[2].graph.node] for name in NETWORKS}
    assert operators["condition"].count("Sigmoid") == 1
    assert operators["memory"].count("MatMul") == 2  # encode, and memory once; state is in three Gemm
    assert "Gather" not in operators["biases"]
    assert operators["decay"].count("Exp") == 1


def test_faults_in_such_files_are_placed() -> None:
    module, args, model = export("condition")
    set_attribute("LayerNormalization", 1, "epsilon", 1e-3)(model)
    assert parity.compare(module, model, args).failing == ["blocks.1.norm"]
    module, args, model = export("memory")
    set_operator("Tanh", 1, "Sigmoid")(model)
    assert parity.compare(module, model, args).failing == ["read"]
    module, args, model = export("decay")
    set_operator("Softplus", 0, "Relu")(model)
    assert parity.compare(module, model, args).failing == [""]


def test_a_gradient_that_an_inner_cell_stops_is_the_fault_of_that_cell_alone() -> None:
    module, args, model = export("scores")
    (added,) = [node for node in model.graph.node if node.name == "/layers/1/attention/Add"]
    added.op_type = "Identity"
    del added.input[1:]
    report = parity.compare(module, model, args)
    assert report.failing == ["layers.1.attention"]
    assert any(c.reason.startswith("no gradient arrives") for c in report.cells["layers.1.attention"].failures)


class Conditions(nn.Module):
    """Blocks that each compute the activation of one condition for themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleDict({"time": nn.Linear(4, 6), "out": nn.Linear(6, 6)}) for _ in range(3))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block["out"](x * block["time"](nn.functional.silu(time)))  # type: ignore[index]
        return x


@pytest.mark.slow
def test_equal_values_that_cells_compute_for_themselves_are_told_apart() -> None:
    module, args = Conditions(), (torch.randn(3, 6), torch.randn(3, 4))
    model = converter.to_onnx(converter.from_torch(module, args), optimize=False)
    report = parity.compare(module, model, args)
    assert report.ok, str(report)
    (weight,) = [
        initializer for initializer in model.graph.initializer if initializer.name.endswith("blocks.2.time.weight")
    ]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.1), weight.name))
    assert parity.compare(module, model, args).failing == ["blocks.2.time"]


class Block(nn.Module):
    """A convolution whose norm an exporter folds into it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return x + functional.relu(self.norm(self.conv(x)))


def test_between_two_files_what_is_folded_belongs_to_the_cell_that_uses_it() -> None:
    torch.manual_seed(0)
    module, args = nn.Sequential(Block(), Block()).eval(), (torch.randn(2, 3, 5, 5),)
    with torch.no_grad():
        module[1].norm.bias.add_(0.5)  # type: ignore[union-attr, operator]
    model = own_export(module, args)
    reference = converter.from_onnx(model)
    (bias,) = [initializer for initializer in model.graph.initializer if initializer.name.startswith("1.norm.bias")]
    bias.CopyFrom(numpy_helper.from_array(np.zeros(3, np.float32), bias.name))
    assert parity.compare(reference, converter.from_onnx(model), args).failing == ["1.conv"]


class Squeezed(nn.Module):
    """A map scaled by what a layer computes from its means, as in squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.squeeze, self.last = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.conv(x))
        scale = torch.sigmoid(self.squeeze(x.mean((2, 3))))[..., None, None]
        return self.last((scale * x).mean((2, 3)))  # type: ignore[no-any-return]


def test_gradients_that_meet_a_tensor_of_another_shape_are_no_fault() -> None:
    torch.manual_seed(0)
    module, args = Squeezed(), (torch.randn(2, 2, 5, 5),)
    model = own_export(module, args)
    set_attribute("Conv", 0, "pads", [0, 0, 1, 1])(model)
    assert parity.compare(module, model, args).failing == ["conv"]
