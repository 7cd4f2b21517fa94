"""An exception says in which Cell it was raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(3, 4)

    def construct(self, x: Any) -> Any:
        return self.fc(x)


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell([nn.ReLU(), Block()])
        self.spare = [nn.Dense(3, 2)]  # in no container: it has no name

    def construct(self, x: Any, spare: bool = False) -> Any:
        return self.spare[0](x) if spare else self.layers(x)


WRONG = Tensor(np.ones((2, 5), np.float32))


def notes(function: Any, *args: Any) -> list[str]:
    with pytest.raises(ValueError, match="x has 5 features") as raised:
        function(*args)
    return raised.value.__notes__


def test_the_path_of_the_cell_is_noted() -> None:
    assert notes(Network(), WRONG) == ["in the Cell Dense at 'layers.1.fc' in Network"]
    assert notes(Block(), WRONG) == ["in the Cell Dense at 'fc' in Block"]
    assert notes(nn.Dense(3, 4), WRONG) == ["in the Cell Dense"]


def test_also_while_a_gradient_is_computed_and_with_hooks() -> None:
    network = Network()
    network.layers.register_forward_hook(lambda *_: None)
    assert notes(ms.grad(network), WRONG) == ["in the Cell Dense at 'layers.1.fc' in Network"]


def test_a_cell_without_a_name_goes_by_its_class() -> None:
    assert notes(Network(), WRONG, True) == ["in the Cell Dense at 'Dense' in Network"]


def test_the_message_itself_stays() -> None:
    with pytest.raises(ValueError, match="x has 5 features") as raised:
        Network()(WRONG)
    assert str(raised.value).endswith("the weight takes 3")
