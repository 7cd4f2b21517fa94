"""What a network keeps between calls is seen, and put back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge.parity.sides.kept_state import KeptState, StateName
from cellbridge.runtime import Parameter, Tensor
from cellbridge.runtime.nn import Cell


class Owner(nn.Module):
    of_class: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("buffer", torch.zeros(3))
        self.inner = nn.Linear(2, 2)
        self.number, self.tensor, self.array = 1, torch.ones(2), np.ones(2)
        self.items, self.table, self.queue = [torch.ones(2)], {"a": [1]}, deque([1])
        self.plain = SimpleNamespace(count=0, tensors=[torch.ones(1)])
        self.names = {"a"}


class Port(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.moving = Parameter(np.zeros(3, np.float32), requires_grad=False)
        self.seen, self.last = 0, Tensor([1.0])


CHANGES: dict[str, Callable[[Any], object]] = {
    "of_class": lambda owner: owner.of_class.update(a=1),
    "buffer": lambda owner: owner.buffer.add_(1),
    "number": lambda owner: setattr(owner, "number", 2),
    "tensor": lambda owner: owner.tensor.mul_(3),
    "array": lambda owner: owner.array.fill(0),
    "items": lambda owner: owner.items.append(torch.zeros(1)),
    "table": lambda owner: owner.table["a"].append(2),
    "queue": lambda owner: owner.queue.appendleft(3),
    "plain": lambda owner: owner.plain.tensors[0].zero_(),
    "names": lambda owner: owner.names.add("b"),
    "fresh_of_class": lambda owner: setattr(type(owner), "fresh_of_class", 1),
    "fresh": lambda owner: setattr(owner, "fresh", 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_and_put_back(name: str) -> None:
    owner = Owner()
    state = KeptState([("", owner), ("inner", owner.inner)])
    assert not state.changed()
    CHANGES[name](owner)
    assert list(state.changed()) == [StateName("", name)]
    state.restore([StateName("", "inner"), StateName("", name)])
    assert not state.changed()
    CHANGES[name](owner)  # the copy is none of what was put back
    assert list(state.changed()) == [StateName("", name)]
    state.restore([StateName("", name)])
    assert not state.changed()


def test_numbers_have_their_value() -> None:
    owner = Owner()
    state = KeptState([("a.b", owner)])
    owner.number, owner.tensor = 5, torch.zeros(2)
    assert state.changed() == {("a.b", "number"): 5, ("a.b", "tensor"): None}


def test_cells_keep_attributes_and_parameters() -> None:
    cell = Port()
    state = KeptState(cell.cells_and_names())
    cell.seen, cell.last = 1, Tensor([2.0])
    cell.moving.set_data(Tensor(np.ones(3, np.float32)))
    assert {name.name for name in state.changed()} == {"seen", "last", "moving"}
    state.restore([StateName("", "moving"), StateName("", "last")])
    assert state.changed() == {("", "seen"): 1}
    assert not cell.moving.asnumpy().any()
