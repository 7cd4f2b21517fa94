"""Every layer with parameters: their mapping, and equal outputs and gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from cellbridge.parity import assert_parity
from cellbridge.parity.correspondence.cells import pair_up
from cellbridge.parity.weights.mapping import Weights, carry
from cellbridge.runtime import nn

NORM = {"gamma": "weight", "beta": "bias"}
BATCH_NORM = {"moving_mean": "running_mean", "moving_variance": "running_var", **NORM}
NO_AFFINE = {"gamma": "1: the module has none", "beta": "0: the module has none"}
NO_STATISTICS = {"moving_mean": "0: the module has none", "moving_variance": "1: the module has none"}
ATTENTION = {n: n for n in ("in_proj_bias", "out_proj.weight", "out_proj.bias")}
SAME = {"weight": "weight", "bias": "bias"}
IDS = torch.tensor([[1, 2], [3, 6]])


def recurrent(*suffixes: str) -> dict[str, str]:
    names = [f"{stem}_{suffix}" for stem in ("weight_ih", "weight_hh", "bias_ih", "bias_hh") for suffix in suffixes]
    return {name: name for name in names}


@dataclass(frozen=True)
class Case:
    name: str
    module: torch.nn.Module
    cell: Any
    args: tuple[torch.Tensor, ...]
    carried: dict[str, str] = field(default_factory=lambda: dict(SAME))


def conv(name: str, module: torch.nn.Module, cell: Any, weight: str, *sizes: int) -> Case:
    return Case(name, module, cell, (torch.randn(2, 4, *sizes),), {"weight": weight, "bias": "bias"})


def norm(name: str, module: torch.nn.Module, cell: Any, carried: dict[str, str], *sizes: int) -> Case:
    return Case(name, module, cell, (torch.randn(5, *(sizes or (4, 3, 3))),), carried)


ROOMY: dict[str, Any] = {"pad_mode": "valid", "has_bias": True}
CASES = [
    conv("conv1d", torch.nn.Conv1d(4, 6, 3), nn.Conv1d(4, 6, 3, **ROOMY), "weight, as (6, 4, 1, 3)", 9),
    conv("conv1d of 1", torch.nn.Conv1d(4, 4, 1), nn.Conv1d(4, 4, 1, **ROOMY), "weight, as (4, 4, 1, 1)", 9),
    conv("conv2d", torch.nn.Conv2d(4, 4, (3, 2)), nn.Conv2d(4, 4, (3, 2), **ROOMY), "weight", 9, 8),
    conv("grouped", torch.nn.Conv2d(4, 8, 3, groups=4), nn.Conv2d(4, 8, 3, group=4, **ROOMY), "weight", 9, 8),
    conv("conv3d", torch.nn.Conv3d(4, 6, 3), nn.Conv3d(4, 6, 3, **ROOMY), "weight", 5, 4, 5),
    conv(
        "conv1d transposed",
        torch.nn.ConvTranspose1d(4, 6, 3, groups=2),
        nn.Conv1dTranspose(4, 6, 3, group=2, **ROOMY),
        "weight, as (4, 3, 1, 3)",
        9,
    ),
    conv("conv2d transposed", torch.nn.ConvTranspose2d(4, 6, 3), nn.Conv2dTranspose(4, 6, 3, **ROOMY), "weight", 5, 4),
    conv("square transposed", torch.nn.ConvTranspose2d(4, 4, 3), nn.Conv2dTranspose(4, 4, 3, **ROOMY), "weight", 5, 4),
    conv(
        "conv3d transposed", torch.nn.ConvTranspose3d(4, 6, 3), nn.Conv3dTranspose(4, 6, 3, **ROOMY), "weight", 3, 2, 3
    ),
    Case("dense", torch.nn.Linear(4, 3), nn.Dense(4, 3), (torch.randn(2, 4),)),
    Case("square dense", torch.nn.Linear(4, 4), nn.Dense(4, 4), (torch.randn(2, 4),)),
    Case(
        "dense, no bias", torch.nn.Linear(4, 4, bias=False), nn.Dense(4, 4, has_bias=False), (torch.randn(2, 4),),
        {"weight": "weight"},
    ),
    norm("batch norm 1d", torch.nn.BatchNorm1d(4), nn.BatchNorm1d(4), BATCH_NORM, 4),
    norm("batch norm 2d", torch.nn.BatchNorm2d(4), nn.BatchNorm2d(4), BATCH_NORM),
    norm(
        "batch norm 3d", torch.nn.BatchNorm3d(4), nn.BatchNorm3d(4), {f"bn2d.{n}": o for n, o in BATCH_NORM.items()},
        4, 3, 3, 2,
    ),
    norm(
        "not affine", torch.nn.BatchNorm2d(4, affine=False), nn.BatchNorm2d(4, affine=False), BATCH_NORM | NO_AFFINE
    ),
    norm(
        "no statistics",
        torch.nn.BatchNorm2d(4, track_running_stats=False),
        nn.BatchNorm2d(4, use_batch_statistics=True),
        NO_STATISTICS | NORM,
    ),
    norm("layer norm", torch.nn.LayerNorm(3), nn.LayerNorm((3,), epsilon=1e-5), NORM),
    norm("layer norm of 2", torch.nn.LayerNorm((3, 3)), nn.LayerNorm((3, 3), -2, -2, epsilon=1e-5), NORM),
    norm("group norm", torch.nn.GroupNorm(2, 4), nn.GroupNorm(2, 4), NORM),
    norm("group norm, not affine", torch.nn.GroupNorm(2, 4, affine=False), nn.GroupNorm(2, 4, affine=False), NO_AFFINE),
    norm("instance norm", torch.nn.InstanceNorm2d(4, affine=True), nn.InstanceNorm2d(4), NO_STATISTICS | NORM),
    norm("instance norm 1d", torch.nn.InstanceNorm1d(4, affine=True), nn.InstanceNorm1d(4), NO_STATISTICS | NORM, 4, 3),
    norm(
        "instance norm, not affine", torch.nn.InstanceNorm2d(4), nn.InstanceNorm2d(4, affine=False),
        NO_STATISTICS | NO_AFFINE,
    ),
    Case("embedding", torch.nn.Embedding(7, 4), nn.Embedding(7, 4), (IDS,), {"embedding_table": "weight"}),
    Case("square table", torch.nn.Embedding(7, 7), nn.Embedding(7, 7), (IDS,), {"embedding_table": "weight"}),
    Case("lookup", torch.nn.Embedding(7, 4), nn.EmbeddingLookup(7, 4), (IDS,), {"embedding_table": "weight"}),
    Case("lstm", torch.nn.LSTM(4, 4), nn.LSTM(4, 4), (torch.randn(5, 2, 4),), recurrent("l0")),
    Case(
        "deep lstm",
        torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True),
        nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True),
        (torch.randn(2, 5, 3),),
        recurrent("l0", "l0_reverse", "l1", "l1_reverse"),
    ),
    Case(
        "lstm, no bias", torch.nn.LSTM(3, 4, bias=False), nn.LSTM(3, 4, has_bias=False), (torch.randn(5, 2, 3),),
        {"weight_ih_l0": "weight_ih_l0", "weight_hh_l0": "weight_hh_l0"},
    ),
    Case("gru", torch.nn.GRU(3, 4), nn.GRU(3, 4), (torch.randn(5, 2, 3),), recurrent("l0")),
    Case("rnn", torch.nn.RNN(3, 4), nn.RNN(3, 4), (torch.randn(5, 2, 3),), recurrent("l0")),
    Case(
        "gru cell", torch.nn.GRUCell(4, 4), nn.GRUCell(4, 4), (torch.randn(2, 4), torch.randn(2, 4)),
        {n.removesuffix("_"): n.removesuffix("_") for n in recurrent("")},
    ),
    Case(
        "bilinear", torch.nn.Bilinear(4, 4, 3), nn.BiDense(4, 4, 3), (torch.randn(2, 4), torch.randn(2, 4)),
    ),
    Case(
        "attention", torch.nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2), (torch.randn(3, 2, 8),) * 3,
        ATTENTION | {"in_proj_weight": "in_proj_weight"},
    ),
    Case(
        "attention of other sizes",
        torch.nn.MultiheadAttention(8, 2, add_bias_kv=True, kdim=8, vdim=4),
        nn.MultiheadAttention(8, 2, add_bias_kv=True, kdim=8, vdim=4),
        (torch.randn(3, 2, 8), torch.randn(3, 2, 8), torch.randn(3, 2, 4)),
        ATTENTION | {n: n for n in ("q_proj_weight", "k_proj_weight", "v_proj_weight", "bias_k", "bias_v")},
    ),
    Case("prelu", torch.nn.PReLU(4), nn.PReLU(4), (torch.randn(2, 4),), {"w": "weight"}),
]  # fmt: skip


def randomized(module: torch.nn.Module) -> torch.nn.Module:
    """With values that show an exchange of any two of its parameters or axes."""
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand_like(tensor) + 0.2)
    return module


def words(weights: Weights) -> dict[str, str]:
    return {entry.path: entry.source for entry in weights.entries}


@pytest.mark.every(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_layer(case: Case) -> None:
    module = randomized(case.module)
    weights = carry(module, case.cell, pair_up(module, case.cell))
    assert words(weights) == case.carried
    assert {entry.how for entry in weights.entries} <= {"layer", "absent there"}
    assert weights.mismatches == []
    assert assert_parity(module, case.cell, case.args).ok


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_layer_inside_others(case: Case) -> None:
    """The same by the paths of the layer, under another name on each side."""
    module, cell = torch.nn.Module(), nn.Cell()
    module.block = torch.nn.Sequential(torch.nn.ReLU(), randomized(case.module))
    cell.inner = nn.SequentialCell([nn.ReLU(), case.cell])
    weights = carry(module, cell, pair_up(module, cell))
    sources = {
        name: source if "module has none" in source else f"block.1.{source}" for name, source in case.carried.items()
    }
    assert words(weights) == {f"inner.1.{name}": source for name, source in sources.items()}


def test_every_layer_with_parameters_is_tried() -> None:
    """A layer that gains Parameters of its own, or is new, needs a row above."""
    alike = {nn.LSTMCell, nn.RNNCell, nn.Linear, nn.SyncBatchNorm, nn.InstanceNorm3d}
    tried = {type(case.cell) for case in CASES} | alike
    untried = []
    for layer in map(vars(nn).__getitem__, nn.__all__):
        if not isinstance(layer, type) or ".nn.layer." not in layer.__module__ or layer in tried:
            continue
        for args in ((), (4,), (4, 4), (4, 4, 3)):
            try:
                made = layer(*args)
            except (TypeError, ValueError):
                continue
            untried += [layer.__name__] if list(made.get_parameters(expand=False)) else []
            break
    assert untried == []


def test_trained_here_and_absent_there_is_a_fault() -> None:
    module = torch.nn.LayerNorm(4, bias=False)
    cell = nn.LayerNorm((4,), epsilon=1e-5)
    (mismatch,) = carry(module, cell, pair_up(module, cell)).mismatches
    assert (mismatch.name, mismatch.shape) == ("beta", (4,))
    assert "freeze it" in mismatch.reason
    cell.beta.requires_grad = False
    assert assert_parity(module, cell, (torch.randn(2, 4),)).ok


def test_a_kernel_of_another_size_is_a_fault_of_its_layer() -> None:
    module, cell = torch.nn.Conv1d(4, 6, 3), nn.Conv1d(4, 6, 2, has_bias=True)
    (mismatch,) = carry(module, cell, pair_up(module, cell)).mismatches
    assert mismatch.reason == "shape [6, 4, 1, 2] in the Cell (weight), needed [6, 4, 3]"


def test_a_dense_layer_whose_class_keeps_the_transpose() -> None:
    """Known from the class, so that a square weight is transposed too."""
    from transformers.pytorch_utils import Conv1D

    module = torch.nn.Sequential(randomized(Conv1D(5, 4)), torch.nn.Tanh(), randomized(Conv1D(5, 5)))
    cell = nn.SequentialCell([nn.Dense(4, 5), nn.Tanh(), nn.Dense(5, 5)])
    assert words(carry(module, cell, pair_up(module, cell)))["2.weight"] == "2.weight, axes (1, 0)"
    assert assert_parity(module, cell, (torch.randn(2, 4),)).ok
