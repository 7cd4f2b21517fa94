"""Names of sizes, modules, parameters and inputs that mean something to Python, to Cell or to the written source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from cellbridge.converter import from_torch, to_cell_source
from cellbridge.runtime import Program
from cellbridge.runtime import Tensor as CellTensor
from cellbridge.runtime.nn import Cell
from tests.converter.cell_source.writing import assert_port, network_of

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Positions(nn.Module):
    def forward(self, length: int) -> Tensor:
        return torch.arange(length).to(torch.float32)


class Sized(nn.Module):
    """Uses a size in sums, in a call that is given it, and within max."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = Positions()

    def forward(self, x: Tensor) -> Tensor:
        wide = torch.cat([x, x], 1).reshape(x.shape[1] * 2, -1)
        return x + self.positions(x.shape[1]) * max(x.shape[1], 3) + wide.sum()


@pytest.mark.parametrize(
    "name", ["self", "max", "min", "ops", "nn", "ms", "Tensor", "x", "range", "super", "roll", "n"]
)
@pytest.mark.every(12)
def test_sizes(name: str) -> None:
    assert_port(Sized(), X, dynamic_shapes=({1: Dim(name, min=2, max=16)},))


class Named(nn.Module):
    """A module and a parameter of one name, each used."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.inside = nn.Module()
        self.inside.register_parameter(name, nn.Parameter(torch.randn(4)))
        self.add_module(name, nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        self.register_buffer(f"{name}_", torch.randn(4))
        self.called = name

    def forward(self, x: Tensor) -> Tensor:
        scale = getattr(self.inside, self.called)
        return self._modules[self.called](x) * scale.tanh() + self._buffers[f"{self.called}_"]  # type: ignore[misc]


NAMES = [
    "construct", "bprop", "cells", "params", "cls_name", "_cells", "_params", "set_train", "parameters_dict", "append",
    "variant_0", "insert_child_to_cell", "self", "ops", "max", "class", "x y", "a-b", "0",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every(12)
def test_modules_parameters_and_buffers(name: str) -> None:
    network, _ = assert_port(Named(name), X)
    assert isinstance(network, Cell)


def test_names_that_mean_nothing_are_kept() -> None:
    source = to_cell_source(from_torch(Named("encoder"), (X,)))
    assert "self.encoder = nn.SequentialCell(" in source
    assert "self.encoder_ = Parameter(" in source
    assert "self.construct__2 = nn.SequentialCell(" in to_cell_source(from_torch(Named("construct"), (X,)))


def test_inputs_and_parameters_with_the_names_of_helpers() -> None:
    class Looked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Parameter(torch.randn(7, 4))

        def forward(self, embedding: Tensor, roll: Tensor) -> Any:
            rows = F.embedding(embedding, self.embedding, padding_idx=0)
            return rows.sum(0) * torch.roll(roll, 1, 1), rows

    assert_port(Looked(), torch.tensor([1, 2, 0]), X)


class Tied(nn.Module):
    def __init__(self, holder: Callable[[nn.Module, nn.Module], nn.Module]) -> None:
        super().__init__()
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        second.weight = first.weight
        self.net = holder(first, second)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.net if isinstance(self.net, nn.ModuleList) else [self.net]:
            x = part(x)
        return x * 2


HOLDERS: dict[str, Callable[[nn.Module, nn.Module], nn.Module]] = {
    "sequence": lambda a, b: nn.Sequential(a, nn.ReLU(), b),
    "list": lambda a, b: nn.ModuleList([a, b]),
    "nested": lambda a, b: nn.Sequential(nn.Sequential(a, b), nn.ReLU()),
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.every(2)
def test_parameters_shared_within_a_list_or_sequence(holder: Callable[[nn.Module, nn.Module], nn.Module]) -> None:
    network, _ = assert_port(Tied(holder), X)
    assert len(list(network.get_parameters())) == 3


# ---- programs of files, whose names are anything ----


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.p = nn.Parameter(torch.randn(4))
        self.register_buffer("q", torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)) * self.p + self.q


def _renamed(program: Program, parts: Mapping[str, str], aliases: Mapping[str, tuple[str, ...]]) -> Program:
    def renamed(path: str) -> str:
        return ".".join(parts.get(part, part) for part in path.split("."))

    root, *calls = program.calls
    return program.replace(
        calls=(root, *(dataclasses.replace(call, path=renamed(call.path)) for call in calls)),
        parameters={
            renamed(name): dataclasses.replace(parameter, aliases=aliases.get(name, ()))
            for name, parameter in program.parameters.items()
        },
        buffers={renamed(name): buffer for name, buffer in program.buffers.items()},
    )


@pytest.mark.parametrize("part", ["a", "b", "p", "q", "weight", "0"])
@pytest.mark.parametrize("name", ["", ".", "..", " ", "\n", "construct", '"'])
@pytest.mark.every(6)
def test_parts_of_paths(part: str, name: str) -> None:
    _assert_same(_renamed(from_torch(Net(), (X,)), {part: name}, {}))


@pytest.mark.parametrize("alias", ["", ".", "a", "a.other", "b.1.w", "zzz", "zzz.weight", "p", "b.0.weight", "a.bias"])
@pytest.mark.every(4)
def test_other_names_of_parameters(alias: str) -> None:
    program = from_torch(Net(), (X,))
    for name in program.parameters:
        _assert_same(_renamed(program, {}, {name: (alias, alias)}))


def test_a_parameter_with_the_name_of_a_module() -> None:
    _assert_same(_renamed(from_torch(Net(), (X,)), {"p": "a", "q": "b"}, {}))


def _assert_same(program: Program) -> None:
    """The written network gives what the program gives."""
    actual = network_of(program)(CellTensor(X.numpy()))
    np.testing.assert_allclose(actual.asnumpy(), program(X.numpy()), atol=1e-5)


@pytest.mark.parametrize("name", ["open", "print", "Exception"])
def test_a_class_with_the_name_of_a_builtin_gets_another(name: str) -> None:
    inner = type(name, (nn.Linear,), {"__module__": "network"})
    network = nn.Sequential(inner(4, 4), nn.ReLU(), type(name, (Sized,), {"__module__": "network"})())
    source = to_cell_source(from_torch(network, (X,)))
    assert f"class {name}(" not in source
    assert f"class {name}2(" in source
    assert_port(network, X)
