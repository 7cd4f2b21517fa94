"""Other layers, frozen Parameters, other dtypes, and activations ported wrongly."""

from __future__ import annotations

import torch
import torch.nn as torch_nn

from cellbridge.runtime import float16, nn
from tests.parity.causes.api_differences.difference_cases import Case, case, zeros


def frozen(layer: torch_nn.Module) -> torch_nn.Module:
    return layer.requires_grad_(False)


def frozen_dense() -> nn.Dense:
    dense = nn.Dense(4, 8)
    dense.weight.requires_grad = False
    dense.bias.requires_grad = False
    return dense


def frozen_norm() -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(4)
    norm.gamma.requires_grad = False
    return norm


GENERAL = [
    case(
        torch_nn.ReLU6(),
        nn.ReLU(),
        "ReLU: ReLU in the candidate, ReLU6 in the reference; write nn.ReLU6",
        nn.ReLU6(),
    ),
    case(
        torch_nn.MaxPool2d(2),
        nn.AvgPool2d(2, 2),
        "AvgPool2d: AvgPool2d in the candidate, MaxPool2d in the reference; write nn.MaxPool2d",
        nn.MaxPool2d(2, 2),
    ),
    case(
        torch_nn.Linear(4, 4),
        nn.Conv1d(4, 4, 1),
        "Conv1d: Conv1d in the candidate, Linear in the reference; write nn.Dense",
        nn.Dense(4, 4),
    ),
    case(
        torch_nn.Linear(4, 8),
        frozen_dense(),
        "Dense: requires_grad=False of weight, bias in the candidate, requires_grad=True of weight, bias "
        "in the reference; "
        "write weight.requires_grad = True, bias.requires_grad = True",
        nn.Dense(4, 8),
    ),
    case(
        torch_nn.BatchNorm2d(4),
        frozen_norm(),
        "BatchNorm2d: requires_grad=False of gamma in the candidate, requires_grad=True of weight in the reference; "
        "write gamma.requires_grad = True",
        nn.BatchNorm2d(4),
    ),
    case(
        frozen(torch_nn.Embedding(4, 8)),
        nn.Embedding(4, 8),
        "Embedding: requires_grad=True of embedding_table in the candidate, requires_grad=False of weight "
        "in the reference; "
        "write embedding_table.requires_grad = False",
        (torch_nn.Embedding(4, 8), nn.Embedding(4, 8)),
    ),
    case(
        torch_nn.Linear(4, 8),
        nn.Dense(4, 8).to_float(float16),
        "Dense: to_float=float16 in the candidate, dtype=float32 in the reference; write to_float(ms.float32)",
        (torch_nn.Linear(4, 8).to(torch.float16), nn.Dense(4, 8).to_float(float16)),
    ),
]

ACTIVATION = [
    case(
        torch_nn.GELU(),
        nn.GELU(),
        "GELU: approximate=True in the candidate, approximate='none' in the reference; write approximate=False",
        nn.GELU(approximate=False),
    ),
    case(
        torch_nn.GELU(approximate="tanh"),
        nn.GELU(False),
        "GELU: approximate=False in the candidate, approximate='tanh' in the reference; write approximate=True",
        nn.GELU(),
    ),
    case(
        torch_nn.GELU(),
        nn.FastGelu(),
        "FastGelu: x * sigmoid(1.702 * x) in the candidate, approximate='none' in the reference; write "
        "nn.GELU(approximate=False)",
        nn.GELU(approximate=False),
    ),
    case(
        torch_nn.LeakyReLU(),
        nn.LeakyReLU(),
        "LeakyReLU: alpha=0.2 in the candidate, negative_slope=0.01 in the reference; write alpha=0.01",
        nn.LeakyReLU(0.01),
    ),
    case(
        torch_nn.Softmax(dim=1),
        nn.Softmax(),
        "Softmax: axis=-1 in the candidate, dim=1 in the reference; write axis=1",
        nn.Softmax(axis=-2),
        zeros(2, 3, 4),
    ),
    case(
        torch_nn.LogSoftmax(),
        nn.LogSoftmax(),
        "LogSoftmax: axis=-1 in the candidate, dim=0 in the reference; write axis=0",
        nn.LogSoftmax((0,)),
        zeros(2, 3, 4),
    ),
    case(
        torch_nn.GLU(),
        nn.GLU(1),
        "GLU: axis=1 in the candidate, dim=-1 in the reference; write axis=-1",
        nn.GLU(2),
        zeros(2, 4, 4),
    ),
    case(
        torch_nn.ELU(),
        nn.ELU(alpha=0.5),
        "ELU: alpha=0.5 in the candidate, alpha=1.0 in the reference; write alpha=1.0",
        nn.ELU(),
    ),
    case(
        torch_nn.CELU(),
        nn.CELU(2),
        "CELU: alpha=2 in the candidate, alpha=1.0 in the reference; write alpha=1.0",
        nn.CELU(),
    ),
    case(
        torch_nn.Hardtanh(0.0),
        nn.Hardtanh(),
        "Hardtanh: min_val=-1.0 in the candidate, min_val=0.0 in the reference; write min_val=0.0",
        nn.Hardtanh(0, 1),
    ),
    case(
        torch_nn.Hardtanh(-1.0, 2.0),
        nn.Hardtanh(),
        "Hardtanh: max_val=1.0 in the candidate, max_val=2.0 in the reference; write max_val=2.0",
        nn.Hardtanh(-1, 2),
    ),
    case(
        torch_nn.Softshrink(1.0),
        nn.SoftShrink(),
        "SoftShrink: lambd=0.5 in the candidate, lambd=1.0 in the reference; write lambd=1.0",
        nn.SoftShrink(1.0),
    ),
    case(
        torch_nn.Hardshrink(1.0),
        nn.HShrink(),
        "HShrink: lambd=0.5 in the candidate, lambd=1.0 in the reference; write lambd=1.0",
        nn.HShrink(1.0),
    ),
    case(
        torch_nn.Threshold(0.5, 1.0),
        nn.Threshold(0.1, 1.0),
        "Threshold: threshold=0.1 in the candidate, threshold=0.5 in the reference; write threshold=0.5",
        nn.Threshold(0.5, 1.0),
    ),
    case(
        torch_nn.Threshold(0.5, 1.0),
        nn.Threshold(0.5, 0.0),
        "Threshold: value=0.0 in the candidate, value=1.0 in the reference; write value=1.0",
        nn.Threshold(0.5, 1.0),
    ),
    case(
        torch_nn.PReLU(4),
        nn.PReLU(),
        "PReLU: channel=1 in the candidate, num_parameters=4 in the reference; write channel=4",
        nn.PReLU(4),
    ),
    Case(
        torch_nn.RReLU(0.1, 0.3),
        nn.RReLU(0.2, 0.4),
        (
            "RReLU: lower=0.2 in the candidate, lower=0.1 in the reference; write lower=0.1",
            "RReLU: upper=0.4 in the candidate, upper=0.3 in the reference; write upper=0.3",
            "RReLU: slopes in eval mode=drawn in the candidate, slopes in eval mode=0.2 in the reference; "
            "write nn.LeakyReLU(alpha=0.2) for inference",
        ),
        (torch_nn.LeakyReLU(0.2), nn.LeakyReLU()),
    ),
    Case(
        torch_nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=2.0),
        nn.LRN(depth_radius=5, alpha=1e-4),
        (
            "LRN: depth_radius=5 in the candidate, size=5 in the reference; write depth_radius=2",
            "LRN: alpha=0.0001 in the candidate, alpha=0.0001 in the reference; write alpha=2e-5",
            "LRN: beta=0.5 in the candidate, beta=0.75 in the reference; write beta=0.75",
            "LRN: bias=1.0 in the candidate, k=2.0 in the reference; write bias=2.0",
        ),
        nn.LRN(depth_radius=2, bias=2.0, alpha=2e-5, beta=0.75),
    ),
]

CASES: list[Case] = [*GENERAL, *ACTIVATION]
