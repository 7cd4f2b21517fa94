"""`weights={...}`: every form, patterns, classes, conversion of gradients, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cellbridge.parity import assert_parity
from cellbridge.parity.correspondence.cells import pair_up
from cellbridge.parity.weights.arrangements import Axes, UserFunction
from cellbridge.parity.weights.mapping import Weights, carry
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.errors import UsageError


class Row(torch.nn.Module):
    """A Dense layer whose weight is (in, out)."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.rand(4, 4))
        self.shift = torch.nn.Parameter(torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.kernel + self.shift


class Rows(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Row(), Row()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class RowsCell(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.CellList([nn.Dense(4, 4), nn.Dense(4, 4)])

    def construct(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


X = (torch.randn(3, 4),)


def carried(given: Any, module: torch.nn.Module | None = None, cell: Any = None) -> Weights:
    module, cell = module or Rows(), cell or RowsCell()
    return carry(module, cell, pair_up(module, cell), given)


WAYS = {"word": "transpose", "tuple": (1, 0), "list": [1, 0], "function": np.transpose, "lambda": lambda w: w.T}


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_a_pattern_and_each_way_to_transpose(how: Any) -> None:
    given = {"blocks.*.weight": ("layers.*.kernel", how), "blocks.*.bias": "layers.*.shift"}
    assert assert_parity(Rows(), RowsCell(), X, weights=given).ok


def test_a_function_of_all() -> None:
    given: dict[Any, Any] = {f"blocks.{i}.weight": lambda w, i=i: w[f"layers.{i}.kernel"].T for i in range(2)}
    given |= {f"blocks.{i}.bias": lambda w, i=i: w[f"layers.{i}.shift"] for i in range(2)}
    assert assert_parity(Rows(), RowsCell(), X, weights=given).ok


def test_a_class() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))

    class Turned(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.matrix, self.bias = (Parameter(Tensor(np.zeros(shape, np.float32))) for shape in ((4, 4), (4,)))

        def construct(self, x: Any) -> Any:
            return ops.matmul(x, self.matrix) + self.bias

    cell = nn.SequentialCell([Turned(), nn.ReLU(), Turned()])
    given = {Turned: {"matrix": ("weight", "transpose")}}
    assert assert_parity(module, cell, X, weights=given, cells={"0": "0", "2": "2"}).ok


@pytest.mark.parametrize("value", [0.5, np.full((4,), 0.5), torch.full((4,), 0.5), Tensor(np.full((4,), 0.5))])
def test_a_value(value: Any) -> None:
    given = {"blocks.*.weight": "layers.*.kernel", "blocks.*.bias": value}
    weights = carried(given)
    values = {entry.path: weights.value(entry) for entry in weights.entries}
    np.testing.assert_array_equal(values["blocks.1.bias"], np.full((4,), 0.5))
    assert {mismatch.name for mismatch in weights.mismatches} == {
        "layers.0.shift",
        "layers.1.shift",
    }  # now without partner


def test_a_function_that_computes_has_no_way_back() -> None:
    """The values are carried over; that the gradient can't be compared is said."""
    weights = carried({"blocks.*.weight": ("layers.*.kernel", lambda w: 2 * w), "blocks.*.bias": "layers.*.shift"})
    assert weights.unseen == {"layers.0.kernel", "layers.1.kernel"}
    np.testing.assert_array_equal(weights.value(weights.entries[0]), 2 * weights.arrays["layers.0.kernel"])


REFUSED: list[tuple[Any, str]] = [
    (
        {"blocks.0.wieght": "layers.0.kernel"},
        "the Cell has no Parameter 'blocks.0.wieght'; did you mean 'blocks.0.weight'",
    ),
    (
        {"blocks.0.weight": "layers.0.kernal"},
        "has no parameter or buffer 'layers.0.kernal'; did you mean 'layers.0.kern",
    ),
    ({"layers.0.kernel": "blocks.0.weight"}, "is the wrong way round: the Cell's Parameter comes first"),
    ({"blocks.*.weight": "layers.*.*"}, "has more `*` than 'blocks.*.weight'"),
    ({"blocks.0.weight": "layers.0.shift"}, "gives shape [4], the Parameter has [4, 4]"),
    (
        {"blocks.0.weight": ("layers.0.kernel", "turn")},
        "needed 'transpose' (of two or more axes), an order of the axes",
    ),
    (
        {"blocks.0.weight": ("layers.0.kernel", (0, 2))},
        "needed 'transpose' (of two or more axes), an order of the axes",
    ),
    ({"blocks.0.bias": ("layers.0.shift", "transpose")}, "layers.0.shift has shape [4]"),
    ({"blocks.0.weight": None}, "needed a name, a pair of a name and 'transpose'"),
    ({"blocks.0.weight": lambda w: w["layers.0.kernl"]}, "a function asks for 'layers.0.kernl'"),
    ({3: "layers.0.kernel"}, "a key is the path of a Parameter or a class of Cells, given 3"),
    ({nn.Conv2d: {"weight": "kernel"}}, "no Cell of class Conv2d"),
    ({nn.Dense: "kernel"}, "needed a dict by the names of its Parameters, given 'kernel'"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_refused(given: Any, message: str) -> None:
    module = torch.nn.Module()
    module.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])
    for layer in module.layers:
        layer.kernel, layer.shift = torch.nn.Parameter(torch.rand(4, 4)), torch.nn.Parameter(torch.rand(4))
    with pytest.raises(UsageError) as error:
        carried(given, module)
    assert message in str(error.value)


# --- the way back is the inverse ---------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 4), max_size=4), st.data())
def test_the_way_back_of_axes(shape: list[int], data: st.DataObject) -> None:
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)
    arrangement = Axes("w", tuple(shape), data.draw(st.sampled_from([None, axes])))
    cell_arrays = arrangement.to_cell({"w": array})
    np.testing.assert_array_equal(arrangement.to_module(cell_arrays)["w"], array)
    by_function = UserFunction(lambda arrays: arrangement.to_cell(arrays), {"w": tuple(shape)})
    np.testing.assert_array_equal(by_function.to_cell({"w": array}), cell_arrays)
    np.testing.assert_array_equal(by_function.to_module(cell_arrays)["w"], array)


def test_the_way_back_of_several_in_one() -> None:
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(2, 3)) for name in "qkv"}
    joined = UserFunction(lambda w: np.concatenate([w["q"], w["k"], w["v"]]), dict.fromkeys("qkvx", (2, 3)))
    assert joined.sources == ("q", "k", "v")
    back = joined.to_module(joined.to_cell(arrays))
    assert set(back) == set("qkv")
    assert all(np.array_equal(back[name], arrays[name]) for name in "qkv")


@pytest.mark.parametrize(
    "function",
    [lambda w: 2 * w, lambda w: w + w.T, lambda w: w - w.mean(), lambda w: np.where(w > 4, w, 0), lambda w: w * w],
)
def test_what_computes_has_no_way_back(function: Any) -> None:
    computed = UserFunction(lambda arrays: function(arrays["w"]), {"w": (3, 3)})
    assert computed.to_module(np.ones((3, 3))) == {}
