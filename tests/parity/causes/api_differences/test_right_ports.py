"""The right ports of the cases are right: they pass, in eval and in train mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cellbridge.parity import compare
from tests.parity.causes.api_differences import cases_activation, cases_layers, cases_normalization
from tests.parity.causes.api_differences.difference_cases import Case

CASES = [
    case
    for file in (cases_activation, cases_layers, cases_normalization)
    for case in file.CASES
    if not any(p.dtype == torch.float16 for p in case.right_pair[0].parameters())
]


def shape(module: Any) -> tuple[int, ...]:
    """An input that the layer takes."""
    match type(module).__name__:
        case "Linear":
            return (5, module.in_features)
        case "BatchNorm1d" | "InstanceNorm1d" | "GroupNorm":
            return (3, getattr(module, "num_features", None) or module.num_channels, 5)
        case "BatchNorm2d" | "InstanceNorm2d":
            return (3, module.num_features, 5, 5)
        case "BatchNorm3d" | "InstanceNorm3d":
            return (3, module.num_features, 5, 5, 5)
        case "LayerNorm":
            return (2, 3, *module.normalized_shape)
        case "ReflectionPad1d" | "ConstantPad1d":
            return (2, 3, 5)
        case _:
            return (2, 4, 8, 8) if not isinstance(module, torch.nn.Unflatten) else (2, 6, 6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.lines[0].partition(" in the candidate")[0])
@pytest.mark.every(4)
def test_right_ports_pass(case: Case) -> None:
    module, cell = case.right_pair
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(case.inputs[0].shape if case.inputs else shape(module), generator=generator)
    inputs = (torch.arange(4),) if isinstance(module, torch.nn.Embedding) else (x,)
    for train in (False, True):
        compare(module, cell, inputs, train=train).raise_if_failed()
