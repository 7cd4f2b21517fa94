"""Networks to plant faults in, and how to plant them in a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cellbridge.runtime.ir.program import Program


class Mixed(nn.Module):
    """images [batch, 3, 6, 6] to scores [batch, 4, 6, 3]: one Cell for each of several ops, two GELUs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.act1 = nn.GELU()
        self.norm = nn.LayerNorm(6)
        self.act2 = nn.GELU()
        self.softmax = nn.Softmax(-1)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act1(self.bn(self.conv(x)))
        return self.head(self.softmax(self.act2(self.norm(y))) + 0.5 * y)


def mixed(seed: int = 0) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A `Mixed` in eval mode with statistics and affine parameters that aren't the defaults; its arguments."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, x = Mixed(), torch.randn(2, 3, 6, 6)
        for norm in (module.bn, module.norm):
            nn.init.normal_(norm.weight, 1.0, 0.1)
            nn.init.normal_(norm.bias, 0.0, 0.1)
        module(x)
    return module.eval(), (x,)


def with_attributes(
    program: Program, op: str, change: Callable[[dict[str, Any]], dict[str, Any]], which: int = 0
) -> Program:
    """The program with other attributes at one node of `op`, the `which`-th."""
    node = [node for node in program.nodes if node.op == op][which]
    assert change(dict(node.attributes)) != dict(node.attributes)
    changed = replace(node, attributes=change(dict(node.attributes)))
    return program.replace(nodes=tuple(changed if n is node else n for n in program.nodes))


def with_constant(program: Program, value: float, new_value: float) -> Program:
    """The program with its only constant `value` replaced by `new_value`."""
    places = [i for i, c in enumerate(program.constants) if c.data.size == 1 and float(c.data) == value]
    assert len(places) == 1, f"{len(places)} constants {value}"
    constants = list(program.constants)
    constant = constants[places[0]]
    constants[places[0]] = replace(constant, data=np.full_like(constant.data, new_value))
    return program.replace(constants=tuple(constants))
