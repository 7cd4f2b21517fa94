"""The pairing of Cells and modules."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn as tnn

from cellbridge.parity.correspondence.cells import Pairing, pair_up
from cellbridge.runtime import nn
from cellbridge.runtime.errors import UsageError
from tests.parity.pairing.ports.ports import made


def module(**children: tnn.Module) -> tnn.Module:
    parent = tnn.Module()
    for name, child in children.items():
        parent.add_module(name, child)
    return parent


def cell(**children: nn.Cell) -> nn.Cell:
    parent = nn.Cell()
    for name, child in children.items():
        setattr(parent, name, child)
    return parent


def pairs(pairing: Pairing) -> dict[str, str]:
    return {pair.module: pair.cell for pair in pairing.pairs if pair.module}


def test_by_name_whatever_the_order() -> None:
    pairing = pair_up(module(a=tnn.Linear(2, 2), b=tnn.Linear(2, 2)), cell(b=nn.Dense(2, 2), a=nn.Dense(2, 2)))
    assert pairs(pairing) == {"a": "a", "b": "b"}
    assert {pair.how for pair in pairing.pairs} == {"root", "name"}


def test_by_class_and_shapes_where_names_differ() -> None:
    pairing = pair_up(
        module(first=tnn.Linear(2, 3), norm=tnn.LayerNorm(3), second=tnn.Linear(3, 4)),
        cell(fc2=nn.Dense(3, 4), ln=nn.LayerNorm((3,)), fc1=nn.Dense(2, 3)),
    )
    assert pairs(pairing) == {"first": "fc1", "norm": "ln", "second": "fc2"}


def test_by_order_among_equals() -> None:
    pairing = pair_up(
        module(a=tnn.Linear(2, 2), b=tnn.Linear(2, 2), c=tnn.Linear(2, 2)),
        cell(x=nn.Dense(2, 2), y=nn.Dense(2, 2), z=nn.Dense(2, 2)),
    )
    assert pairs(pairing) == {"a": "x", "b": "y", "c": "z"}


def test_positions_of_lists() -> None:
    pairing = pair_up(
        tnn.Sequential(tnn.Linear(2, 2), tnn.ReLU(), tnn.Linear(2, 2)),
        nn.SequentialCell(nn.Dense(2, 2), nn.ReLU(), nn.Dense(2, 2)),
    )
    assert pairs(pairing) == {"0": "0", "1": "1", "2": "2"}
    assert {pair.how for pair in pairing.pairs if pair.module} == {"position"}


def test_positions_mean_nothing_in_lists_of_other_lengths() -> None:
    pairing = pair_up(
        tnn.Sequential(tnn.Linear(2, 3), tnn.Dropout(), tnn.Linear(3, 4)),
        nn.SequentialCell(nn.Dense(2, 3), nn.Dense(3, 4)),
    )
    assert pairs(pairing) == {"0": "0", "2": "1"}
    assert pairing.lone_modules == {"1": "Dropout"}


def test_wrappers_are_opened() -> None:
    pairing = pair_up(
        module(features=tnn.Sequential(tnn.Conv2d(1, 2, 3), tnn.ReLU()), head=tnn.Linear(2, 2)),
        cell(conv=nn.Conv2d(1, 2, 3), act=nn.ReLU(), fc=nn.Dense(2, 2)),
    )
    assert pairs(pairing) == {"features.0": "conv", "features.1": "act", "head": "fc"}
    assert not pairing.lone_modules
    assert not pairing.lone_cells


def test_a_layer_of_another_class_between_the_same_neighbours() -> None:
    pairing = pair_up(
        module(a=tnn.Linear(2, 2), act=tnn.ReLU(), b=tnn.Linear(2, 2)),
        cell(x=nn.Dense(2, 2), gelu=nn.GELU(), y=nn.Dense(2, 2)),
    )
    assert pairs(pairing) == {"a": "x", "act": "gelu", "b": "y"}


def test_what_has_no_partner_is_told() -> None:
    pairing = pair_up(module(a=tnn.Linear(2, 2), s=tnn.Softmax(-1)), cell(a=nn.Dense(2, 2), n=nn.LayerNorm((2,))))
    assert pairing.lone_modules == {"s": "Softmax"}
    assert pairing.lone_cells == {"n": "LayerNorm"}


def test_as_given() -> None:
    reference, port = module(a=tnn.Linear(2, 2), b=tnn.Linear(2, 2)), cell(x=nn.Dense(2, 2), y=nn.Dense(2, 2))
    pairing = pair_up(reference, port, {"x": "b"})
    assert pairs(pairing) == {"a": "y", "b": "x"}
    assert {pair.module: pair.how for pair in pairing.pairs} == {"": "root", "a": "class and order", "b": "given"}


def test_a_block_given_brings_what_is_in_it() -> None:
    network, port, _ = made("decoder")
    pairing = pair_up(network, port, {"layers.0": "layers.1", "layers.1": "layers.0"})
    assert pairing.cell_of["layers.0.attention.key"] == "layers.1.attention.key"
    assert pairing.module_of["layers.0.gate"] == "layers.1.gate"


def test_a_star_stands_for_the_same_text_on_both_sides() -> None:
    network, port, _ = made("decoder")
    pairing = pair_up(network, port, {"layers.*.attention": "layers.*.attention", "layers.1": "layers.0"})
    assert {pair.module for pair in pairing.pairs if pair.how == "given"} == {
        "layers.0", "layers.0.attention", "layers.1.attention"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fc*x": "linear"}, "names 'fc*x', which no Cell matches"),
        ({"fc2": "fc"}, "there is no Cell at 'fc2'; did you mean 'fc'"),
        ({"fc": "line"}, "there is no module at 'line'; did you mean 'linear'"),
        ({"linear": "fc"}, "is the wrong way round: the path of the Cell comes first, cells={'fc': 'linear'}"),
        ({"fc": "linear", "norm": "linear"}, "pairs the module 'linear' with two Cells"),
        ({"": "linear"}, "the two networks themselves are a pair already"),
    ],
)
def test_errors(given: dict[str, str], message: str) -> None:
    reference, port = (
        module(linear=tnn.Linear(2, 2), n=tnn.LayerNorm(2)),
        cell(fc=nn.Dense(2, 2), norm=nn.LayerNorm((2,))),
    )
    with pytest.raises(UsageError) as raised:
        pair_up(reference, port, given)
    assert message in str(raised.value)


def test_a_shared_layer_is_there_once() -> None:
    fc: Any = nn.Dense(2, 2)
    linear = tnn.Linear(2, 2)
    pairing = pair_up(module(a=linear, b=linear), cell(a=fc, b=fc))
    assert pairs(pairing) == {"a": "a"}
    assert not pairing.lone_cells
