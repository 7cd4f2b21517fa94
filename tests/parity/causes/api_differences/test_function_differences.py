"""Every entry of the table about functions, on blocks that call them wrongly and rightly."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch.nn.functional as F
from torch import nn as torch_nn

from cellbridge.parity.causes.api_differences import explain
from cellbridge.parity.causes.api_differences.entry import LayerPair
from cellbridge.parity.causes.api_differences.table import FUNCTIONS, FunctionDifference
from cellbridge.runtime import nn, ops
from tests.parity.causes.api_differences import blocks

CASES: list[tuple[type[torch_nn.Module], type[nn.Cell], str, type[nn.Cell]]] = [
    (
        blocks.Standardized,
        blocks.StandardizedWrong,
        "std(ddof=0) in @ in the candidate, std(correction=1) in @ in the reference; write ddof=1",
        blocks.StandardizedRight,
    ),
    (
        blocks.Gelu,
        blocks.GeluWrong,
        "GeLU(approximate='tanh') in @ in the candidate, gelu(approximate='none') in @ in the reference; "
        'write approximate="none"',
        blocks.GeluRight,
    ),
    (
        blocks.Leaky,
        blocks.LeakyWrong,
        "leaky_relu(alpha=0.2) in @ in the candidate, leaky_relu(negative_slope=0.01) in @ in the "
        "reference; write alpha=0.01",
        blocks.LeakyRight,
    ),
    (
        blocks.Weights,
        blocks.WeightsWrong,
        "softmax(axis=0) in @ in the candidate, softmax(dim=1) in @ in the reference; write axis=1",
        blocks.WeightsRight,
    ),
    (
        blocks.SmoothLoss,
        blocks.SmoothLossWrong,
        "smooth_l1_loss(reduction='none') in @ in the candidate, smooth_l1_loss(reduction='mean') in @ in "
        "the reference; "
        'write reduction="mean"',
        blocks.SmoothLossRight,
    ),
    (
        blocks.Halved,
        blocks.HalvedWrong,
        "avg_pool2d(stride=1) in @ in the candidate, avg_pool2d(stride=2) in @ in the reference; write stride=2",
        blocks.HalvedRight,
    ),
    (
        blocks.Dropped,
        blocks.DroppedWrong,
        "dropout(p=0.9) in @ in the candidate, dropout(p=0.1) in @ in the reference; write p=0.1",
        blocks.DroppedRight,
    ),
    (
        blocks.Dropped,
        blocks.DroppedAlways,
        "dropout(training=True) in @ in the candidate, dropout(training=self.training) in @ in the "
        "reference; write training=self.training",
        blocks.DroppedRight,
    ),
    (
        blocks.Dropped,
        blocks.DroppedByObject,
        "Dropout(keep_prob=0.1) in @ in the candidate, dropout(p=0.1) in @ in the reference; write keep_prob=0.9",
        blocks.DroppedRight,
    ),
    (
        blocks.Normed,
        blocks.NormedWrong,
        "LayerNorm(epsilon=1e-7) in @ in the candidate, layer_norm(eps=1e-5) in @ in the reference; write epsilon=1e-5",
        blocks.NormedRight,
    ),
    (
        blocks.Flat,
        blocks.FlatWrong,
        "flatten(start_dim=1) in @ in the candidate, flatten(start_dim=0) in @ in the reference; write start_dim=0",
        blocks.FlatRight,
    ),
    (
        blocks.Grown,
        blocks.GrownWrong,
        "ResizeBilinearV2(half_pixel_centers=False) in @ in the candidate, "
        "interpolate(align_corners=False) in @ in the reference; "
        "write half_pixel_centers=True",
        blocks.GrownRight,
    ),
    (
        blocks.Largest,
        blocks.LargestWrong,
        "x.max(axis)=values in @ in the candidate, x.max(dim)=(values, indices) in @ in the reference; "
        "write x.max(axis, return_indices=True)",
        blocks.LargestRight,
    ),
    (
        blocks.Cut,
        blocks.CutWrong,
        "stop_gradient=nowhere in the candidate, detach() in @ in the reference; write ops.stop_gradient(x)",
        blocks.CutRight,
    ),
    (
        blocks.Rows,
        blocks.RowsWrong,
        "x.size=the number of elements in @ in the candidate, x.size()=the shape in the reference; write x.shape[0]",
        blocks.RowsRight,
    ),
]


def name(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else ""


@pytest.mark.parametrize(("module", "wrong", "line", "right"), CASES, ids=name)
def test_calls_in_a_block_are_explained(module: Any, wrong: Any, line: str, right: Any) -> None:
    (explanation,) = explain(module(), wrong())
    assert re.sub(r"blocks\.py:\d+", "@", explanation) == f"{wrong.__name__}: {line}"


def test_the_place_is_that_of_the_call() -> None:
    (explanation,) = explain(blocks.Leaky(), blocks.LeakyWrong())
    lines = inspect.getsource(blocks).splitlines()
    places = [int(number) for number in re.findall(r"blocks\.py:(\d+)", explanation)]
    assert [lines[place - 1].strip() for place in places] == ["return ops.leaky_relu(x)", "return F.leaky_relu(x)"]


@pytest.mark.parametrize(("module", "wrong", "line", "right"), CASES, ids=name)
def test_nothing_is_said_of_right_calls(module: Any, wrong: Any, line: str, right: Any) -> None:
    assert explain(module(), right()) == []


def test_nothing_is_said_where_the_source_does_not_tell() -> None:
    assert explain(blocks.Unreadable(), blocks.UnreadableRight()) == []
    namespace: dict[str, Any] = {"nn": nn, "ops": ops}
    exec("class Made(nn.Cell):\n    def construct(self, x):\n        return ops.leaky_relu(x)", namespace)
    assert explain(blocks.Leaky(), namespace["Made"]()) == []


@pytest.mark.parametrize("entry", FUNCTIONS, ids=lambda entry: f"{entry.names[0]}-{entry.originals[0]}")
def test_every_entry_about_functions_has_a_case(entry: FunctionDifference) -> None:
    assert any(list(entry.find(LayerPair(module(), wrong()))) for module, wrong, *_ in CASES)


@pytest.mark.parametrize(
    ("name", "argument", "cell_default", "torch_default"),
    [
        ("leaky_relu", ("alpha", "negative_slope"), 0.2, 0.01),
        ("smooth_l1_loss", ("reduction", "reduction"), "none", "mean"),
        ("dropout", ("p", "p"), 0.5, 0.5),
        ("gelu", ("approximate", "approximate"), "none", None),
    ],
)
def test_defaults_are_those_of_the_functions(
    name: str, argument: tuple[str, str], cell_default: Any, torch_default: Any
) -> None:
    assert inspect.signature(getattr(ops, name)).parameters[argument[0]].default == cell_default
    if torch_default is not None:
        assert inspect.signature(getattr(F, name)).parameters[argument[1]].default == torch_default
