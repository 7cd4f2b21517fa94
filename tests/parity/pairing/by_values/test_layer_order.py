"""Layers that a port loads in another order, as `sorted` gives names with numbers in them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.pairing.by_values.layer_order import layer_orders
from cellbridge.parity.pairing.by_values.parameters import ModuleParameters
from cellbridge.parity.sides.torch_side import TorchSide

WIDTH, DEPTH = 5, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.linear(self.norm(x)))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Port(nn.Module):
    """Its layers are lists of a norm and a product; `reads` and `runs` have the order of loading and of computing."""

    def __init__(self, network: Network, reads: tuple[int, ...], runs: tuple[int, ...]) -> None:
        super().__init__()
        self.runs = runs
        self.stack = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(DEPTH))
        for layer, number in zip(self.stack, reads, strict=True):
            block = network.blocks[number]
            state = {f"{i}.{name}": p for i, part in enumerate(block.children()) for name, p in part.named_parameters()}
            layer.load_state_dict(state)

    def forward(self, states: Tensor) -> Tensor:
        for number in self.runs:
            states = self.stack[number](states).tanh() + states
        return states


def _pair(reads: tuple[int, ...], runs: tuple[int, ...]) -> tuple[Network, Port, tuple[Tensor]]:
    torch.manual_seed(0)
    network = Network()
    return network, Port(network, reads, runs), (torch.randn(2, WIDTH),)


def test_every_layer_with_the_weights_of_another_is_named() -> None:
    network, port, inputs = _pair((2, 0, 1), (0, 1, 2))
    report = parity.compare(network, port, inputs, probe=False)
    assert report.failing == [f"blocks.{i}.{name}" for i in range(DEPTH) for name in ("norm", "linear")]


@pytest.mark.slow
def test_only_layers_that_are_exchanged_are_named() -> None:
    network, port, inputs = _pair((0, 2, 1), (0, 1, 2))
    report = parity.compare(network, port, inputs, probe=False)
    assert report.failing == [f"blocks.{i}.{name}" for i in (1, 2) for name in ("norm", "linear")]


def test_layers_that_are_computed_in_another_order_have_their_own_weights() -> None:
    network, port, inputs = _pair((0, 1, 2), (0, 2, 1))
    program = TorchSide("candidate", port, inputs, {}).in_interpreter().program
    infos = TorchSide("reference", network, inputs, {}).parameters()
    assert not list(layer_orders(program, ModuleParameters(infos, [], ())))


def test_layers_in_their_order_are_no_other_order() -> None:
    network, port, inputs = _pair((0, 1, 2), (0, 1, 2))
    program = TorchSide("candidate", port, inputs, {}).in_interpreter().program
    infos = TorchSide("reference", network, inputs, {}).parameters()
    assert not list(layer_orders(program, ModuleParameters(infos, [], ())))


@pytest.mark.parametrize("ending", ["weight", "1.weight"])
def test_stacked_weights_are_reordered_where_they_are_in_another_order(ending: str) -> None:
    network, port, inputs = _pair((0, 1, 2), (0, 1, 2))
    program = TorchSide("candidate", port, inputs, {}).in_interpreter().program
    infos = TorchSide("reference", network, inputs, {}).parameters()
    stacked = {}
    for name, parameter in program.parameters.items():
        _, number, rest = name.split(".", 2)
        source = f"stack.{DEPTH - 1 - int(number)}.{rest}" if name.endswith(ending) else name
        stacked[f"{rest} part {number}"] = replace(parameter, data=program.parameters[source].data)
    (order,) = layer_orders(program.replace(parameters=stacked), ModuleParameters(infos, [], ()))
    changed = {name for name in infos if name.endswith(ending.replace("1", "linear")) and ".1." not in name}
    assert order.partners.keys() == changed
    assert len(order.arrays) == DEPTH * len({name.split(".", 2)[2] for name in changed})
