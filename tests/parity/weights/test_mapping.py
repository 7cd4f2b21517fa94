"""The mapping of a whole network: user's blocks, ties, matrices, ambiguities; values and gradients."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.parity import assert_parity, compare
from cellbridge.parity.correspondence.cells import pair_up
from cellbridge.parity.weights.mapping import Weights, carry
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.errors import UsageError

X = (torch.randn(3, 4),)


def carried(module: torch.nn.Module, cell: Any, weights: Any = None) -> Weights:
    return carry(module, cell, pair_up(module, cell), weights)


def words(weights: Weights) -> dict[str, tuple[str, str]]:
    return {entry.path: (entry.source, entry.how) for entry in weights.entries}


def zeros(*shape: int) -> Parameter:
    return Parameter(Tensor(np.zeros(shape, np.float32)))


class Scaled(torch.nn.Module):
    """A block with parameters of its own, a buffer and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.rand(4))
        self.mix = torch.nn.Parameter(torch.rand(4, 4))
        self.gain = torch.nn.Parameter(torch.rand(()))
        self.register_buffer("offset", torch.rand(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) @ self.mix * self.scale * self.gain + self.offset


class ScaledCell(nn.Cell):
    def __init__(self, mix: str = "mix", scale: str = "scale") -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.names = mix, scale
        setattr(self, scale, zeros(4))
        setattr(self, mix, zeros(4, 4))
        self.gain = zeros()
        self.offset = Parameter(Tensor(np.zeros((1, 4), np.float32)), requires_grad=False)

    def construct(self, x: Any) -> Any:
        mix, scale = (getattr(self, name) for name in self.names)
        return ops.matmul(self.fc(x), mix) * scale * self.gain + self.offset


def test_own_parameters_by_name() -> None:
    weights = carried(Scaled(), ScaledCell())
    assert words(weights) == {
        "scale": ("scale", "name"),
        "mix": ("mix", "name"),
        "gain": ("gain", "name"),
        "offset": ("offset", "name"),
        "fc.weight": ("fc.weight", "layer"),
        "fc.bias": ("fc.bias", "layer"),
    }
    assert assert_parity(Scaled(), ScaledCell(), X).ok


def test_own_parameters_by_the_only_shape() -> None:
    weights = carried(Scaled(), ScaledCell("blend", "factor"))
    assert words(weights)["blend"] == ("mix", "shape")
    assert words(weights)["factor"] == ("scale", "shape")
    assert assert_parity(Scaled(), ScaledCell("blend", "factor"), X).ok


def test_a_square_matrix_of_a_block_is_never_transposed() -> None:
    """It is used unchanged; if that is wrong, the report fails with a hint."""

    class Transposing(ScaledCell):
        def construct(self, x: Any) -> Any:
            return ops.matmul(self.fc(x), self.mix.T) * self.scale * self.gain + self.offset

    report = compare(Scaled(), Transposing(), X)
    assert report.failing == [""]
    explanations = " ".join(report.cells[""].explanations)
    assert "weights={'mix': ('mix', 'transpose')}" in explanations
    assert assert_parity(Scaled(), Transposing(), X, weights={"mix": ("mix", "transpose")}).ok


def test_a_dense_layer_s_square_weight_is_not_in_doubt() -> None:
    entries = {entry.path: entry.square for entry in carried(Scaled(), ScaledCell()).entries}
    assert entries == dict.fromkeys(entries, False) | {"mix": True}


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class ProductCell(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = zeros(5, 4)

    def construct(self, x: Any) -> Any:
        return ops.matmul(x, self.weight.T)


def test_a_transposed_shape_is_asked_for() -> None:
    needed = re.escape(
        "weights={'weight': ('weight', 'transpose')}; for all Cells of this class: weights={ProductCell:"
    )
    with pytest.raises(UsageError, match=needed):
        carried(Product(), ProductCell())
    for weights in ({"weight": ("weight", "transpose")}, {ProductCell: {"weight": ("weight", "transpose")}}):
        assert assert_parity(Product(), ProductCell(), X, weights=weights).ok


def test_several_of_one_shape_are_asked_for() -> None:
    module, cell = torch.nn.Module(), nn.Cell()
    for name in ("first", "second"):
        module.register_parameter(name, torch.nn.Parameter(torch.rand(2, 3)))
    cell.one, cell.two = zeros(2, 3), zeros(3, 2)
    with pytest.raises(UsageError) as error:
        carried(module, cell)
    text = str(error.value)
    assert "of the module: first [2, 3], second [2, 3]" in text
    assert "of the Cell:   one [2, 3], two [3, 2]" in text
    proposed = eval(text[text.index("weights={") + len("weights=") :])
    assert proposed == {"one": "first", "two": ("second", "transpose")}
    assert {how for _, how in words(carried(module, cell, proposed)).values()} == {"given"}


class Attention(nn.Cell):
    """Self-attention with a layer for each of query, key and value."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out_proj = (nn.Dense(4, 4) for _ in range(4))


def test_one_parameter_there_and_three_here() -> None:
    module, cell = torch.nn.MultiheadAttention(4, 2), Attention()
    with pytest.raises(UsageError) as error:
        carried(module, cell)
    text = str(error.value)
    proposed = eval(text[text.index("weights={") + len("weights=") :])
    weights = carried(module, cell, proposed)
    parts = {entry.path: entry for entry in weights.entries}
    values = [weights.value(parts[f"{name}.weight"]) for name in "qkv"]
    np.testing.assert_array_equal(np.concatenate(values), module.in_proj_weight.detach().numpy())
    assert weights.mismatches == []
    gradients: dict[int, Any] = {id(e.parameter): np.random.rand(*e.parameter.shape) for e in parts.values()}
    module_gradients = weights.to_module(gradients)
    for kind in ("weight", "bias"):
        expected = [gradients[id(parts[f"{name}.{kind}"].parameter)] for name in "qkv"]
        np.testing.assert_array_equal(module_gradients[f"in_proj_{kind}"], np.concatenate(expected))


def test_a_parameter_used_in_part_is_said() -> None:
    module, cell = torch.nn.Linear(4, 6), nn.Dense(4, 3)
    given = {"weight": ("weight", lambda w: w[:3]), "bias": ("bias", lambda b: b[:3])}
    weights = carried(module, cell, given)
    assert weights.mismatches == []
    assert dict(weights.differences) == {
        name: f"{name} of the reference has 6 {kind}: {kind} 0 to 2 are in the candidate ({name}), {kind} 3 to 5 aren't"
        for name, kind in {"weight": "rows", "bias": "elements"}.items()
    }


def test_parameters_left_on_one_side_are_faults() -> None:
    more, fewer = ScaledCell(), ScaledCell()
    more.extra = zeros(7)
    del fewer.gain
    (mismatch,) = carried(Scaled(), more).mismatches
    assert (mismatch.name, mismatch.shape) == ("extra", (7,))
    (mismatch,) = carried(Scaled(), fewer).mismatches
    assert (mismatch.name, mismatch.reason) == ("gain", "the Cell has no such Parameter")
    frozen = ScaledCell()
    frozen.extra = Parameter(Tensor(np.zeros(7, np.float32)), requires_grad=False)
    assert carried(Scaled(), frozen).mismatches == []  # a constant of the Cell's own


# --- ties ----------------------------------------------------------------------------------------------------------


class Tied(torch.nn.Module):
    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.tok = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        if tied:
            self.head.weight = self.tok.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.tok(ids)))


class TiedCell(nn.Cell):
    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.tok = nn.Embedding(7, 4)
        self.head = nn.Dense(4, 7, has_bias=False)
        if tied:
            self.head.weight = self.tok.embedding_table

    def construct(self, ids: Any) -> Any:
        return self.head(ops.tanh(self.tok(ids)))


IDS = (torch.tensor([[1, 2], [1, 6]]),)


@pytest.mark.parametrize("tied", [True, False])
def test_tied_as_there(tied: bool) -> None:
    """The gradient of a tied weight is the sum of those of its uses."""
    assert assert_parity(Tied(tied), TiedCell(tied), IDS).ok


def test_tied_there_only() -> None:
    (mismatch,) = carried(Tied(), TiedCell(False)).mismatches
    assert (
        mismatch.reason
        == "shared in the module, but separate Parameters in the Cell (tok.embedding_table, head.weight)"
    )


def test_tied_here_only() -> None:
    (mismatch,) = carried(Tied(False), TiedCell()).mismatches
    assert "one Parameter shared by tok.embedding_table, head.weight; the module has several" in mismatch.reason


# --- dtypes, flags ---------------------------------------------------------------------------------------------------


def test_values_are_rounded_to_the_working_dtype_once() -> None:
    module, cell = torch.nn.Linear(4, 3).double(), nn.Dense(4, 3)
    weights = carry(module, cell, pair_up(module, cell), None, torch.bfloat16)
    assert {array.dtype.name for array in weights.arrays.values()} == {"bfloat16"}
    np.testing.assert_array_equal(
        weights.arrays["weight"].astype(np.float32), module.weight.detach().bfloat16().float().numpy()
    )


def test_counters_are_ignored() -> None:
    module, cell = torch.nn.BatchNorm2d(4), nn.BatchNorm2d(4)
    assert carried(module, cell).ignored == {"num_batches_tracked"}


def test_nothing_is_changed() -> None:
    module, cell = Scaled(), ScaledCell()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    carried(module, cell)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert not cell.scale.asnumpy().any()
