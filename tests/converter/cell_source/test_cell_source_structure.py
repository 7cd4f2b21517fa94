"""Networks whose modules share, vary, nest or are called in unusual ways; and what can't be written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter import from_torch, to_cell_checkpoint, to_cell_source
from cellbridge.runtime import Tensor as CellTensor
from cellbridge.runtime import load_checkpoint
from cellbridge.runtime.errors import UnsupportedOperators, UsageError
from cellbridge.runtime.ir.types import FLOAT32, Type
from cellbridge.runtime.ops.registry import get
from cellbridge.runtime.tracing import Builder
from tests.converter.cell_source.writing import assert_port, network_of
from tests.converter.programs import finish

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


def test_one_module_called_in_different_ways() -> None:
    """Each call is told which variant it is."""

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))

        def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
            return x * self.weight if shift is None else x * self.weight + shift

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = Scale()

        def forward(self, x: Tensor) -> Tensor:
            return self.scale(self.scale(x), x)

    assert "self.scale(self.scale(x, variant=0), x, variant=1)" in to_cell_source(from_torch(Twice(), (X,)))
    assert_port(Twice(), X)


def test_a_module_called_by_one_that_does_not_hold_it() -> None:
    class Part(nn.Module):
        def __init__(self, shared: nn.Module) -> None:
            super().__init__()
            self.own = nn.Linear(4, 4)
            self.known = [shared]

        def forward(self, x: Tensor) -> Tensor:
            return self.own(self.known[0](x))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = nn.Linear(4, 4)
            self.part = Part(self.shared)

        def forward(self, x: Tensor) -> Tensor:
            return self.shared(self.part(x))

    assert 'self.part.insert_child_to_cell("shared", self.shared)' in to_cell_source(from_torch(Whole(), (X,)))
    assert_port(Whole(), X)


def test_values_that_do_not_pass_through_the_arguments() -> None:
    """What the inner module takes from elsewhere is an argument; what is taken from it is returned."""

    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.seen = x * 2
            return x + self.context[0]

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            self.inner.context = [x.exp()]
            return self.inner(x * 3) + self.inner.seen

    source = to_cell_source(from_torch(Outer(), (X,)))
    assert "def construct(self, x, exp):" in source
    network, reference = network_of(from_torch(module := Outer(), (X,))), module(X)
    assert abs(network(CellTensor(X.numpy())).asnumpy() - reference.detach().numpy()).max() < 1e-6


def test_buffers_are_updated_in_training() -> None:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("unused", torch.zeros(9))

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                self.mean.mul_(0.5).add_(x.detach().mean(0))
            return x - self.mean

    source = to_cell_source(from_torch(Running(), (X,), train=True))
    assert "        if self.training:\n            ops.assign(self.mean, " in source
    assert "unused" not in source
    assert_port(Running(), X, train=True)


def test_frozen_and_shared_parameters() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    module[2].weight = module[0].weight
    module[0].bias.requires_grad_(False)
    network, _ = assert_port(module, X)
    assert [p.name for p in network.trainable_params()] == ["0.weight", "2.bias"]
    assert network[0].weight is network[2].weight


def test_names_that_are_no_attributes_of_python() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({"a-b": nn.Linear(4, 4), "a b": nn.Linear(4, 4)})
            self.scales = nn.ParameterList([torch.randn(4), torch.randn(4)])

        def forward(self, x: Tensor) -> Tensor:
            return self.parts["a-b"](x) * self.scales[0] + self.parts["a b"](x) * self.scales[1]

    assert_port(Named(), X)


def test_arguments_and_results_nest_as_the_original_s() -> None:
    class Nested(nn.Module):
        def forward(self, pair: Any, *, options: dict[str, Tensor], double: bool = False) -> Any:
            y = pair[0] - pair[1] + options["shift"]
            return {"y": y * 2 if double else y, "rest": [pair[0], (y,), None]}

    kwargs = {"options": {"shift": X + 1}, "double": True}
    source = to_cell_source(from_torch(Nested(), ((X, X * 2),), kwargs))
    assert "def construct(self, pair, options, double=True):" in source
    assert 'return {"y": y * 2.0, "rest": [pair_0, (y,), None]}' in source
    assert_port(Nested(), (X, X * 2), kwargs=kwargs)


def test_sizes_that_vary() -> None:
    """They are read off the arguments, or passed where no argument shows them."""

    class Positions(nn.Module):
        def forward(self, length: int) -> Tensor:
            return torch.arange(length).to(torch.float32)

    class Sized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = Positions()

        def forward(self, x: Tensor) -> Tensor:
            return (x + self.positions(x.shape[1])).T.reshape(-1)[: x.shape[1] - 1]

    program = from_torch(Sized(), (X,), dynamic_shapes=({1: torch.export.Dim("length", min=3, max=19)},))
    assert "self.positions(length)" in to_cell_source(program)
    longer = torch.randn(2, 9)
    result = network_of(program)(CellTensor(longer.numpy())).asnumpy()
    assert abs(result - Sized()(longer).numpy()).max() < 1e-6


def test_large_constants_are_in_the_checkpoint(tmp_path: Any) -> None:
    class Constants(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small, self.large = torch.arange(4.0), torch.randn(40, 4)

        def forward(self, x: Tensor) -> Tensor:
            return (x * self.small) @ self.large.T

    program = from_torch(module := Constants(), (X,))
    to_cell_checkpoint(program, tmp_path / "weights.safetensors")
    loaded = load_checkpoint(tmp_path / "weights.safetensors", format="safetensors")
    assert [p.shape for p in loaded.values()] == [(40, 4)]
    assert "Tensor([0.0, 1.0, 2.0, 3.0], ms.float32)" in to_cell_source(program)
    result = network_of(program)(CellTensor(X.numpy())).asnumpy()
    assert abs(result - module(X).numpy()).max() < 1e-5


def test_double_precision() -> None:
    network = network_of(from_torch(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double(), (X.double(),)))
    assert {p.dtype.name for p in network.get_parameters()} == {"float64"}


def test_what_has_no_form_is_one_error_that_names_all() -> None:
    builder = Builder()
    x = builder.new_value("x", Type(FLOAT32, (1, 2, 4)))
    y = get("adaptive_avg_pool_gradient")(get("resize_gradient")(x, size=(9,)), size=(20,))
    with pytest.raises(UnsupportedOperators, match="2 uses of ops without a form") as refusal:
        to_cell_source(finish(builder, [x], {}, y))
    assert [op for op, _, _ in refusal.value.operators] == [
        "resize_gradient (it occurs only in gradient programs)",
        "adaptive_avg_pool_gradient (it occurs only in gradient programs)",
    ]


def test_unknown_target() -> None:
    with pytest.raises(UsageError, match="target must be one of 'cellbridge', 'mindspore', given 'jax'"):
        to_cell_source(from_torch(nn.ReLU(), (X,)), target="jax")


class Rounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class StraightThrough(torch.nn.Module):
    def forward(self, x):
        return Rounding.apply(x)


def test_cells_whose_backward_was_written_by_hand_are_named() -> None:
    source = to_cell_source(from_torch(torch.nn.Sequential(StraightThrough()), (torch.randn(2, 3),)))
    assert "give these Cells a bprop:\n- StraightThrough\n" in source
